/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* gpuring-topo: show how GPUs and NICs are connected, and predict the time of collectives. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpuring-topo-machine.h"
#include "mca/topo_pci/xml/pci_file.h"
#include "tools/render/pci_render.h"

/* Return true if a command needs the search for channels, and not only the graph. */
static int needs_search(const struct topo_options *options)
{
    switch (options->command) {
    case TOPO_channels:
    case TOPO_predict:
    case TOPO_report:
    case TOPO_svg:
    case TOPO_html:
        return 1;
    default:
        return 0;
    }
}

/* Refuse a machine without a GPU if the command only concerns GPUs. */
static int gpu_check(const struct topo_machine *machine)
{
    enum topo_command command = machine->options->command;

    if (machine->gpus == 0 &&
        (command == TOPO_channels || command == TOPO_predict || command == TOPO_simulate)) {
        topo_message("%s: %s", machine->name, topo_no_gpu(machine));
        return TOPO_EXIT_FAILURE;
    }
    return TOPO_EXIT_OK;
}

static int status_of(int rc)
{
    if (rc != 0) {
        topo_message("%s", strerror(-rc));
    }
    return rc == 0 ? TOPO_EXIT_OK : TOPO_EXIT_FAILURE;
}

/* Print the notes after the output of a command. */
static int with_notes(FILE *out, const struct topo_machine *machine, int status)
{
    if (machine->notes[0]) {
        fprintf(out, "\n%s", machine->notes);
    }
    return status;
}

static int command_run(FILE *out, const struct topo_machine *machine)
{
    const struct topo_options *options = machine->options;

    switch (options->command) {
    case TOPO_report:
        return topo_json_print(out, machine);
    case TOPO_show:
        return with_notes(out, machine,
                          status_of(pci_render_tree(out, machine->doc, machine->graph)));
    case TOPO_matrix:
        return with_notes(out, machine, status_of(pci_render_matrix(out, machine->graph)));
    case TOPO_channels:
        return with_notes(out, machine, topo_channels_print(out, machine));
    case TOPO_predict:
        return with_notes(out, machine, topo_predict_print(out, machine));
    case TOPO_simulate:
        return topo_simulate_print(out, machine);
    case TOPO_svg:
        return topo_svg_print(out, machine);
    case TOPO_html:
        return topo_html_print(out, machine);
    default:
        return topo_xml_print(out, machine);
    }
}

/* Run the command with output to memory, then write the output. An error leaves an existing file
 * unchanged. */
static int output_make(const struct topo_machine *machine)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    const char *path = machine->options->output;
    char why[128];
    int status, broken;

    if (!out) {
        return status_of(-ENOMEM);
    }
    status = command_run(out, machine);
    broken = ferror(out);
    broken = fclose(out) != 0 || broken;
    if (status == TOPO_EXIT_OK && broken) {
        status = status_of(-ENOMEM);
    }
    if (status == TOPO_EXIT_OK && pci_file_write(path, text, length, why, sizeof why) != 0) {
        topo_message("cannot write %s: %s", path ? path : "standard output", why);
        status = TOPO_EXIT_FAILURE;
    }
    free(text);
    return status;
}

int main(int argc, char **argv)
{
    struct topo_options options;
    struct topo_machine machine;
    int status = topo_options_read(argc, argv, &options);

    if (status == 0) {
        status = topo_machine_load(&options, &machine);
        if (status == TOPO_EXIT_OK) {
            status = gpu_check(&machine);
        }
        if (status == TOPO_EXIT_OK && needs_search(&options)) {
            status = topo_machine_search(&machine);
        }
        if (status == TOPO_EXIT_OK) {
            status = output_make(&machine);
        }
        topo_machine_free(&machine);
    } else if (status < 0) {
        status = TOPO_EXIT_OK;
        if (fflush(stdout) != 0) {
            topo_message("cannot write standard output: %s", strerror(errno));
            status = TOPO_EXIT_FAILURE;
        }
    }
    topo_options_free(&options);
    return status;
}
