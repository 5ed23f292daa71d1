/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * gpuring-fit: constants of the cost model from measurements. Reads what gpuring-perf --json
 * wrote, fits each algorithm and protocol that has enough sizes, and writes a table file with the
 * constants that changed.
 */
#include "gpuring-fit.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpuring-argument.h"
#include "gpuring_config.h"

enum { EXIT_FAILED = 1, EXIT_WRONG_USAGE = 2 };

void fit_message(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    argument_message("gpuring-fit", format, args);
    va_end(args);
}

static void help_print(void)
{
    puts("Usage: gpuring-fit --topo FILE [OPTION]... RESULTS...\n"
         "       gpuring-fit --bandwidth GBPS [OPTION]... RESULTS...\n"
         "Fits the cost model's constants to what gpuring-perf --json measured and writes them as "
         "a\n"
         "table file, which gpuring-topo predict --model reads.\n"
         "\nOptions:\n"
         "  -t, --topo FILE       the machine's topology; ranks of a node have its GPUs in order\n"
         "  -b, --bandwidth GBPS  instead: one channel of this bandwidth between all ranks (host)\n"
         "  -n, --nodes N         the ranks were on N nodes (default 1), equally many on each\n"
         "  -p, --protocol NAME   simple, ll or ll128, where the results do not say it\n"
         "  -m, --model FILE      constants to begin with (default: the built-in ones)\n"
         "  -o, --output FILE     write there instead of standard output\n"
         "  -h, --help            this text\n"
         "  -V, --version         the version\n"
         "\nExit status: 0 fine, 1 a file or the fit failed, 2 wrong usage. See gpuring-fit(1).");
}

static int usage(const char *what)
{
    fit_message("%s\nTry 'gpuring-fit --help'.", what);
    return EXIT_WRONG_USAGE;
}

/* The protocol of this name, or -1. */
static int protocol_read(const char *text)
{
    for (int p = 0; p < PCI_PROTOCOL_COUNT; p++) {
        if (0 == strcmp(text, pci_protocol_name((enum pci_protocol) p))) {
            return p;
        }
    }
    return -1;
}

/* Take one option with a value; returns NULL, or what is wrong. */
static const char *option_take(struct fit_options *options, int option, char *value)
{
    uint64_t nodes;
    char *end;

    switch (option) {
    case 't':
        options->topo = value;
        return NULL;
    case 'm':
        options->model = value;
        return NULL;
    case 'o':
        options->output = value;
        return NULL;
    case 'b':
        options->bandwidth = strtod(value, &end);
        return '\0' == *end && isfinite(options->bandwidth) && options->bandwidth > 0
                   ? NULL
                   : "--bandwidth takes a number of GB/s above 0";
    case 'n':
        if (argument_whole(value, 1, UINT32_MAX, &nodes) != 0) {
            return "--nodes takes a number of 1 or more";
        }
        options->nodes = (uint32_t) nodes;
        return NULL;
    case 'p':
        options->protocol = protocol_read(value);
        return options->protocol >= 0 ? NULL : "--protocol takes simple, ll or ll128";
    default:
        return "unknown option, or one without its value";
    }
}

/* Returns -1 to go on, else the exit status. */
static int options_read(int argc, char **argv, struct fit_options *options)
{
    static const struct option longs[] = {
        {"topo", required_argument, NULL, 't'},
        {"bandwidth", required_argument, NULL, 'b'},
        {"nodes", required_argument, NULL, 'n'},
        {"protocol", required_argument, NULL, 'p'},
        {"model", required_argument, NULL, 'm'},
        {"output", required_argument, NULL, 'o'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    int option;

    while (-1 != (option = getopt_long(argc, argv, "t:b:n:p:m:o:hV", longs, NULL))) {
        const char *wrong;

        if ('h' == option) {
            help_print();
            return EXIT_SUCCESS;
        }
        if ('V' == option) {
            puts("gpuring-fit " GPURING_VERSION);
            return EXIT_SUCCESS;
        }
        wrong = option_take(options, option, optarg);
        if (NULL != wrong) {
            return usage(wrong);
        }
    }
    if ((NULL == options->topo) == (0 == options->bandwidth)) {
        return usage("give either --topo or --bandwidth");
    }
    options->files = argv + optind;
    options->nfiles = argc - optind;
    return options->nfiles > 0 ? -1 : usage("no file of results");
}

/* Fit every pair that has samples, and say how well. Returns how many pairs were fitted. */
static int fit_all(const struct fit_data *data, struct pci_costs *costs)
{
    int fitted = 0;

    for (int a = 0; a < PCI_ALGORITHM_COUNT; a++) {
        for (int p = 0; p < PCI_PROTOCOL_COUNT; p++) {
            enum pci_algorithm algorithm = (enum pci_algorithm) a;
            enum pci_protocol protocol = (enum pci_protocol) p;
            struct pci_fit fit;
            int rc = pci_costs_fit(costs, algorithm, protocol, data->samples, data->nsamples, &fit);

            if (0 == rc) {
                fitted++;
                fit_message("%s %s: %u results, error %.1f %% (was %.1f %%)%s",
                            pci_algorithm_name(algorithm), pci_protocol_name(protocol), fit.samples,
                            100 * fit.error, 100 * fit.before,
                            fit.hops ? "" : "; base and hop in proportion");
            } else if (-EDOM == rc) {
                fit_message("%s %s: the results do not determine the constants",
                            pci_algorithm_name(algorithm), pci_protocol_name(protocol));
            }
        }
    }
    return fitted;
}

static int table_write(const char *path, const struct pci_costs *costs,
                       const struct pci_costs *before)
{
    FILE *file = NULL == path ? stdout : fopen(path, "we");
    int rc;

    if (NULL == file) {
        fit_message("%s: %s", path, strerror(errno));
        return -EIO;
    }
    rc = fputs("# Constants of the cost model, fitted by gpuring-fit.\n", file) >= 0
             ? pci_costs_write(file, costs, before)
             : -EIO;
    if (0 != (NULL == path ? fflush(file) : fclose(file)) || 0 != rc) {
        fit_message("%s: not written completely", NULL == path ? "standard output" : path);
        return -EIO;
    }
    return 0;
}

/* Start from the built-in constants and the model file. */
static int costs_begin(const struct fit_options *options, struct pci_costs *builtin,
                       struct pci_costs *costs)
{
    char error[200];
    int rc = NULL != options->topo ? pci_costs_gpu(builtin) : pci_costs_host(builtin);

    *costs = *builtin;
    if (0 == rc && NULL != options->model) {
        rc = pci_costs_load(options->model, costs, error, sizeof(error));
        if (0 != rc) {
            fit_message("%s: %s", options->model, error);
        }
    }
    return rc;
}

int main(int argc, char **argv)
{
    struct fit_options options = {.nodes = 1, .protocol = -1};
    struct fit_data data = {.options = &options};
    struct pci_costs builtin, costs;
    int status = options_read(argc, argv, &options);
    int rc;

    if (status >= 0) {
        return status;
    }
    rc = costs_begin(&options, &builtin, &costs);
    for (int i = 0; 0 == rc && i < options.nfiles; i++) {
        rc = fit_samples_read(&data, options.files[i]);
    }
    if (0 == rc) {
        if (data.skipped > 0) {
            fit_message(
                "%zu results left out: served by a fallback or by several algorithms, or of "
                "more ranks than the topology has GPUs",
                data.skipped);
        }
        if (0 == fit_all(&data, &costs)) {
            fit_message("nothing fitted: no algorithm and protocol has three usable results");
            rc = -ENODATA;
        } else {
            rc = table_write(options.output, &costs, &builtin);
        }
    }
    fit_jobs_free(&data);
    free(data.samples);
    return 0 == rc ? EXIT_SUCCESS : EXIT_FAILED;
}
