/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* The command line. */

#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "gpuring-argument.h"
#include "gpuring-topo.h"
#include "gpuring_version.h"
#include "mca/topo_pci/graph/pcigraph.h"
#include "mca/topo_pci/predict/pci_predict.h"

enum {
    NODES_MAX = 1 << 20,   /* with 8 GPUs each, more ranks than any machine has */
    JOB_NODES_MAX = 16384, /* of simulate */
    SHARING_MAX = 48,      /* clients of CUDA MPS */
    DEVICES_MAX = 65535,   /* device numbers in --gpus */
};

static const struct {
    const char *name;
    const char *help;
} commands[] = {
#define COMMAND(NAME, HELP) {#NAME, HELP},
    TOPO_COMMANDS(COMMAND)
#undef COMMAND
};

static void help_print(void)
{
    puts("Usage: gpuring-topo COMMAND [OPTION]...\n"
         "Shows how the GPUs and NICs of a machine are connected, which rings and trees an "
         "allreduce\n"
         "would use on them, and how fast it would be.\n\nCommands:");
    for (size_t i = 0; i < TOPO_COMMAND_COUNT; i++) {
        printf("  %-10s %s\n", commands[i].name, commands[i].help);
    }
    puts(
        "\nOptions:\n"
        "  -t, --topo FILE        a topology file in NCCL's format; without it, this machine\n"
        "  -n, --nodes N          N such machines (default 1; simulate: at most 16384,\n"
        "                         without it five jobs of 1 to 16384)\n"
        "  -g, --gpus LIST        only these GPUs, by rank in the file: 0,2,5 or 0-3\n"
        "  -p, --p2p ok|no        whether the driver permits GPUs to reach each other\n"
        "      --p2p-level CLASS  use peer access up to this path class (LOC NVL PIX PXB PHB SYS)\n"
        "      --gdr-level CLASS  use GPUDirect RDMA up to this path class\n"
        "  -d, --graph FILE       simulate with --nodes: write the channels of all ranks to FILE\n"
        "  -c, --containers       simulate: each rank sees only its own GPU; views are combined\n"
        "  -s, --sizes LIST       sizes to predict: 1K,64K,1M or 1K-1G (powers of two)\n"
        "  -m, --model FILE       constants of the cost model; reference: those of NCCL\n"
        "  -C, --collective NAME  predict: allreduce (default), bcast, reduce, scan, exscan,\n"
        "                         allgather, reduce_scatter, alltoall, gather or scatter\n"
        "  -S, --sharing N        predict: N ranks on each GPU, with CUDA MPS\n"
        "  -o, --output FILE      write there instead of standard output\n"
        "  -v, --verbose          report what was omitted or assumed\n"
        "  -h, --help             this text\n"
        "  -V, --version          the version\n"
        "\nExit status: 0 success; 1 an error of the machine, a file or the output; 2 wrong "
        "usage.\n"
        "See gpuring-topo(1).");
}

static int mistake(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int mistake(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    argument_message("gpuring-topo", format, args);
    va_end(args);
    fputs("Try 'gpuring-topo --help'.\n", stderr);
    return TOPO_EXIT_USAGE;
}

/* Read an integer from LOW to HIGH, which ends before any character of END or at the end of the
 * text. */
static int number_read(const char **text, unsigned long low, unsigned long high, const char *end,
                       unsigned *value)
{
    const char *after = *text;
    uint64_t number;

    if (argument_number(&after, low, high, &number) != 0 || (*after && !strchr(end, *after))) {
        return -1;
    }
    *value = (unsigned) number;
    *text = after;
    return 0;
}

static int gpu_add(struct topo_options *options, unsigned device)
{
    unsigned *more;

    for (size_t i = 0; i < options->ngpus; i++) {
        if (options->gpus[i] == device) {
            return -1;
        }
    }
    more = realloc(options->gpus, (options->ngpus + 1) * sizeof *more);
    if (!more) {
        return -1;
    }
    options->gpus = more;
    options->gpus[options->ngpus++] = device;
    return 0;
}

/* Read a list of different device numbers, such as "0,2,5-7". */
static int gpus_read(const char *text, struct topo_options *options)
{
    options->ngpus = 0;
    do {
        unsigned first, last;

        if (number_read(&text, 0, DEVICES_MAX, ",-", &first) != 0) {
            return -1;
        }
        last = first;
        if (*text == '-') {
            text++;
            if (number_read(&text, first, DEVICES_MAX, ",", &last) != 0) {
                return -1;
            }
        }
        for (unsigned device = first; device <= last; device++) {
            if (gpu_add(options, device) != 0) {
                return -1;
            }
        }
    } while (*text++ == ',');
    return 0;
}

static int level_read(const char *text, int *level)
{
    *level = pci_path_class_parse(text);
    return *level < 0 ? -1 : 0;
}

static int p2p_read(const char *text, int *p2p)
{
    *p2p = strcmp(text, "ok") == 0 ? 1 : strcmp(text, "no") == 0 ? 0 : -1;
    return *p2p < 0 ? -1 : 0;
}

/* Report an unknown word, and the most similar known word. */
static int unknown(const char *what, const char *word, const char *(*known)(size_t index))
{
    const char *nearest = argument_nearest(word, known);

    return nearest ? mistake("'%s' is not a %s; did you mean '%s'?", word, what, nearest)
                   : mistake("'%s' is not a %s", word, what);
}

static const char *command_name(size_t index)
{
    return index < TOPO_COMMAND_COUNT ? commands[index].name : NULL;
}

static const char *collective_name(size_t index)
{
    return pci_collective_name((enum pci_collective) index);
}

static const char *class_name(size_t index)
{
    return index < PCI_PATH_CLASS_COUNT ? pci_path_class_name((enum pci_path_class) index) : NULL;
}

/* Apply one option with its value. Return -1 if it is correct, otherwise the exit status. */
static int option_take(int option, const char *value, struct topo_options *options)
{
    const char *text = value;

    switch (option) {
    case 't':
        options->topo = value;
        return -1;
    case 'o':
        options->output = value;
        return -1;
    case 'm':
        options->model = value;
        return -1;
    case 's':
        options->sizes = value;
        return -1;
    case 'd':
        options->graph = value;
        return -1;
    case 'C':
        options->collective = pci_collective_parse(value);
        return options->collective >= 0
                   ? -1
                   : unknown("collective that is predicted", value, collective_name);
    case 'S':
        return number_read(&text, 1, SHARING_MAX, "", &options->sharing) == 0
                   ? -1
                   : mistake("--sharing: '%s' is not a number from 1 to 48", value);
    case 'c':
        options->containers = 1;
        return -1;
    case 'v':
        options->verbose = 1;
        return -1;
    case 'n':
        options->nodes_given = 1;
        return number_read(&text, 1, NODES_MAX, "", &options->nodes) == 0
                   ? -1
                   : mistake("--nodes: '%s' is not a number from 1 to 1048576", value);
    case 'g':
        return gpus_read(value, options) == 0
                   ? -1
                   : mistake("--gpus: '%s' is not a list of different GPUs (0,2,5-7)", value);
    case 'p':
        return p2p_read(value, &options->p2p) == 0
                   ? -1
                   : mistake("--p2p: '%s' is neither 'ok' nor 'no'", value);
    case 'P':
    case 'G':
        return level_read(value, option == 'P' ? &options->p2p_level : &options->gdr_level) == 0
                   ? -1
                   : unknown("path class (LOC, NVL, PIX, PXB, PHB or SYS)", value, class_name);
    case 'h':
        help_print();
        return TOPO_EXIT_OK;
    case 'V':
        puts("gpuring-topo (coll/gpuring) " GPURING_VERSION);
        return TOPO_EXIT_OK;
    default:
        return TOPO_EXIT_USAGE;
    }
}

static int command_read(const char *name, enum topo_command *command)
{
    for (size_t i = 0; i < TOPO_COMMAND_COUNT; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            *command = (enum topo_command) i;
            return -1;
        }
    }
    return unknown("command", name, command_name);
}

#define COMMAND(NAME) (1u << TOPO_##NAME)

/* Check that every given option has an effect on the command. Return -1, or the exit status. */
static int options_match(const struct topo_options *options)
{
    const unsigned searching =
        COMMAND(channels) | COMMAND(predict) | COMMAND(report) | COMMAND(svg) | COMMAND(html);
    const unsigned several = searching | COMMAND(simulate);
    const struct {
        int given;
        const char *name;
        unsigned commands;
    } rules[] = {
        {options->graph != NULL, "--graph", COMMAND(simulate)},
        {options->containers, "--containers", COMMAND(simulate)},
        {options->sizes != NULL, "--sizes", COMMAND(predict) | COMMAND(report) | COMMAND(html)},
        {options->model != NULL, "--model", searching},
        {options->collective != PCI_COLLECTIVE_ALLREDUCE, "--collective", COMMAND(predict)},
        {options->sharing > 1, "--sharing", COMMAND(predict)},
    };

    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i].given && !(rules[i].commands & 1u << options->command)) {
            return mistake("%s has no effect with '%s'", rules[i].name,
                           commands[options->command].name);
        }
    }
    if (options->nodes_given && !(several & 1u << options->command)) {
        return mistake("--nodes does nothing for '%s'", commands[options->command].name);
    }
    if (options->nodes > 1 && options->sharing > 1) {
        return mistake("--sharing is for one node");
    }
    if (options->nodes > 1 && options->collective != PCI_COLLECTIVE_ALLREDUCE &&
        options->collective != PCI_COLLECTIVE_BCAST &&
        options->collective != PCI_COLLECTIVE_REDUCE) {
        return mistake("--collective: between nodes allreduce, bcast and reduce are predicted");
    }
    if (options->graph && !options->nodes_given) {
        return mistake("--graph needs --nodes");
    }
    if (options->command == TOPO_simulate && options->nodes > JOB_NODES_MAX) {
        return mistake("--nodes: simulate takes at most %d, not %u", JOB_NODES_MAX, options->nodes);
    }
    return -1;
}
#undef COMMAND

static const struct option longs[] = {
    {"topo", required_argument, NULL, 't'},
    {"nodes", required_argument, NULL, 'n'},
    {"gpus", required_argument, NULL, 'g'},
    {"p2p", required_argument, NULL, 'p'},
    {"p2p-level", required_argument, NULL, 'P'},
    {"gdr-level", required_argument, NULL, 'G'},
    {"sizes", required_argument, NULL, 's'},
    {"model", required_argument, NULL, 'm'},
    {"output", required_argument, NULL, 'o'},
    {"verbose", no_argument, NULL, 'v'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {"graph", required_argument, NULL, 'd'},
    {"containers", no_argument, NULL, 'c'},
    {"collective", required_argument, NULL, 'C'},
    {"sharing", required_argument, NULL, 'S'},
    {NULL, 0, NULL, 0},
};

static const char *long_name(size_t index)
{
    return longs[index].name;
}

/* Report an option that getopt_long rejected: it is unknown, or its value is missing. */
static int option_wrong(const char *argument, int option)
{
    const char *nearest =
        strncmp(argument, "--", 2) == 0 ? argument_nearest(argument + 2, long_name) : NULL;

    if (option == ':') {
        return mistake("%s needs a value", argument);
    }
    return nearest ? mistake("%s is not an option; did you mean --%s?", argument, nearest)
                   : mistake("%s is not an option", argument);
}

int topo_options_read(int argc, char **argv, struct topo_options *options)
{
    int option, status = -1;

    memset(options, 0, sizeof *options);
    opterr = 0; /* this file prints the messages */
    options->nodes = options->sharing = 1;
    options->p2p = options->p2p_level = options->gdr_level = -1;
    while (status < 0 &&
           (option = getopt_long(argc, argv, ":t:n:g:p:s:m:o:d:C:S:cvhV", longs, NULL)) != -1) {
        status = option == '?' || option == ':' ? option_wrong(argv[optind - 1], option)
                                                : option_take(option, optarg, options);
    }
    if (status < 0 && optind >= argc) {
        fputs("gpuring-topo: which command?\nTry 'gpuring-topo --help'.\n", stderr);
        status = TOPO_EXIT_USAGE;
    }
    if (status < 0) {
        status = command_read(argv[optind], &options->command);
    }
    if (status < 0 && optind + 1 < argc) {
        status = mistake("unexpected argument '%s'", argv[optind + 1]);
    }
    return status < 0 ? options_match(options) : status;
}

void topo_options_free(struct topo_options *options)
{
    free(options->gpus);
}
