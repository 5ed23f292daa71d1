/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The command line of gpuring-perf. Every value is checked, and none is silently corrected. */
#include "gpuring-perf.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpuring-argument.h"
#include "gpuring_version.h"

static const char usage[] =
    "Usage: gpuring-run -n RANKS gpuring-perf [OPTION]...\n"
    "Measure an MPI collective over a sweep of sizes and check every result.\n"
    "\n"
    "  -c, --collective NAME   collective (default: allreduce); all: only with --tuning\n"
    "  -b, --begin BYTES       smallest size (default: 8); K, M, G: powers of 1024\n"
    "  -e, --end BYTES         largest size (default: 64M)\n"
    "  -f, --factor X          from size to size, multiply by X (default: 2)\n"
    "  -i, --step BYTES        from size to size, add BYTES instead\n"
    "  -d, --type LIST         types, comma separated, or all (default: float)\n"
    "  -o, --op LIST           operations, comma separated, or all (default: sum)\n"
    "  -r, --root RANK         root of collectives that have one (default: 0)\n"
    "  -n, --iterations N      timed calls per size (default: 10 to 1000 by size)\n"
    "  -w, --warmup N          untimed calls before them (default: 5)\n"
    "      --settle MS         make calls for MS ms before the first size (default: 200)\n"
    "  -p, --in-place          pass MPI_IN_PLACE\n"
    "      --barrier           barrier before each timed call, outside its time\n"
    "      --no-check          do not check results\n"
    "      --percentiles       also show minimum, 50 %, 90 %, 99 % and maximum\n"
    "      --enqueue           enqueue the calls in a CUDA stream, and show its time per call;\n"
    "                          allreduce, bcast, reduce, reduce_scatter_block, allgather, "
    "alltoall\n"
    "      --graph             the same, with the timed calls in a CUDA graph\n"
    "  -m, --memory KIND       host or cuda (default: host)\n"
    "  -j, --json FILE         write all figures to FILE as JSON too; -: to standard output,\n"
    "                          instead of the table\n"
    "      --tuning FILE       write a tuning file: measure at each size every algorithm and\n"
    "                          protocol, and the component that would serve without them\n"
    "      --compare           compare with the component that would serve without\n"
    "                          coll/gpuring\n"
    "      --selftest          check every path between the ranks, with changing data, while all\n"
    "                          others are busy; shows which paths are right and how fast\n"
    "      --seconds N         duration of --selftest, at least one pass (default: 30)\n"
    "      --rounds N          rounds of --tuning and --compare, in which components\n"
    "                          alternate (default: 7)\n"
    "  -h, --help              this text\n"
    "  -V, --version           the version\n"
    "\n"
    "Collectives, the size, and the factor from algbw to busbw for n ranks:\n";

static void print_help(void)
{
    const struct perf_collective *collective;
    const struct perf_type *type;
    const struct perf_op *op;

    fputs(usage, stdout);
    for (size_t i = 0; (collective = perf_collective_at(i)) != NULL; i++) {
        if (collective->run == collective->blocking) {
            printf("  %-22s  %-24s  %s\n", collective->name, perf_collective_size(collective),
                   perf_collective_bus_text(collective));
        }
    }
    fputs("and non-blocking ones (iallreduce, ...) and persistent ones (allreduce_init, ...) of "
          "all.\n"
          "Types:",
          stdout);
    for (size_t i = 0; (type = perf_type_at(i)) != NULL; i++) {
        printf(" %s", type->name);
    }
    fputs("\nOperations:", stdout);
    for (size_t i = 0; (op = perf_op_at(i)) != NULL; i++) {
        printf(" %s", op->name);
    }
    fputs(
        "\nExit status: 0 if all results were right, 1 if one was wrong, 2 for any other error.\n",
        stdout);
}

enum {
    OPTION_BARRIER = 256,
    OPTION_NO_CHECK,
    OPTION_PERCENTILES,
    OPTION_SETTLE,
    OPTION_TUNE,
    OPTION_COMPARE,
    OPTION_ENQUEUE,
    OPTION_GRAPH,
    OPTION_ROUNDS,
    OPTION_SELFTEST,
    OPTION_SECONDS,
    OPTION_END
};

static const struct option long_options[] = {
    {"collective", required_argument, NULL, 'c'},
    {"begin", required_argument, NULL, 'b'},
    {"end", required_argument, NULL, 'e'},
    {"factor", required_argument, NULL, 'f'},
    {"step", required_argument, NULL, 'i'},
    {"type", required_argument, NULL, 'd'},
    {"op", required_argument, NULL, 'o'},
    {"root", required_argument, NULL, 'r'},
    {"iterations", required_argument, NULL, 'n'},
    {"warmup", required_argument, NULL, 'w'},
    {"settle", required_argument, NULL, OPTION_SETTLE},
    {"in-place", no_argument, NULL, 'p'},
    {"barrier", no_argument, NULL, OPTION_BARRIER},
    {"no-check", no_argument, NULL, OPTION_NO_CHECK},
    {"percentiles", no_argument, NULL, OPTION_PERCENTILES},
    {"memory", required_argument, NULL, 'm'},
    {"json", required_argument, NULL, 'j'},
    {"tuning", required_argument, NULL, OPTION_TUNE},
    {"compare", no_argument, NULL, OPTION_COMPARE},
    {"enqueue", no_argument, NULL, OPTION_ENQUEUE},
    {"graph", no_argument, NULL, OPTION_GRAPH},
    {"rounds", required_argument, NULL, OPTION_ROUNDS},
    {"selftest", no_argument, NULL, OPTION_SELFTEST},
    {"seconds", required_argument, NULL, OPTION_SECONDS},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

/* Apply one option. Returns as perf_options_parse. */
static int apply(int option, const char *value, bool speaker, struct perf_options *options)
{
    switch (option) {
    case 'c':
        return perf_select_collective(value, options);
    case 'b':
        return perf_value_bytes("--begin", value, &options->min_bytes);
    case 'e':
        return perf_value_bytes("--end", value, &options->max_bytes);
    case 'f':
        return perf_value_factor(value, &options->factor);
    case 'i':
        return perf_value_bytes("--step", value, &options->step_bytes);
    case 'd':
        return perf_select_types(value, options);
    case 'o':
        return perf_select_ops(value, options);
    case 'r':
        return perf_value_count("--root", value, 0, &options->root);
    case 'n':
        return perf_value_count("--iterations", value, 1, &options->iterations);
    case OPTION_SETTLE:
        return perf_value_count("--settle", value, 0, &options->settle_ms);
    case 'w':
        return perf_value_count("--warmup", value, 0, &options->warmup);
    case 'p':
        options->in_place = true;
        return 0;
    case OPTION_BARRIER:
        options->barrier = true;
        return 0;
    case OPTION_NO_CHECK:
        options->check = false;
        return 0;
    case OPTION_PERCENTILES:
        options->percentiles = true;
        return 0;
    case 'm':
        return perf_select_memory(value, &options->memory);
    case 'j':
        options->json = value;
        return 0;
    case OPTION_TUNE:
        options->tune = value;
        return 0;
    case OPTION_COMPARE:
        options->compare = true;
        return 0;
    case OPTION_ENQUEUE:
        options->enqueue = true;
        return 0;
    case OPTION_GRAPH:
        options->enqueue = options->graph = true;
        return 0;
    case OPTION_ROUNDS:
        return perf_value_count("--rounds", value, 1, &options->rounds);
    case OPTION_SELFTEST:
        return 0; /* see perf_selftest_asked */
    case OPTION_SECONDS:
        return perf_value_count("--seconds", value, 1, &options->seconds);
    case 'h':
        if (speaker) {
            print_help();
        }
        return 1;
    case 'V':
        if (speaker) {
            printf("gpuring-perf (coll/gpuring) %s\n", GPURING_VERSION);
        }
        return 1;
    default:
        return -1;
    }
}

static const char *long_name(size_t index)
{
    return long_options[index].name;
}

/* Report an option that getopt_long rejected: it is unknown, or its value is missing. */
static void report_option(const char *argument, int option)
{
    const char *nearest =
        strncmp(argument, "--", 2) == 0 ? argument_nearest(argument + 2, long_name) : NULL;

    if (option == ':') {
        perf_message("[bad-option] %s needs a value (see --help)", argument);
    } else if (nearest != NULL) {
        perf_message("[bad-option] %s is not an option; did you mean --%s?", argument, nearest);
    } else {
        perf_message("[bad-option] %s is not an option; try --help", argument);
    }
}

static const char *turns_of(const struct perf_options *options)
{
    return options->tune != NULL ? "--tuning" : options->compare ? "--compare" : NULL;
}

/* Cases in which an option has no effect. */
enum {
    WITH_SELFTEST = 1,
    WITH_TURNS = 2, /* --tuning and --compare */
    WITHOUT_DATA = 4,
    WITHOUT_REDUCTION = 8,
    WITHOUT_ROOT = 16,
    WITHOUT_IN_PLACE = 32,
    WITH_ENQUEUE = 64,
};
static const unsigned useless[OPTION_END] = {
    ['c'] = WITH_SELFTEST,
    ['b'] = WITH_SELFTEST | WITHOUT_DATA,
    ['e'] = WITHOUT_DATA,
    ['f'] = WITH_SELFTEST | WITHOUT_DATA,
    ['i'] = WITH_SELFTEST | WITHOUT_DATA,
    ['d'] = WITHOUT_DATA,
    ['o'] = WITHOUT_REDUCTION,
    ['r'] = WITH_SELFTEST | WITHOUT_ROOT,
    ['n'] = WITH_SELFTEST,
    ['w'] = WITH_SELFTEST | WITH_TURNS,
    ['p'] = WITH_SELFTEST | WITHOUT_IN_PLACE,
    [OPTION_SETTLE] = WITH_SELFTEST,
    [OPTION_BARRIER] = WITH_SELFTEST | WITH_TURNS | WITH_ENQUEUE,
    [OPTION_ENQUEUE] = WITH_SELFTEST | WITH_TURNS,
    [OPTION_GRAPH] = WITH_SELFTEST | WITH_TURNS,
    [OPTION_NO_CHECK] = WITHOUT_DATA,
    [OPTION_PERCENTILES] = WITH_SELFTEST | WITH_TURNS | WITH_ENQUEUE,
};

/* Return the collective or the option that leaves `option` without effect, or NULL. */
static const char *useless_with(int option, const struct perf_options *options)
{
    const struct perf_collective *collective = options->collective;
    bool no_data = collective->shape == PERF_NO_DATA;
    unsigned causes = (no_data ? WITHOUT_DATA : 0) |
                      (no_data || collective->shape == PERF_BCAST ? WITHOUT_IN_PLACE : 0) |
                      (perf_collective_reduces(collective) ? 0 : WITHOUT_REDUCTION) |
                      (perf_collective_has_root(collective) ? 0 : WITHOUT_ROOT);

    if (options->selftest && useless[option] & WITH_SELFTEST) {
        return "--selftest";
    }
    if (turns_of(options) != NULL && useless[option] & WITH_TURNS) {
        return turns_of(options);
    }
    if (options->enqueue && useless[option] & WITH_ENQUEUE) {
        return "--enqueue";
    }
    /* Some of several collectives use every option. */
    return !options->selftest && !options->all && useless[option] & causes ? collective->name
                                                                           : NULL;
}

/* Reject options without an effect. */
static int check_idle(const struct perf_options *options, const bool given[OPTION_END])
{
    if (given[OPTION_ROUNDS] && turns_of(options) == NULL) {
        perf_message("[option-conflict] --rounds: does something with --tuning or --compare only");
        return -1;
    }
    if (given[OPTION_SECONDS] && !options->selftest) {
        perf_message("[option-conflict] --seconds does something with --selftest only");
        return -1;
    }
    if (given['f'] && given['i']) {
        perf_message("[option-conflict] --factor and --step: give one of them");
        return -1;
    }
    for (size_t i = 0; long_options[i].name != NULL; i++) {
        const char *with =
            given[long_options[i].val] ? useless_with(long_options[i].val, options) : NULL;

        if (with != NULL) {
            perf_message("[option-conflict] --%s does nothing with %s", long_options[i].name, with);
            return -1;
        }
    }
    return 0;
}

/* Select the enqueued form of the collective. */
static int select_enqueue(struct perf_options *options)
{
    const struct perf_collective *form = perf_enqueue_form(options->collective);

    if (options->memory != PERF_MEMORY_CUDA) {
        perf_message("[option-conflict] --enqueue needs --memory cuda");
        return -1;
    }
    if (form == NULL) {
        perf_message("[option-conflict] --enqueue: %s cannot be enqueued; give allreduce, bcast, "
                     "reduce, reduce_scatter_block, allgather or alltoall",
                     options->collective->name);
        return -1;
    }
    options->collective = form;
    return 0;
}

/* Reject combinations of values that contradict each other. */
static int check_together(const struct perf_options *options)
{
    bool any = !perf_collective_reduces(options->collective);
    const char *turns = turns_of(options);

    if (options->min_bytes > options->max_bytes) {
        perf_message("[bad-option] --begin is above --end");
        return -1;
    }
    if (turns != NULL && (options->ntypes != 1 || options->nops != 1)) {
        perf_message("[option-conflict] %s measures one type and one operation", turns);
        return -1;
    }
    if (options->tune != NULL && perf_tune_number(options->collective) < 0) {
        perf_message("[option-conflict] --tuning: there are no rules for %s alone; give "
                     "allreduce, bcast, reduce, scan, exscan, allgather, reduce_scatter, "
                     "alltoall, gather, scatter, or all",
                     options->collective->name);
        return -1;
    }
    if (options->all && (options->tune == NULL || options->in_place)) {
        perf_message("[option-conflict] --collective all needs --tuning, and does not work "
                     "with --in-place");
        return -1;
    }
    if (options->rounds > PERF_MAX_ROUNDS) {
        perf_message("[bad-option] --rounds %d: give %d at most", options->rounds, PERF_MAX_ROUNDS);
        return -1;
    }
    if (options->tune != NULL && options->compare) {
        perf_message("[option-conflict] --tuning and --compare: give one of them");
        return -1;
    }
    if (options->selftest && turns != NULL) {
        perf_message("[option-conflict] --selftest and %s: give one of them", turns);
        return -1;
    }
    if (options->selftest && (options->ntypes != 1 || options->nops != 1 || !options->check)) {
        perf_message("[option-conflict] --selftest checks results of one type and one operation");
        return -1;
    }
    if (options->tune != NULL && options->json != NULL) {
        perf_message("[option-conflict] --tuning and --json: give one of them");
        return -1;
    }
    for (size_t t = 0; t < options->ntypes && !any; t++) {
        for (size_t o = 0; o < options->nops && !any; o++) {
            any = perf_op_fits(options->ops[o], options->types[t]);
        }
    }
    if (!any) {
        perf_message("[option-conflict] MPI allows none of these operations on these types");
        return -1;
    }
    return 0;
}

int perf_options_parse(int argc, char **argv, bool speaker, struct perf_options *options)
{
    bool given[OPTION_END] = {false}; /* indexed by the option's number */
    int option, status = 0;

    perf_message_silence(!speaker);
    opterr = 0; /* this file prints the messages */
    *options = (struct perf_options){
        .collective = perf_collective_find("allreduce"),
        .min_bytes = 8,
        .max_bytes = (size_t) 64 << 20,
        .factor = 2,
        .warmup = 5,
        .settle_ms = 200,
        .rounds = 7,
        .check = true,
        .seconds = 30,
        .selftest = perf_selftest_asked(argc, argv),
    };
    if (options->selftest) {
        options->max_bytes = (size_t) 4 << 20;
        options->memory = perf_memory_gpus() > 0 ? PERF_MEMORY_CUDA : PERF_MEMORY_HOST;
    }
    if (perf_select_types("float", options) != 0 || perf_select_ops("sum", options) != 0) {
        return -1;
    }
    while (status == 0 && (option = getopt_long(argc, argv, ":c:b:e:f:i:d:o:r:n:w:pm:j:hV",
                                                long_options, NULL)) != -1) {
        status = apply(option, optarg, speaker, options);
        if (option == '?' || option == ':') {
            report_option(argv[optind - 1], option);
        } else {
            given[option] = true;
        }
    }
    if (status == 0 && optind < argc) {
        perf_message("[bad-option] '%s' is not an option (see --help)", argv[optind]);
        status = -1;
    }
    if (status == 0 && options->collective->shape == PERF_NO_DATA) {
        options->min_bytes = options->max_bytes = 0;
    }
    if (status == 0) {
        status = check_idle(options, given);
    }
    if (status == 0) {
        status = check_together(options);
    }
    if (status == 0 && options->enqueue) {
        status = select_enqueue(options);
    }
    perf_message_silence(false);
    return status;
}

void perf_options_free(struct perf_options *options)
{
    free(options->types);
    free(options->ops);
    options->types = NULL;
    options->ops = NULL;
}
