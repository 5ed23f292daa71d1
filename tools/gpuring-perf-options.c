/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The command line of gpuring-perf. Every value is checked, and none is silently corrected. */
#include "gpuring-perf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
_Static_assert(OPTION_END <= ARGUMENT_LETTERS, "options fit");

#define AT(member)                 offsetof(struct perf_options, member)
#define FLAG(member)               ARGUMENT_FLAG, AT(member), 0, 0
#define TEXT(member)               ARGUMENT_TEXT, AT(member), 0, 0
#define BYTES(member)              ARGUMENT_BYTES, AT(member), 0, 0
#define COUNT(member, least, most) ARGUMENT_COUNT, AT(member), least, most
#define MOST                       100000000
static const struct argument_option table[] = {
    {"collective", 'c', ARGUMENT_VALUE, 0, 0, 0},
    {"begin", 'b', BYTES(min_bytes)},
    {"end", 'e', BYTES(max_bytes)},
    {"factor", 'f', ARGUMENT_VALUE, 0, 0, 0},
    {"step", 'i', BYTES(step_bytes)},
    {"type", 'd', ARGUMENT_VALUE, 0, 0, 0},
    {"op", 'o', ARGUMENT_VALUE, 0, 0, 0},
    {"root", 'r', COUNT(root, 0, MOST)},
    {"iterations", 'n', COUNT(iterations, 1, MOST)},
    {"warmup", 'w', COUNT(warmup, 0, MOST)},
    {"settle", OPTION_SETTLE, COUNT(settle_ms, 0, MOST)},
    {"in-place", 'p', FLAG(in_place)},
    {"barrier", OPTION_BARRIER, FLAG(barrier)},
    {"no-check", OPTION_NO_CHECK, FLAG(no_check)},
    {"percentiles", OPTION_PERCENTILES, FLAG(percentiles)},
    {"memory", 'm', ARGUMENT_VALUE, 0, 0, 0},
    {"json", 'j', TEXT(json)},
    {"tuning", OPTION_TUNE, TEXT(tune)},
    {"compare", OPTION_COMPARE, FLAG(compare)},
    {"enqueue", OPTION_ENQUEUE, FLAG(enqueue)},
    {"graph", OPTION_GRAPH, FLAG(graph)},
    {"rounds", OPTION_ROUNDS, COUNT(rounds, 1, PERF_MAX_ROUNDS)},
    {"selftest", OPTION_SELFTEST, FLAG(selftest)},
    {"seconds", OPTION_SECONDS, COUNT(seconds, 1, MOST)},
    {"help", 'h', ARGUMENT_OTHER, 0, 0, 0},
    {"version", 'V', ARGUMENT_OTHER, 0, 0, 0},
    {NULL, 0, ARGUMENT_OTHER, 0, 0, 0},
};

/* Apply an option that the table does not. Returns as perf_options_parse. */
static int take_option(int letter, const char *value, void *context)
{
    struct perf_options *options = context;

    switch (letter) {
    case 'c':
        return perf_select_collective(value, options);
    case 'f':
        return perf_value_factor(value, &options->factor);
    case 'd':
        return perf_select_types(value, options);
    case 'o':
        return perf_select_ops(value, options);
    case 'm':
        return perf_select_memory(value, &options->memory);
    case 'h':
        if (options->speaker) {
            print_help();
        }
        return 1;
    default:
        if (options->speaker) {
            printf("gpuring-perf (coll/gpuring) %s\n", GPURING_VERSION);
        }
        return 1;
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
static const unsigned useless[ARGUMENT_LETTERS] = {
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
static int check_idle(const struct perf_options *options, const bool given[ARGUMENT_LETTERS])
{
    if (given[OPTION_ROUNDS] && turns_of(options) == NULL) {
        return perf_message(
            "[option-conflict] --rounds: does something with --tuning or --compare only");
    }
    if (given[OPTION_SECONDS] && !options->selftest) {
        return perf_message("[option-conflict] --seconds does something with --selftest only");
    }
    if (given['f'] && given['i']) {
        return perf_message("[option-conflict] --factor and --step: give one of them");
    }
    for (size_t i = 0; table[i].name != NULL; i++) {
        const char *with = given[table[i].letter] ? useless_with(table[i].letter, options) : NULL;

        if (with != NULL) {
            return perf_message("[option-conflict] --%s does nothing with %s", table[i].name, with);
        }
    }
    return 0;
}

/* Select the enqueued form of the collective. */
static int select_enqueue(struct perf_options *options)
{
    const struct perf_collective *form = perf_enqueue_form(options->collective);

    if (options->memory != PERF_MEMORY_CUDA) {
        return perf_message("[option-conflict] --enqueue needs --memory cuda");
    }
    if (form == NULL) {
        return perf_message(
            "[option-conflict] --enqueue: %s cannot be enqueued; give allreduce, bcast, "
            "reduce, reduce_scatter_block, allgather or alltoall",
            options->collective->name);
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
        return perf_message("[bad-option] --begin is above --end");
    }
    if (turns != NULL && (options->ntypes != 1 || options->nops != 1)) {
        return perf_message("[option-conflict] %s measures one type and one operation", turns);
    }
    if (options->tune != NULL && perf_tune_number(options->collective) < 0) {
        return perf_message("[option-conflict] --tuning: there are no rules for %s alone; give "
                            "allreduce, bcast, reduce, scan, exscan, allgather, reduce_scatter, "
                            "alltoall, gather, scatter, or all",
                            options->collective->name);
    }
    if (options->all && (options->tune == NULL || options->in_place)) {
        return perf_message("[option-conflict] --collective all needs --tuning, and does not work "
                            "with --in-place");
    }
    if (options->tune != NULL && options->compare) {
        return perf_message("[option-conflict] --tuning and --compare: give one of them");
    }
    if (options->selftest && turns != NULL) {
        return perf_message("[option-conflict] --selftest and %s: give one of them", turns);
    }
    if (options->selftest && (options->ntypes != 1 || options->nops != 1 || options->no_check)) {
        return perf_message(
            "[option-conflict] --selftest checks results of one type and one operation");
    }
    if (options->tune != NULL && options->json != NULL) {
        return perf_message("[option-conflict] --tuning and --json: give one of them");
    }
    for (size_t t = 0; t < options->ntypes && !any; t++) {
        for (size_t o = 0; o < options->nops && !any; o++) {
            any = perf_op_fits(options->ops[o], options->types[t]);
        }
    }
    if (!any) {
        return perf_message("[option-conflict] MPI allows none of these operations on these types");
    }
    return 0;
}

int perf_options_parse(int argc, char **argv, bool speaker, struct perf_options *options)
{
    bool given[ARGUMENT_LETTERS] = {false};
    int status;

    perf_message_silence(!speaker);
    *options = (struct perf_options){
        .speaker = speaker,
        .collective = perf_collective_find("allreduce"),
        .min_bytes = 8,
        .max_bytes = (size_t) 64 << 20,
        .factor = 2,
        .warmup = 5,
        .settle_ms = 200,
        .rounds = 7,
        .seconds = 30,
        .selftest = perf_selftest_asked(argc, argv),
    };
    if (options->selftest) {
        options->max_bytes = (size_t) 4 << 20;
        options->memory = perf_memory_gpus() > 0 ? PERF_MEMORY_CUDA : PERF_MEMORY_HOST;
    }
    (void) perf_select_types("float", options);
    (void) perf_select_ops("sum", options);
    status = argument_parse(argc, argv, table, options, given, take_option, perf_message);
    options->enqueue |= options->graph;
    if (status == 0 && optind < argc) {
        status = perf_message("[bad-option] '%s' is not an option (see --help)", argv[optind]);
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
