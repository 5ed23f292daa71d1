/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The collectives other than allreduce, on the connections of allreduce plans: proven by the
 * checker for all roots, refused when a step is changed, and run by the host executor, over each
 * protocol, with even and uneven blocks, in place and not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "test/unit/block_threads.h"
#include "test/unit/fabric.h"
#include "test/unit/plans.h"

/* What plans are built on: trees are chains in rank order, or any trees. */
static const struct base {
    enum gpuring_algorithm algorithm;
    bool in_order;
} bases[] = {{GPURING_ALGORITHM_RING, false},
             {GPURING_ALGORITHM_DIRECT, true},
             {GPURING_ALGORITHM_TREE, true},
             {GPURING_ALGORITHM_TREE, false}};
#define NBASES (sizeof bases / sizeof *bases)

static void quiet(enum gpuring_log_level level, const char *text)
{
    (void) level;
    (void) text;
}

static bool base_has(enum gpuring_collective collective, const struct base *base)
{
    return gpuring_plan_exists(collective, base->algorithm, base->in_order);
}

static int roots_of(enum gpuring_collective collective, int nranks)
{
    return gpuring_collective_is_rooted(collective) ? nranks : 1;
}

/* Everything that there is, for each root, and reductions in rank order but for those on rings and
 * trees. Direct and chains need one slot; steps of rings and trees receive and send: two. */
static void test_proven(void **state)
{
    int proven = 0;

    (void) state;
    for (int c = 1; c < GPURING_COLLECTIVE_COUNT; c++) {
        enum gpuring_collective collective = (enum gpuring_collective) c;

        for (size_t a = 0; a < NBASES; a++) {
            for (int n = 2; n <= 64 && base_has(collective, &bases[a]); n += n < 17 ? 1 : 47) {
                for (int root = 0; root < roots_of(collective, n); root += n < 17 ? 1 : 9) {
                    struct test_plans plans;
                    char text[256] = "";

                    test_plans_build_on(&plans, collective, bases[a].algorithm, n,
                                        1 + (uint32_t) n % 3, root, bases[a].in_order);
                    if (test_plans_check(&plans, bases[a].in_order ? 1 : 2, text, sizeof text) !=
                        GPURING_OK) {
                        fail_msg("%s by %s, %d ranks, root %d: %s",
                                 gpuring_collective_text(collective),
                                 gpuring_algorithm_text(bases[a].algorithm), n, root, text);
                    }
                    assert_int_equal(plans.plans[0]->in_order, bases[a].in_order);
                    test_plans_free(&plans);
                    proven++;
                }
            }
        }
    }
    assert_true(proven > 1000);
}

/* One change in one step. */
enum change { DROP, NO_STORE, STORE, OTHER_CHUNK, CHANGES };

/* Returns 0 if this change changes nothing. */
static int change_step(struct gpuring_plan_lane *lane, uint32_t k, enum change change)
{
    struct gpuring_step *step = (struct gpuring_step *) (uintptr_t) &lane->steps[k];

    switch (change) {
    case DROP:
        memmove(step, step + 1, (lane->nsteps - k - 1) * sizeof *step);
        lane->nsteps--;
        return 1;
    case NO_STORE:
        if ((step->flags & GPURING_STEP_STORE) == 0 || lane->nsteps == 0) {
            return 0;
        }
        step->flags = (uint16_t) (step->flags & ~GPURING_STEP_STORE);
        return 1;
    case STORE:
        if (step->flags & GPURING_STEP_STORE) {
            return 0;
        }
        step->flags |= GPURING_STEP_STORE;
        return 1;
    default:
        if (lane->nchunks == 1) {
            return 0;
        }
        step->chunk = (step->chunk + 1) % lane->nchunks;
        return 1;
    }
}

/* Every change of every step of every rank is refused. */
static void test_changed(void **state)
{
    int changed = 0;

    (void) state;
    for (int c = 1; c < GPURING_COLLECTIVE_COUNT; c++) {
        for (size_t at = 0; at < NBASES * CHANGES * 4; at++) {
            enum gpuring_collective collective = (enum gpuring_collective) c;
            const struct base *base = &bases[at % NBASES];
            enum change change = (enum change)(at / NBASES % CHANGES);
            int rank = (int) (at / NBASES / CHANGES), root = 2;
            bool more = base_has(collective, base);

            for (uint32_t k = 0; more; k++) {
                struct test_plans plans;
                char text[256] = "accepted";

                test_plans_build_on(&plans, collective, base->algorithm, 4, 1, root,
                                    base->in_order);
                more = k < plans.plans[rank]->lanes[0].nsteps;
                if (more && change_step(&plans.plans[rank]->lanes[0], k, change)) {
                    if (test_plans_check(&plans, 4, text, sizeof text) != GPURING_ERR_DATA) {
                        fail_msg("%s by %s, rank %d step %u, change %d: %s",
                                 gpuring_collective_text(collective),
                                 gpuring_algorithm_text(base->algorithm), rank, k, (int) change,
                                 text);
                    }
                    changed++;
                }
                test_plans_free(&plans);
            }
        }
    }
    assert_true(changed > 200);
}

/* ---- Execution ---- */

#define MOST_RANKS 7
#define GUARD      0x5a

/* A collective on blocks of uint32 (or one vector), whose counts for sender i and receiver j are
 * counts[i][j]. */
struct run {
    enum gpuring_collective collective;
    enum gpuring_algorithm algorithm;
    enum gpuring_protocol protocol;
    int nranks, root;
    bool uneven, in_place, blocks; /* blocks: executed by blocks of threads */
    uint64_t count;                /* of the vector, or of an even block */
    uint64_t counts[MOST_RANKS][MOST_RANKS];
    struct gpuring_extent in[MOST_RANKS][MOST_RANKS], out[MOST_RANKS][MOST_RANKS];
    uint64_t in_end[MOST_RANKS], out_end[MOST_RANKS]; /* elements of the buffers */
    uint32_t *input[MOST_RANKS], *output[MOST_RANKS];
};

static uint32_t element(int rank, uint64_t block, uint64_t at)
{
    return (uint32_t) (1000003u * (unsigned) (rank + 1) + 10007u * block + 7u * at);
}

/* Which blocks are in a rank's input and output; the counts of blocks. */
static uint64_t in_count(const struct run *run, int rank, int block)
{
    switch (run->collective) {
    case GPURING_COLLECTIVE_ALLGATHER:
    case GPURING_COLLECTIVE_GATHER:
        return block == rank ? run->counts[rank][0] : 0;
    case GPURING_COLLECTIVE_REDUCE_SCATTER:
        return run->counts[block][0];
    case GPURING_COLLECTIVE_SCATTER:
        return rank == run->root ? run->counts[block][0] : 0;
    case GPURING_COLLECTIVE_ALLTOALL:
        return run->counts[rank][block];
    default:
        return block == 0 ? run->count : 0;
    }
}

static uint64_t out_count(const struct run *run, int rank, int block)
{
    switch (run->collective) {
    case GPURING_COLLECTIVE_ALLGATHER:
        return run->counts[block][0];
    case GPURING_COLLECTIVE_GATHER:
        return rank == run->root ? run->counts[block][0] : 0;
    case GPURING_COLLECTIVE_REDUCE_SCATTER:
    case GPURING_COLLECTIVE_SCATTER:
        return block == rank ? run->counts[rank][0] : 0;
    case GPURING_COLLECTIVE_ALLTOALL:
        return run->counts[block][rank];
    default:
        return block == 0 ? run->count : 0;
    }
}

/* What belongs to element `at` of block `block` of a rank's output; 0: nothing does. */
static int expected(const struct run *run, int rank, int block, uint64_t at, uint32_t *value)
{
    int first = 0, end = run->nranks, from = block;

    switch (run->collective) {
    case GPURING_COLLECTIVE_BCAST:
        first = run->root;
        end = rank == run->root ? first : first + 1;
        break;
    case GPURING_COLLECTIVE_REDUCE:
        end = rank == run->root ? end : 0;
        break;
    case GPURING_COLLECTIVE_SCAN:
        end = rank + 1;
        break;
    case GPURING_COLLECTIVE_EXSCAN:
        end = rank;
        break;
    case GPURING_COLLECTIVE_ALLGATHER:
    case GPURING_COLLECTIVE_GATHER:
        first = block;
        end = block + 1;
        break;
    case GPURING_COLLECTIVE_ALLTOALL:
        first = block;
        end = block + 1;
        from = rank;
        break;
    case GPURING_COLLECTIVE_SCATTER:
        first = run->root;
        end = first + 1;
        break;
    default:
        break;
    }
    *value = 0;
    for (int i = first; i < end; i++) {
        *value += element(i, (uint64_t) from, at);
    }
    return first < end;
}

/* Blocks one behind the other with a gap of 3 elements, so that nothing is aligned. */
static uint64_t lay_out(const struct run *run, int rank,
                        uint64_t (*count)(const struct run *, int, int),
                        struct gpuring_extent *extents)
{
    uint64_t end = 0;

    for (int block = 0; block < run->nranks; block++) {
        extents[block] = (struct gpuring_extent){4 * end, count(run, rank, block)};
        end += extents[block].count > 0 ? extents[block].count + (run->uneven ? 3 : 0) : 0;
    }
    return end;
}

static struct gpuring_blocks blocks_of(const struct run *run, const struct gpuring_extent *extents,
                                       int rank, bool many)
{
    if (run->uneven) {
        return (struct gpuring_blocks){.table = extents};
    }
    return (struct gpuring_blocks){.stride = many ? 4 * run->count : 0,
                                   .count = run->count + 0 * (uint64_t) rank};
}

static bool has_many(const struct run *run, bool output)
{
    switch (run->collective) {
    case GPURING_COLLECTIVE_ALLGATHER:
    case GPURING_COLLECTIVE_GATHER:
        return output;
    case GPURING_COLLECTIVE_REDUCE_SCATTER:
    case GPURING_COLLECTIVE_SCATTER:
        return !output;
    default:
        return true;
    }
}

static void make_buffers(struct run *run)
{
    for (int rank = 0; rank < run->nranks; rank++) {
        run->in_end[rank] = lay_out(run, rank, in_count, run->in[rank]);
        run->out_end[rank] = lay_out(run, rank, out_count, run->out[rank]);
        if (run->in_place) { /* where both have the same blocks */
            run->in_end[rank] = run->out_end[rank];
        }
        run->output[rank] = malloc(4 * run->out_end[rank] + 16);
        memset(run->output[rank], GUARD, 4 * run->out_end[rank] + 16);
        run->input[rank] = run->output[rank];
        if (!run->in_place) {
            run->input[rank] = malloc(4 * run->in_end[rank] + 16);
            memset(run->input[rank], GUARD, 4 * run->in_end[rank] + 16);
        }
        for (int block = 0; block < run->nranks; block++) {
            struct gpuring_extent *extent = &run->in[rank][block];

            for (uint64_t i = 0; i < extent->count; i++) {
                run->input[rank][extent->offset / 4 + i] = element(rank, (uint64_t) block, i);
            }
        }
    }
}

/* Every element is what it must be, and nothing is written between and behind blocks. */
static void check_output(const struct run *run, int rank, const uint8_t *before)
{
    size_t bytes = 4 * run->out_end[rank] + 16;
    uint8_t *wanted = malloc(bytes);

    memcpy(wanted, before, bytes);
    for (int block = 0; block < run->nranks; block++) {
        const struct gpuring_extent *extent = &run->out[rank][block];

        for (uint64_t i = 0; i < extent->count; i++) {
            uint32_t value;

            if (expected(run, rank, block, i, &value)) {
                memcpy(wanted + extent->offset + 4 * i, &value, 4);
            }
        }
    }
    for (size_t i = 0; i < bytes; i++) {
        if (((const uint8_t *) run->output[rank])[i] != wanted[i]) {
            fail_msg("%s by %s, protocol %d, %d ranks, root %d, %s, %s, count %llu: rank %d has a "
                     "wrong byte %zu of %zu",
                     gpuring_collective_text(run->collective),
                     gpuring_algorithm_text(run->algorithm), (int) run->protocol, run->nranks,
                     run->root, run->uneven ? "uneven" : "even",
                     run->in_place ? "in place" : "not in place", (unsigned long long) run->count,
                     rank, i, bytes);
        }
    }
    free(wanted);
}

static uint64_t longest(const struct run *run)
{
    uint64_t most = run->count;

    for (int i = 0; i < run->nranks; i++) {
        for (int j = 0; j < run->nranks; j++) {
            most = run->counts[i][j] > most ? run->counts[i][j] : most;
        }
    }
    return most;
}

static void begin(struct fabric *fabric, const struct run *run, int rank, uint64_t chunk)
{
    struct gpuring_work *work = &fabric->ranks[rank].work;
    const struct gpuring_plan *plan = fabric->plans->plans[rank];

    fabric_work(fabric, rank, GPURING_TYPE_UINT32, GPURING_OP_SUM, run->count, run->input[rank],
                run->output[rank], 1);
    for (uint32_t i = 0; i < plan->nlanes; i++) {
        if (gpuring_collective_has_blocks(run->collective)) {
            work->lanes[i].first = 0;
            work->lanes[i].part = (uint32_t) plan->lanes[i].part_begin;
            work->lanes[i].count =
                gpuring_block_part(longest(run), (uint32_t) plan->weight, sizeof(uint32_t));
        }
        work->lanes[i].chunk = work->lanes[i].chunk < chunk ? work->lanes[i].chunk : chunk;
    }
    if (gpuring_collective_has_blocks(run->collective)) {
        work->parts = (uint32_t) plan->weight;
        work->in = blocks_of(run, run->in[rank], rank, has_many(run, false) || run->in_place);
        work->out = blocks_of(run, run->out[rank], rank, has_many(run, true));
    }
}

static void execute(struct run *run, struct fabric *fabric, uint64_t chunk)
{
    uint8_t *before[MOST_RANKS];
    int running = run->nranks, looks = 0;

    make_buffers(run);
    for (int rank = 0; rank < run->nranks; rank++) {
        before[rank] = malloc(4 * run->out_end[rank] + 16);
        memcpy(before[rank], run->output[rank], 4 * run->out_end[rank] + 16);
        begin(fabric, run, rank, chunk);
    }
    while (running > 0 && looks++ < 100000) {
        running = 0;
        for (int rank = 0; rank < run->nranks; rank++) {
            struct gpuring_work *work = &fabric->ranks[rank].work;
            int status = run->blocks ? block_work_run(work, 2) : gpuring_work_run_host(work);

            assert_true(status == GPURING_OK || status == GPURING_AGAIN);
            running += status == GPURING_AGAIN;
        }
    }
    assert_int_equal(running, 0);
    for (int rank = 0; rank < run->nranks; rank++) {
        check_output(run, rank, before[rank]);
        free(before[rank]);
        free(run->output[rank]);
        if (!run->in_place) {
            free(run->input[rank]);
        }
    }
}

static uint32_t seed = 20261122;

static uint32_t draw(uint32_t end)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % end;
}

/* May input and output of a collective be the same buffer with the same blocks? */
static bool may_be_in_place(const struct run *run)
{
    return run->collective != GPURING_COLLECTIVE_REDUCE_SCATTER &&
           run->collective != GPURING_COLLECTIVE_SCATTER &&
           run->collective != GPURING_COLLECTIVE_GATHER &&
           (run->collective != GPURING_COLLECTIVE_ALLTOALL || !run->uneven);
}

/* Several operations one after the other on the same connections, of all sizes. */
static void run_many(enum gpuring_collective collective, const struct base *base,
                     enum gpuring_protocol protocol, int nranks)
{
    struct run run = {.collective = collective,
                      .algorithm = base->algorithm,
                      .protocol = protocol,
                      .nranks = nranks};
    struct test_plans plans;
    struct fabric fabric;

    run.root = (int) draw((uint32_t) nranks);
    test_plans_build_on(&plans, collective, base->algorithm, nranks, 2, run.root, base->in_order);
    /* Three ranks are blocks of threads, as on a GPU; their chunks have slices. */
    run.blocks = nranks == 3;
    fabric_create(&fabric, &plans, protocol, 2048, run.blocks ? FABRIC_SLICED : 4);
    for (int i = 0; i < 10; i++) {
        run.uneven = gpuring_collective_has_blocks(collective) && i % 2 == 1;
        run.count = i == 0 ? 1 : draw(i < 6 ? 700 : 12000);
        for (int s = 0; s < nranks; s++) {
            for (int r = 0; r < nranks; r++) {
                run.counts[s][r] = !run.uneven ? run.count : draw(3) == 0 ? 0 : draw(9000);
            }
        }
        run.in_place = i % 4 >= 2 && may_be_in_place(&run);
        if (run.in_place && collective == GPURING_COLLECTIVE_ALLGATHER) {
            run.in_place = false; /* its input is one of the blocks: tested through MPI */
        }
        execute(&run, &fabric, 32 * (1 + draw(run.blocks ? 64 : 20)));
    }
    fabric_destroy(&fabric);
    test_plans_free(&plans);
}

static void test_execution(void **state)
{
    (void) state;
    for (int c = 1; c < GPURING_COLLECTIVE_COUNT; c++) {
        for (size_t a = 0; a < NBASES; a++) {
            for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
                for (int n = 2; n <= MOST_RANKS && base_has((enum gpuring_collective) c, &bases[a]);
                     n += n == 3 ? 4 : 1) {
                    run_many((enum gpuring_collective) c, &bases[a], (enum gpuring_protocol) p, n);
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_proven),
        cmocka_unit_test(test_changed),
        cmocka_unit_test(test_execution),
    };

    gpuring_log_set(quiet, GPURING_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
