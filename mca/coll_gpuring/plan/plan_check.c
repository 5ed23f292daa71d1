/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The checker of plans. Wires carry symbolic values. A value consists of the set of ranks whose
 * contributions it contains, the chunk (or block) of their inputs that they contribute, and a hash
 * of the expression that computed it.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/plan/network.h"
#include "mca/coll_gpuring/plan/postcondition.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* A part of the vector; lanes of the same part work on the same chunks. */
struct part {
    uint64_t end; /* 0: no part begins here */
    uint32_t nchunks;
    uint64_t cell; /* number of its first chunk among all chunks of the vector */
};

/* The state of one chunk at one rank. */
struct cell {
    uint32_t reader, reads;       /* process that read the input, and how often */
    uint64_t last_read;           /* value of check.nsteps at that time */
    uint32_t readers;             /* 0, 1, 2: none, one process, several */
    uint32_t overwritten, stored; /* as input, as output */
    uint64_t hash;                /* of the expression that was stored */
    uint64_t *partial;            /* value stored by a GPURING_STEP_PARTIAL step, or NULL */
    uint32_t keeper;              /* process that stored it */
};

/* Values are `words` 64-bit words: the set, then the hash, then the chunk and the part. */
struct queue {
    uint64_t head, tail;
    uint64_t touched; /* number of the last step that used the wire */
};

struct check {
    const struct gpuring_plan *plan; /* rank 0's, for fields that are equal in all plans */
    struct gpuring_network network;
    int nranks;
    uint32_t slots;
    size_t set_words, words;
    uint64_t ncells;    /* chunks of the vector */
    struct part *parts; /* [weight], by where they begin */
    uint32_t *at;       /* [nprocesses]: next step */
    struct cell *cells;
    struct queue *queues; /* [nwires] */
    uint64_t *values;     /* [nwires][slots][words] */
    uint64_t *value, *operand;
    uint64_t nsteps; /* executed so far */
    char *text;
    size_t size;
};

__attribute__((format(printf, 2, 3))) static int violation(struct check *check, const char *format,
                                                           ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(check->text, check->size, format, arguments);
    va_end(arguments);
    return GPURING_ERR_DATA;
}

/* Report a violation by the current step of a process. */
__attribute__((format(printf, 3, 4))) static int step_violation(struct check *check, uint32_t index,
                                                                const char *format, ...)
{
    const struct gpuring_plan_process *process = &check->network.processes[index];
    va_list arguments;
    char what[160];

    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return violation(check, "rank %d lane %u step %u: %s", process->rank, process->lane,
                     check->at[index], what);
}

static int no_memory(const struct check *check)
{
    gpuring_error("out of memory to check the plans of %d ranks; set coll_gpuring_check=off",
                  check->nranks);
    return GPURING_ERR_NOMEM;
}

/* Collect the parts of rank 0's lanes and check that they tile the vector. */
static int parts_collect(struct check *check)
{
    const struct gpuring_plan *plan = check->plan;
    uint32_t nparts = 0;
    uint64_t end = 0;

    check->parts = calloc(plan->weight + 1, sizeof *check->parts);
    if (check->parts == NULL) {
        return no_memory(check);
    }
    for (uint32_t i = 0; i < plan->nlanes; i++) {
        const struct gpuring_plan_lane *lane = &plan->lanes[i];
        struct part *part = &check->parts[lane->part_begin];

        if (part->end == 0) {
            *part = (struct part){
                .end = lane->part_end, .nchunks = lane->nchunks, .cell = check->ncells};
            check->ncells += lane->nchunks;
            nparts++;
        }
    }
    while (end < plan->weight && check->parts[end].end != 0) {
        end = check->parts[end].end;
        nparts--;
    }
    if (nparts > 0) {
        return violation(check, "parts leave out or repeat the vector at %llu of %llu",
                         (unsigned long long) end, (unsigned long long) plan->weight);
    }
    if (end != plan->weight) {
        return violation(check, "parts end at %llu of %llu", (unsigned long long) end,
                         (unsigned long long) plan->weight);
    }
    return GPURING_OK;
}

static int parts_compare(struct check *check)
{
    for (uint32_t i = 0; i < check->network.nprocesses; i++) {
        const struct gpuring_plan_process *process = &check->network.processes[i];
        const struct part *part = &check->parts[process->plan->part_begin];

        if (part->end != process->plan->part_end || part->nchunks != process->plan->nchunks) {
            return violation(check, "rank %d lane %u: part or number of chunks differs from rank 0",
                             process->rank, process->lane);
        }
    }
    return GPURING_OK;
}

static int check_alloc(struct check *check)
{
    size_t nprocesses = check->network.nprocesses, nwires = check->network.nwires;

    check->set_words = ((size_t) check->nranks + 63) / 64;
    check->words = check->set_words + 3;
    check->at = calloc(nprocesses + 1, sizeof *check->at);
    check->cells = calloc(check->ncells * (uint64_t) check->nranks + 1, sizeof *check->cells);
    check->queues = calloc(nwires + 1, sizeof *check->queues);
    check->values = calloc(nwires * check->slots + 1, check->words * sizeof *check->values);
    check->value = calloc(2 * check->words, sizeof *check->value);
    if (check->at == NULL || check->cells == NULL || check->queues == NULL ||
        check->values == NULL || check->value == NULL) {
        return no_memory(check);
    }
    check->operand = check->value + check->words;
    return GPURING_OK;
}

static uint64_t *wire_value(struct check *check, uint32_t wire, uint64_t position)
{
    return check->values +
           ((uint64_t) wire * check->slots + position % check->slots) * check->words;
}

/* Combine two hashes. The hash depends on the order of evaluation, because (a op b) op c differs
 * from a op (b op c) in floating point. */
static uint64_t hash_fold(uint64_t left, uint64_t right)
{
    uint64_t hash = (left ^ (right * UINT64_C(0x9e3779b97f4a7c15))) + UINT64_C(0x632be59bd9b4e019);

    hash ^= hash >> 32;
    hash *= UINT64_C(0xd6e8feb86659fd93);
    return hash ^ hash >> 29;
}

/* Return the hash of a rank's contribution. */
static uint64_t hash_input(int rank)
{
    return hash_fold(UINT64_C(0x5bd1e995), (uint64_t) rank + 1);
}

/* Return what the next step of a process waits for: 0 nothing, 1 data, 2 a free slot. Sets *wire to
 * the connection that it waits for. */
static int step_waits(const struct check *check, uint32_t index, uint32_t *wire)
{
    const struct gpuring_plan_process *process = &check->network.processes[index];
    uint32_t chunk;
    const struct gpuring_step *step = gpuring_lane_step(process->plan, check->at[index], &chunk);
    const uint16_t *refs = process->plan->refs + step->refs;

    for (uint32_t i = 0; i < step->noperands; i++) {
        if (!gpuring_ref_own(refs[i])) {
            *wire = process->recvs[refs[i]];
            if (check->queues[*wire].head == check->queues[*wire].tail) {
                return 1;
            }
        }
    }
    for (uint32_t i = 0; i < step->nsends; i++) {
        *wire = process->sends[refs[step->noperands + i]];
        if (check->queues[*wire].tail - check->queues[*wire].head == check->slots) {
            return 2;
        }
    }
    return 0;
}

/* Return the cell of a chunk at the rank of a process. */
static struct cell *cell_of(const struct check *check, uint32_t index, uint64_t chunk)
{
    const struct gpuring_plan_process *process = &check->network.processes[index];

    return &check->cells[(uint64_t) process->rank * check->ncells +
                         check->parts[process->plan->part_begin].cell + chunk];
}

static int input_read(struct check *check, uint32_t index, uint64_t chunk, uint64_t *value)
{
    const struct gpuring_plan_process *process = &check->network.processes[index];
    struct cell *cell = cell_of(check, index, chunk);

    if (cell->overwritten) {
        return step_violation(check, index, "reads input that it has overwritten");
    }
    cell->reads++;
    cell->last_read = check->nsteps;
    if (cell->readers == 0) {
        cell->readers = 1;
        cell->reader = index;
    } else if (cell->reader != index) {
        cell->readers = 2;
    }
    memset(value, 0, check->words * sizeof *value);
    value[process->rank / 64] = UINT64_C(1) << process->rank % 64;
    value[check->set_words] = hash_input(process->rank);
    value[check->set_words + 1] = chunk;
    value[check->set_words + 2] = process->plan->part_begin;
    return GPURING_OK;
}

/* Read the value that an earlier step of this process has stored. */
static int output_read(struct check *check, uint32_t index, uint64_t chunk, uint64_t *value)
{
    const struct cell *cell = cell_of(check, index, chunk);

    if (cell->partial == NULL || cell->keeper != index) {
        return step_violation(check, index, "reads output that it has not stored");
    }
    memcpy(value, cell->partial, check->words * sizeof *value);
    return GPURING_OK;
}

/* Record that a step uses a wire, which it may do only once. A lane with GPURING_STEP_SINGLE_USE
 * may use it once per window, and only if its index is below GPURING_ONCE_MOST. uses: number of
 * times that the wire was used before. */
static int wire_touch(struct check *check, uint32_t index, uint16_t ref, uint32_t wire,
                      uint64_t uses)
{
    uint16_t flags = check->network.processes[index].plan->steps[0].flags;

    if (check->queues[wire].touched == check->nsteps ||
        ((flags & GPURING_STEP_SINGLE_USE) != 0 && (uses > 0 || ref >= GPURING_ONCE_MOST))) {
        return step_violation(check, index, "uses a connection twice");
    }
    check->queues[wire].touched = check->nsteps;
    return GPURING_OK;
}

/* Fetch one operand into `value`. */
static int operand_fetch(struct check *check, uint32_t index, uint16_t ref, uint64_t chunk,
                         uint64_t *value)
{
    const struct gpuring_plan_process *process = &check->network.processes[index];
    uint32_t wire;
    int status;

    if (ref == GPURING_REF_INPUT) {
        return input_read(check, index, chunk, value);
    }
    if (ref == GPURING_REF_OUTPUT) {
        return output_read(check, index, chunk, value);
    }
    wire = process->recvs[ref];
    status = wire_touch(check, index, ref, wire, check->queues[wire].head);
    if (status != GPURING_OK) {
        return status;
    }
    memcpy(value, wire_value(check, wire, check->queues[wire].head++),
           check->words * sizeof *value);
    if (value[check->set_words + 2] != process->plan->part_begin ||
        (!gpuring_collective_has_blocks(check->plan->collective) &&
         value[check->set_words + 1] != chunk)) {
        return step_violation(check, index, "rank %d sends another chunk than this",
                              check->network.wires[wire].from);
    }
    return GPURING_OK;
}

static int value_fold(struct check *check, uint32_t index)
{
    if (check->value[check->set_words + 1] != check->operand[check->set_words + 1]) {
        return step_violation(check, index, "folds different blocks of the input");
    }
    for (size_t word = 0; word < check->set_words; word++) {
        uint64_t both = check->value[word] & check->operand[word];

        if (both != 0) {
            return step_violation(check, index, "folds the contribution of rank %d twice",
                                  (int) (word * 64) + __builtin_ctzll(both));
        }
        check->value[word] |= check->operand[word];
    }
    check->value[check->set_words] =
        hash_fold(check->value[check->set_words], check->operand[check->set_words]);
    return GPURING_OK;
}

/* Return the hash of the contributions of the ranks first .. end - 1, folded in this order. */
static uint64_t hash_in_order(int first, int end)
{
    uint64_t hash = hash_input(first);

    while (++first < end) {
        hash = hash_fold(hash, hash_input(first));
    }
    return hash;
}

/* Check that the current value is the result that the postcondition requires for this chunk. */
static int value_check(struct check *check, uint32_t index, uint64_t chunk)
{
    struct gpuring_expected expected =
        gpuring_plan_expected(check->plan, check->network.processes[index].rank, chunk);

    if (expected.first == expected.end) {
        return step_violation(check, index, "stores a chunk twice, or of another rank");
    }
    for (int rank = 0; rank < check->nranks; rank++) {
        bool has = check->value[rank / 64] >> rank % 64 & 1;
        bool must = rank >= expected.first && rank < expected.end;

        if (has != must) {
            return step_violation(check, index, "stores %s the contribution of rank %d",
                                  must ? "without" : "with", rank);
        }
    }
    if (check->value[check->set_words + 1] != expected.from) {
        return step_violation(check, index, "stores another block of the input");
    }
    return !check->plan->in_order ||
                   check->value[check->set_words] == hash_in_order(expected.first, expected.end)
               ? GPURING_OK
               : step_violation(check, index, "folds in another order than that of the ranks");
}

/*
 * Return true if another lane of the rank has certainly read a chunk of the input before the
 * current value, which overwrites it, was received. This holds if the value contains the rank's own
 * contribution, if the other lane read that contribution exactly once, and if it read `input` no
 * later.
 */
static bool was_read(const struct check *check, uint32_t index, const struct cell *input)
{
    int rank = check->network.processes[index].rank;
    const struct cell *own = cell_of(check, index, check->value[check->set_words + 1]);

    return (check->value[rank / 64] >> rank % 64 & 1) != 0 && own->reads == 1 &&
           own->reader == input->reader && input->last_read <= own->last_read;
}

/* Keep a partial value in the output until a later step of the same process stores the result. */
static int partial_keep(struct check *check, uint32_t index, struct cell *output)
{
    if (output->partial == NULL) {
        output->partial = malloc(check->words * sizeof *output->partial);
        output->keeper = index;
    }
    if (output->partial == NULL) {
        return no_memory(check);
    }
    memcpy(output->partial, check->value, check->words * sizeof *output->partial);
    return GPURING_OK;
}

static int value_store(struct check *check, uint32_t index, uint64_t chunk, bool partial)
{
    struct cell *output = cell_of(check, index, chunk);
    struct cell *input =
        cell_of(check, index,
                gpuring_plan_overwrites(check->plan, check->network.processes[index].rank, chunk));
    int status = partial ? GPURING_OK : value_check(check, index, chunk);

    if (status != GPURING_OK) {
        return status;
    }
    if (output->stored || (output->partial != NULL && output->keeper != index)) {
        return step_violation(check, index, "stores a chunk twice, or of another rank");
    }
    if (input->readers > 1 ||
        (input->readers == 1 && input->reader != index && !was_read(check, index, input))) {
        return step_violation(check, index, "other lanes may read the input later");
    }
    input->overwritten = 1;
    if (partial) {
        return partial_keep(check, index, output);
    }
    output->stored = 1;
    output->hash = check->value[check->set_words];
    return GPURING_OK;
}

/* Fold the operands of one chunk, and store and send the value. */
static int chunk_run(struct check *check, uint32_t index, const struct gpuring_step *step,
                     const uint16_t *refs, const uint16_t *sends, uint64_t chunk)
{
    const struct gpuring_plan_process *process = &check->network.processes[index];
    int status = operand_fetch(check, index, refs[0], chunk, check->value);

    for (uint32_t i = 1; status == GPURING_OK && i < step->noperands; i++) {
        status = operand_fetch(check, index, refs[i], chunk, check->operand);
        if (status == GPURING_OK) {
            status = value_fold(check, index);
        }
    }
    if (status == GPURING_OK && (step->flags & GPURING_STEP_STORE)) {
        status = value_store(check, index, chunk, (step->flags & GPURING_STEP_PARTIAL) != 0);
    }
    for (uint32_t i = 0; status == GPURING_OK && i < step->nsends; i++) {
        uint32_t wire = process->sends[sends[i]];

        status = wire_touch(check, index, sends[i], wire, check->queues[wire].tail);
        memcpy(wire_value(check, wire, check->queues[wire].tail++), check->value,
               check->words * sizeof *check->value);
    }
    return status;
}

/* Run a step with GPURING_STEP_EACH as one step for each peer. It either sends the input or stores
 * what it receives. */
static int each_run(struct check *check, uint32_t index, const struct gpuring_step *step,
                    const uint16_t *refs)
{
    uint32_t nchunks = check->network.processes[index].plan->nchunks;
    bool sends = step->nsends > 0, stores = (step->flags & GPURING_STEP_STORE) != 0;
    const struct gpuring_step one = {
        .noperands = 1, .nsends = sends, .flags = step->flags & GPURING_STEP_STORE};
    int status = GPURING_OK;

    if (sends == stores || (sends && (step->noperands > 1 || refs[0] != GPURING_REF_INPUT)) ||
        (step->flags & GPURING_STEP_PARTIAL) != 0 || gpuring_step_peers(step) > nchunks) {
        return step_violation(check, index, "neither sends a chunk to each peer nor receives one");
    }
    for (uint32_t i = 0; status == GPURING_OK && i < gpuring_step_peers(step); i++) {
        status = chunk_run(check, index, &one, refs + (sends ? 0 : i), refs + 1 + i,
                           gpuring_step_chunk(step->chunk, i, nchunks));
    }
    return status;
}

static int step_run(struct check *check, uint32_t index)
{
    const struct gpuring_plan_process *process = &check->network.processes[index];
    uint32_t chunk;
    const struct gpuring_step *step = gpuring_lane_step(process->plan, check->at[index], &chunk);
    const uint16_t *refs = process->plan->refs + step->refs;

    check->nsteps++;
    return (step->flags & GPURING_STEP_EACH) != 0
               ? each_run(check, index, step, refs)
               : chunk_run(check, index, step, refs, refs + step->noperands, chunk);
}

static int all_run(struct check *check)
{
    int progress = 1, status = GPURING_OK;
    uint32_t wire;

    while (progress) {
        progress = 0;
        for (uint32_t i = 0; i < check->network.nprocesses; i++) {
            const struct gpuring_plan_process *process = &check->network.processes[i];

            while (check->at[i] < process->plan->nsteps && step_waits(check, i, &wire) == 0) {
                status = step_run(check, i);
                if (status != GPURING_OK) {
                    return status;
                }
                check->at[i]++;
                progress = 1;
            }
        }
    }
    return GPURING_OK;
}

/* Check one chunk, of a part whose cells begin at `cell`, on all ranks: every required result is
 * stored, and ranks that hold the same result have folded it in the same order. */
static int outputs_check(struct check *check, uint64_t cell, uint64_t chunk)
{
    struct gpuring_expected first = {.end = 0};
    uint64_t hash = 0;

    for (int rank = 0; rank < check->nranks; rank++) {
        const struct cell *output = &check->cells[(uint64_t) rank * check->ncells + cell + chunk];
        struct gpuring_expected expected = gpuring_plan_expected(check->plan, rank, chunk);

        if (expected.first == expected.end) {
            continue;
        }
        if (!output->stored) {
            return violation(check, "rank %d: chunk %llu is not stored", rank,
                             (unsigned long long) (cell + chunk));
        }
        if (first.end == 0) {
            first = expected;
            hash = output->hash;
        }
        if (memcmp(&expected, &first, sizeof first) == 0 && output->hash != hash) {
            return violation(check, "rank %d: chunk %llu is folded in another order than at rank 0",
                             rank, (unsigned long long) (cell + chunk));
        }
    }
    return GPURING_OK;
}

static int end_check(struct check *check)
{
    for (uint32_t i = 0; i < check->network.nprocesses; i++) {
        const struct gpuring_plan_process *process = &check->network.processes[i];
        uint32_t wire;

        if (check->at[i] < process->plan->nsteps) {
            int what = step_waits(check, i, &wire);

            return violation(
                check, "deadlock: rank %d lane %u step %u waits for %s rank %d", process->rank,
                process->lane, check->at[i], what == 1 ? "data from" : "a free slot towards",
                what == 1 ? check->network.wires[wire].from : check->network.wires[wire].to);
        }
    }
    for (uint32_t wire = 0; wire < check->network.nwires; wire++) {
        if (check->queues[wire].head != check->queues[wire].tail) {
            return violation(check, "rank %d sends more to rank %d than that receives",
                             check->network.wires[wire].from, check->network.wires[wire].to);
        }
    }
    for (uint64_t begin = 0; begin < check->plan->weight; begin = check->parts[begin].end) {
        for (uint64_t chunk = 0; chunk < check->parts[begin].nchunks; chunk++) {
            int status = outputs_check(check, check->parts[begin].cell, chunk);

            if (status != GPURING_OK) {
                return status;
            }
        }
    }
    return GPURING_OK;
}

static void check_free(struct check *check)
{
    for (uint64_t i = 0; check->cells != NULL && i < check->ncells * (uint64_t) check->nranks;
         i++) {
        free(check->cells[i].partial);
    }
    gpuring_network_destroy(&check->network);
    free(check->parts);
    free(check->at);
    free(check->cells);
    free(check->queues);
    free(check->values);
    free(check->value);
}

int gpuring_plan_check(const struct gpuring_plan *const *plans, int nranks, uint32_t slots,
                       char *text, size_t size)
{
    static int (*const stages[])(struct check * check) = {parts_collect, parts_compare, check_alloc,
                                                          all_run, end_check};
    struct check check = {.nranks = nranks, .slots = slots, .text = text, .size = size};
    int status;

    if (nranks < 1 || slots == 0) {
        return violation(&check, "%d ranks and %u slots: nothing to check", nranks, slots);
    }
    check.plan = plans[0];
    status = gpuring_network_create(plans, nranks, &check.network, text, size);
    if (status != GPURING_OK) {
        return status;
    }
    for (size_t i = 0; status == GPURING_OK && i < sizeof stages / sizeof *stages; i++) {
        status = stages[i](&check);
    }
    check_free(&check);
    return status;
}
