/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Alltoall by node, between N nodes of L ranks each whose ranks follow each other. Rank (n, l) is
 * rank l of node n. It has blocks for all ranks, and those for the ranks of a node are adjacent.
 *
 *   between  (n, l) sends its L blocks for node m to (m, l), in one piece, which that rank stores
 *            where its blocks from node n belong
 *   within   (m, l) now has, in the place of the block from (n, k), the block from (n, l) for
 *            (m, k). It exchanges these with (m, k), for each node n and each k
 *
 * A rank has N - 1 + L - 1 connections, and sends N - 1 messages to other nodes. In a direct
 * exchange it has N L - 1 connections and sends N L - L messages. Ranks with the same number in
 * their nodes use the same network device, so the traffic stays on its rail. The price is that the
 * blocks from other nodes are copied once more inside the node.
 *
 * Each stage is a plan of its own, because a lane has parts of all blocks, and those parts of
 * adjacent blocks are not adjacent. A rank starts its second stage after its first one, whatever
 * the other ranks do: the stages use different connections. Neither stage needs memory. In both
 * stages, a rank sends a block before it receives the one that replaces it, so MPI_IN_PLACE is
 * safe.
 *
 * This cannot deadlock. The first stage is a direct exchange (build_direct.c). In the second one, a
 * rank sends the blocks of node n + 1 before it receives those of node n. These sends need the
 * slots of the blocks of node n - 1, with two slots per connection, and all ranks of the node
 * receive these before.
 */
#include "mca/coll_gpuring/plan/build.h"

/* The ranks with which a rank exchanges blocks. The i-th one is rank first + i * distance. */
struct group {
    struct gpuring_writer *writer;
    uint32_t key;
    int size, own; /* number of ranks, and number of this rank */
    int first, distance;
    uint32_t flags; /* of all steps */
};

static struct group between_of(struct gpuring_writer *writer, uint32_t part)
{
    const struct gpuring_plan_input *input = writer->input;
    int size = input->nranks / input->node_ranks;

    return (struct group){
        .writer = writer,
        .key = gpuring_plan_key(writer->plan, part, false),
        .size = size,
        .own = input->rank / input->node_ranks,
        .first = input->rank % input->node_ranks,
        .distance = input->node_ranks,
        .flags =
            size - 1 + input->node_ranks - 1 <= GPURING_ONCE_MOST ? GPURING_STEP_SINGLE_USE : 0,
    };
}

static struct group within_of(struct gpuring_writer *writer, uint32_t part)
{
    int size = writer->input->node_ranks, rank = writer->input->rank;

    return (struct group){
        .writer = writer,
        .key = gpuring_plan_key(writer->plan, part, false),
        .size = size,
        .own = rank % size,
        .first = rank - rank % size,
        .distance = 1,
    };
}

static int peer_at(const struct group *group, int i)
{
    return group->first + i * group->distance;
}

/* Send the ranks begin .. end - 1 of the group their blocks. block: that of rank 0. */
static void send_to(const struct group *group, int block, int begin, int end)
{
    for (int i = begin; i < end; i++) {
        if ((i - begin) % GPURING_WRITER_SENDS == 0) {
            gpuring_writer_step(group->writer, (uint32_t) (block + i),
                                group->flags | GPURING_STEP_EACH);
            gpuring_writer_input(group->writer);
        }
        gpuring_writer_to(group->writer, peer_at(group, i), group->key);
    }
}

static void receive_from(const struct group *group, int block, int begin, int end)
{
    for (int i = begin; i < end; i++) {
        if ((i - begin) % GPURING_STEP_REFS == 0) {
            gpuring_writer_step(group->writer, (uint32_t) (block + i),
                                group->flags | GPURING_STEP_EACH | GPURING_STEP_STORE);
        }
        gpuring_writer_from(group->writer, peer_at(group, i), group->key);
    }
}

/* Begin with the next rank, so that not all ranks write to the same one. */
static void send_all(const struct group *group, int block)
{
    send_to(group, block, group->own + 1, group->size);
    send_to(group, block, 0, group->own);
}

/* Begin with the previous ranks, because they send to this one first. */
static void receive_all(const struct group *group, int block)
{
    receive_from(group, block, 0, group->own);
    receive_from(group, block, group->own + 1, group->size);
}

void gpuring_exchange_between(struct gpuring_writer *writer, uint32_t part)
{
    struct group group = between_of(writer, part), later = within_of(writer, part);

    writer->once = true;
    gpuring_writer_lane(writer, part, part + 1, group.size);
    send_all(&group, 0);
    gpuring_writer_step(writer, (uint32_t) group.own, group.flags | GPURING_STEP_STORE);
    gpuring_writer_input(writer);
    receive_all(&group, 0);
    for (int i = 1; i < later.size; i++) {
        int peer = peer_at(&later, (later.own + i) % later.size);

        gpuring_writer_send(writer, peer, later.key);
        gpuring_writer_recv(writer, peer, later.key);
    }
}

void gpuring_exchange_within(struct gpuring_writer *writer, uint32_t part)
{
    struct group group = within_of(writer, part);
    int nranks = writer->input->nranks;

    gpuring_writer_lane(writer, part, part + 1, nranks);
    send_all(&group, 0);
    for (int block = group.size; block < nranks; block += group.size) {
        send_all(&group, block);
        receive_all(&group, block - group.size);
    }
    receive_all(&group, nranks - group.size);
}
