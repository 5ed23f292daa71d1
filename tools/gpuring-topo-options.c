/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* The command line, and messages. */

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

enum {
    OPTION_P2P_LEVEL = 256,
    OPTION_GDR_LEVEL,
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
        "  -M, --mapped           predict: persistent allreduces on mapped buffers (two-shot)\n"
        "  -o, --output FILE      write there instead of standard output\n"
        "  -v, --verbose          report what was omitted or assumed\n"
        "  -h, --help             this text\n"
        "  -V, --version          the version\n"
        "\nExit status: 0 success; 1 an error of the machine, a file or the output; 2 wrong "
        "usage.\n"
        "See gpuring-topo(1).");
}

void topo_message(const char *format, ...)
{
    va_list args;

    fflush(stdout);
    va_start(args, format);
    argument_message("gpuring-topo", format, args);
    va_end(args);
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

static int p2p_read(const char *text, int *p2p)
{
    *p2p = strcmp(text, "ok") == 0 ? 1 : strcmp(text, "no") == 0 ? 0 : -1;
    return *p2p < 0 ? -1 : 0;
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

static int level_read(const char *option, const char *text, int *level)
{
    *level = pci_path_class_parse(text);
    return *level >= 0 ? 0 : argument_unknown(option, text, class_name, mistake);
}

#define AT(member)   offsetof(struct topo_options, member)
#define FLAG(member) ARGUMENT_FLAG, AT(member), 0, 0
#define TEXT(member) ARGUMENT_TEXT, AT(member), 0, 0
static const struct argument_option table[] = {
    {"topo", 't', TEXT(topo)},
    {"nodes", 'n', ARGUMENT_COUNT, AT(nodes), 1, NODES_MAX},
    {"gpus", 'g', ARGUMENT_VALUE, 0, 0, 0},
    {"p2p", 'p', ARGUMENT_VALUE, 0, 0, 0},
    {"p2p-level", OPTION_P2P_LEVEL, ARGUMENT_VALUE, 0, 0, 0},
    {"gdr-level", OPTION_GDR_LEVEL, ARGUMENT_VALUE, 0, 0, 0},
    {"sizes", 's', TEXT(sizes)},
    {"model", 'm', TEXT(model)},
    {"output", 'o', TEXT(output)},
    {"verbose", 'v', FLAG(verbose)},
    {"help", 'h', ARGUMENT_OTHER, 0, 0, 0},
    {"version", 'V', ARGUMENT_OTHER, 0, 0, 0},
    {"graph", 'd', TEXT(graph)},
    {"containers", 'c', FLAG(containers)},
    {"collective", 'C', ARGUMENT_VALUE, 0, 0, 0},
    {"sharing", 'S', ARGUMENT_COUNT, AT(sharing), 1, SHARING_MAX},
    {"mapped", 'M', FLAG(mapped)},
    {NULL, 0, ARGUMENT_OTHER, 0, 0, 0},
};

/* Apply an option that the table does not. Return 0, the exit status after an error, or -1 to exit
 * with success. */
static int option_take(int letter, const char *value, void *context)
{
    struct topo_options *options = context;

    switch (letter) {
    case 'C':
        options->collective = pci_collective_parse(value);
        return options->collective >= 0
                   ? 0
                   : argument_unknown("--collective", value, collective_name, mistake);
    case 'g':
        return gpus_read(value, options) == 0
                   ? 0
                   : mistake("--gpus: '%s' is not a list of different GPUs (0,2,5-7)", value);
    case 'p':
        return p2p_read(value, &options->p2p) == 0
                   ? 0
                   : mistake("--p2p: '%s' is neither 'ok' nor 'no'", value);
    case OPTION_P2P_LEVEL:
        return level_read("--p2p-level", value, &options->p2p_level);
    case OPTION_GDR_LEVEL:
        return level_read("--gdr-level", value, &options->gdr_level);
    case 'h':
        help_print();
        return -1;
    default:
        puts("gpuring-topo (coll/gpuring) " GPURING_VERSION);
        return -1;
    }
}

static int command_read(const char *name, enum topo_command *command)
{
    for (size_t i = 0; i < TOPO_COMMAND_COUNT; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            *command = (enum topo_command) i;
            return 0;
        }
    }
    return argument_unknown("command", name, command_name, mistake);
}

#define COMMAND(NAME) (1u << TOPO_##NAME)

/* Check that every given option has an effect on the command. Return 0, or the exit status. */
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
        {options->mapped, "--mapped", COMMAND(predict)},
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
    return 0;
}
#undef COMMAND

int topo_options_read(int argc, char **argv, struct topo_options *options)
{
    bool given[ARGUMENT_LETTERS] = {false};
    int status;

    memset(options, 0, sizeof *options);
    options->nodes = options->sharing = 1;
    options->p2p = options->p2p_level = options->gdr_level = -1;
    status = argument_parse(argc, argv, table, options, given, option_take, mistake);
    options->nodes_given = given['n'];
    if (status == 0 && optind >= argc) {
        status = mistake("which command?");
    }
    if (status == 0) {
        status = command_read(argv[optind], &options->command);
    }
    if (status == 0 && optind + 1 < argc) {
        status = mistake("unexpected argument '%s'", argv[optind + 1]);
    }
    return status == 0 ? options_match(options) : status;
}

void topo_options_free(struct topo_options *options)
{
    free(options->gpus);
}
