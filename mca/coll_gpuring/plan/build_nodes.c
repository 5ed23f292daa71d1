/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Two-shot between nodes that have the same number of ranks, r. A stripe has r parts. The owners of
 * part q are the ranks with number q of all nodes. They form a ring, so that all ranks and all
 * network devices of a node work at the same time.
 *
 * A window has one chunk for each of the N nodes. The ring is that of build_ring.c, but the
 * contribution of a rank is the sum of its node, and each result is sent to the other ranks of the
 * node. The owner on node a handles chunk a - k (modulo N) in its step k:
 *
 *   k           0              1 .. N-2            N-1                  N .. 2N-2
 *   step    node > send    recv+node > send    recv+node > out+send    recv > out+send
 *
 *   node    the values of all ranks of the node
 *   send    to the owner on the next node, and once there is an output also to the node's ranks;
 *           the last step does not send to the next node
 *
 * A rank has two more lanes for each part that it does not own:
 *
 *   input > send to the owner, in the order of the owner's steps 0 .. N-1
 *   recv from the owner > output, in the order of its steps N-1 .. 2N-2
 *
 * An allreduce takes 2 N hops, of which 2 (N-1) are between nodes, and each node sends and receives
 * 2 (N-1) / N times the vector. MPI_IN_PLACE is safe for the same reason as in build_direct.c.
 */
#include "mca/coll_gpuring/plan/build.h"

struct part {
    struct gpuring_writer *writer;
    const int *by_node;
    int nnodes, size; /* of the job; ranks of each node */
    int node, own;    /* this rank's */
    int owner;        /* number of the owner in its node */
    uint32_t number;
};

/* A sum and its destinations. Where one step has no room for all of them, several steps follow each
 * other, and the output has the value in the meantime. The first one therefore reads the input,
 * which may be the output. */
struct sum {
    int chunk;
    bool from_ring, from_node; /* operands */
    bool to_ring, to_node;     /* destinations; to_node also stores the sum */
};

static int rank_at(const struct part *part, int node, int number)
{
    return part->by_node[(node + part->nnodes) % part->nnodes * part->size + number];
}

/* Return one of the other ranks of the node. Owners begin with different ones. */
static int other(const struct part *part, int index)
{
    return rank_at(part, part->node, (part->own + 1 + index) % part->size);
}

static uint32_t key_of(const struct part *part, bool down)
{
    return gpuring_plan_key(part->writer->plan, part->number, down);
}

static void add_operand(const struct part *part, const struct sum *sum, int index)
{
    if (sum->from_node && index-- == 0) {
        gpuring_writer_input(part->writer);
    } else if (sum->from_ring && index-- == 0) {
        gpuring_writer_from(part->writer, rank_at(part, part->node - 1, part->own),
                            key_of(part, false));
    } else {
        gpuring_writer_from(part->writer, other(part, index), key_of(part, false));
    }
}

static void add_destination(const struct part *part, const struct sum *sum, int index)
{
    if (sum->to_ring && index-- == 0) {
        gpuring_writer_to(part->writer, rank_at(part, part->node + 1, part->own),
                          key_of(part, false));
    } else {
        gpuring_writer_to(part->writer, other(part, index), key_of(part, true));
    }
}

static void add_sum(const struct part *part, const struct sum *sum)
{
    int noperands = sum->from_ring + (sum->from_node ? part->size : 0);
    int count = noperands + sum->to_ring + (sum->to_node ? part->size - 1 : 0);

    for (int i = 0; i < count;) {
        bool first = i == 0;
        int room = first ? GPURING_STEP_REFS : GPURING_STEP_REFS - 1;
        bool last = count - i <= room;
        int end = last ? count : i + room;
        uint32_t partial = first && last ? 0 : GPURING_STEP_STORE | GPURING_STEP_PARTIAL;

        gpuring_writer_step(part->writer, (uint32_t) sum->chunk,
                            last && sum->to_node ? GPURING_STEP_STORE : partial);
        if (!first) {
            gpuring_writer_output(part->writer);
        }
        for (; i < end; i++) {
            if (i < noperands) {
                add_operand(part, sum, i);
            } else {
                add_destination(part, sum, i - noperands);
            }
        }
    }
}

/* Return the chunk of the owner's step k. */
static int chunk_at(const struct part *part, int k)
{
    return (part->node + 2 * part->nnodes - k) % part->nnodes;
}

static void begin_lane(const struct part *part)
{
    gpuring_writer_lane(part->writer, part->number, part->number + 1, part->nnodes);
}

static void add_ring(const struct part *part)
{
    const int last = 2 * part->nnodes - 2;

    begin_lane(part);
    for (int k = 0; k <= last; k++) {
        struct sum sum = {.chunk = chunk_at(part, k),
                          .from_ring = k > 0,
                          .from_node = k < part->nnodes,
                          .to_ring = k < last,
                          .to_node = k >= part->nnodes - 1};

        add_sum(part, &sum);
    }
}

static void add_sends(const struct part *part)
{
    begin_lane(part);
    for (int k = 0; k < part->nnodes; k++) {
        gpuring_writer_step(part->writer, (uint32_t) chunk_at(part, k), 0);
        gpuring_writer_input(part->writer);
        gpuring_writer_to(part->writer, rank_at(part, part->node, part->owner),
                          key_of(part, false));
    }
}

static void add_receives(const struct part *part)
{
    begin_lane(part);
    for (int k = part->nnodes - 1; k < 2 * part->nnodes - 1; k++) {
        gpuring_writer_step(part->writer, (uint32_t) chunk_at(part, k), GPURING_STEP_STORE);
        gpuring_writer_from(part->writer, rank_at(part, part->node, part->owner),
                            key_of(part, true));
    }
}

void gpuring_nodes_allreduce(struct gpuring_writer *writer, uint32_t number)
{
    const struct gpuring_plan_input *input = writer->input;
    struct part part = {.writer = writer,
                        .by_node = input->by_node,
                        .nnodes = input->nnodes,
                        .size = input->nranks / input->nnodes};
    int position = 0;

    while (part.by_node[position] != input->rank) {
        position++;
    }
    part.node = position / part.size;
    part.own = position % part.size;
    part.owner = (part.own + (int) number) % part.size; /* not all ranks begin with the same one */
    part.number = number - number % (uint32_t) part.size + (uint32_t) part.owner;
    if (part.owner == part.own) {
        add_ring(&part);
    } else {
        add_sends(&part);
        add_receives(&part);
    }
}
