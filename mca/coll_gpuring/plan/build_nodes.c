/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Allreduces on hosts between nodes.
 *
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
 *   send    to the owner on the next node, except in the last step; if the step has a result, also
 *           to the other ranks of the node
 *
 * A rank has two more lanes for each part that it does not own:
 *
 *   input > send to the owner, in the order of the owner's steps 0 .. N-1
 *   recv from the owner > output, in the order of its steps N-1 .. 2N-2
 *
 * An allreduce takes 2 N hops, of which 2 (N-1) are between nodes, and each node sends and receives
 * 2 (N-1) / N times the vector. MPI_IN_PLACE is safe for the same reason as in build_tree.c.
 *
 * The halves of this schedule are collectives on blocks, which use the same connections. A block is
 * not divided into parts. The ranks with the same number in their nodes handle each other's blocks,
 * so that each block crosses the network once for each other node:
 *
 *   reduce-scatter  the steps 0 .. N-1, in which the owner handles the blocks of the ranks with its
 *                   number. The last one stores its own block and sends nothing.
 *   allgather       the steps N-1 .. 2N-2. The first one is input > out+send.
 *
 * They take N hops, of which N-1 are between nodes. A rank has a lane for each owner in an
 * allgather. In a reduce-scatter it has only one lane, which sends to all owners before each step
 * of its ring. With MPI_IN_PLACE, its last step overwrites the input of the first block.
 *
 * Doubling serves smaller vectors. Each stripe has a leader on each node, which sums the vectors of
 * its node: rank c of the node leads stripe c, and the first ranks lead again if there are fewer.
 * Let P be the largest power of two that is at most the number of nodes. The leader on node a < P
 * exchanges sums with those on the nodes a xor 1, a xor 2, a xor 4 .. The sum of the lower node is
 * always the left operand, so that all leaders have the same bits. If there is a further node P +
 * a, its leader sends its sum to the leader on node a, and gets the result from it.
 *
 *   leader  node [+ recv P+a] > out, send to a^1 | recv a^1 + out > out, send to a^2 | ..
 *           the last step sends to the ranks of the node and to P+a
 *   others  input > send to the leader | recv from it > out
 *
 * An allreduce takes log2 P hops between nodes, up to two more if there are further nodes, and two
 * inside the nodes.
 */
#include "mca/coll_gpuring/plan/build.h"

/*
 * A sum and its destinations. If a single step has no room for all of them, the sum takes several
 * consecutive steps, and the output holds the value between them. If the input is an operand, it is
 * the first one, because the output may overwrite it.
 */
struct sum {
    struct gpuring_writer *writer;
    uint32_t chunk;
    int refs;   /* of the last step */
    bool split; /* there are several steps */
};

/* What is done with a sum, in addition to sending it to its destinations. */
enum fate { SUM_SENT, SUM_PARTIAL, SUM_STORED };

static struct sum begin_sum(struct gpuring_writer *writer, uint32_t chunk)
{
    gpuring_writer_step(writer, chunk, 0);
    return (struct sum){.writer = writer, .chunk = chunk};
}

static void end_step(const struct sum *sum, unsigned flags)
{
    if (sum->writer->status == 0) {
        sum->writer->plan->steps[sum->writer->plan->nsteps - 1].flags |= (uint16_t) flags;
    }
}

static void make_room(struct sum *sum)
{
    if (sum->refs == GPURING_STEP_REFS) {
        end_step(sum, GPURING_STEP_STORE | GPURING_STEP_PARTIAL);
        gpuring_writer_step(sum->writer, sum->chunk, 0);
        gpuring_writer_output(sum->writer);
        sum->refs = 1;
        sum->split = true;
    }
    sum->refs++;
}

static void add_input(struct sum *sum)
{
    make_room(sum);
    gpuring_writer_input(sum->writer);
}

static void add_output(struct sum *sum)
{
    make_room(sum);
    gpuring_writer_output(sum->writer);
}

static void add_from(struct sum *sum, int peer, uint32_t key)
{
    make_room(sum);
    gpuring_writer_from(sum->writer, peer, key);
}

static void add_to(struct sum *sum, int peer, uint32_t key)
{
    make_room(sum);
    gpuring_writer_to(sum->writer, peer, key);
}

static void end_sum(const struct sum *sum, enum fate fate)
{
    if (fate == SUM_STORED) {
        end_step(sum, GPURING_STEP_STORE);
    } else if (fate == SUM_PARTIAL || sum->split) {
        end_step(sum, GPURING_STEP_STORE | GPURING_STEP_PARTIAL);
    }
}

/* ---- Two-shot ---- */

struct part {
    struct gpuring_writer *writer;
    const int *by_node;
    int nnodes, size; /* of the job; ranks of each node */
    int node, own;    /* this rank's */
    int owner;        /* number of the owner in its node */
    uint32_t number;
    int first, last; /* steps of the owner */
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

static bool reduces(const struct part *part)
{
    return part->first == 0;
}

static bool gathers(const struct part *part)
{
    return part->last > part->nnodes - 1;
}

/* Return the chunk of the owner's step k, which is a block in collectives on blocks. Block b of the
 * allreduce's ring is that of node b - 1, because its sum is complete there. */
static uint32_t chunk_at(const struct part *part, int k)
{
    int chunk = (part->node + 2 * part->nnodes - k) % part->nnodes;

    return (uint32_t) (reduces(part) && gathers(part) ? chunk
                                                      : rank_at(part, chunk - 1, part->owner));
}

/* Add step k of the owner. */
static void add_ring_step(const struct part *part, int k)
{
    struct sum sum = begin_sum(part->writer, chunk_at(part, k));
    bool sums = reduces(part) && k < part->nnodes, has_result = k >= part->nnodes - 1;

    if (sums || k == part->first) {
        add_input(&sum);
    }
    if (k > part->first) {
        add_from(&sum, rank_at(part, part->node - 1, part->own), key_of(part, false));
    }
    for (int i = 0; sums && i < part->size - 1; i++) {
        add_from(&sum, other(part, i), key_of(part, false));
    }
    if (k < part->last) {
        add_to(&sum, rank_at(part, part->node + 1, part->own), key_of(part, false));
    }
    for (int i = 0; gathers(part) && has_result && i < part->size - 1; i++) {
        add_to(&sum, other(part, i), key_of(part, true));
    }
    end_sum(&sum, has_result ? SUM_STORED : SUM_SENT);
}

/* Send the owner of the part the input for its step k. */
static void add_send(const struct part *part, int k)
{
    gpuring_writer_step(part->writer, chunk_at(part, k), 0);
    gpuring_writer_input(part->writer);
    gpuring_writer_to(part->writer, rank_at(part, part->node, part->owner), key_of(part, false));
}

static void add_ring(const struct part *part)
{
    for (int k = part->first; k <= part->last; k++) {
        add_ring_step(part, k);
    }
}

static void add_sends(const struct part *part)
{
    for (int k = 0; k < part->nnodes; k++) {
        add_send(part, k);
    }
}

static void add_receives(const struct part *part)
{
    for (int k = part->nnodes - 1; k <= part->last; k++) {
        gpuring_writer_step(part->writer, chunk_at(part, k), GPURING_STEP_STORE);
        gpuring_writer_from(part->writer, rank_at(part, part->node, part->owner),
                            key_of(part, true));
    }
}

/* Return part 0 of a stripe as this rank sees it. first, last: the steps of its ring, in numbers of
 * nodes less one. */
static struct part find_part(struct gpuring_writer *writer, uint32_t stripe, int first, int last)
{
    const struct gpuring_plan_input *input = writer->input;
    struct part part = {.writer = writer,
                        .by_node = input->by_node,
                        .nnodes = input->nnodes,
                        .size = input->nranks / input->nnodes,
                        .first = first * (input->nnodes - 1),
                        .last = last * (input->nnodes - 1)};
    int position = 0;

    while (part.by_node[position] != input->rank) {
        position++;
    }
    part.node = position / part.size;
    part.own = position % part.size;
    part.number = stripe * (uint32_t) part.size;
    return part;
}

/* Return the i-th part of a stripe for this rank. Ranks begin with different owners. */
static struct part part_at(struct part part, int i)
{
    part.owner = (part.own + i) % part.size;
    part.number += (uint32_t) part.owner;
    return part;
}

static void add_allreduce(struct gpuring_writer *writer, uint32_t number)
{
    uint32_t parts = writer->plan->parts;
    struct part part = part_at(find_part(writer, number / parts, 0, 2), (int) (number % parts));

    gpuring_writer_lane(writer, part.number, part.number + 1, part.nnodes);
    if (part.owner == part.own) {
        add_ring(&part);
    } else {
        add_sends(&part);
        gpuring_writer_lane(writer, part.number, part.number + 1, part.nnodes);
        add_receives(&part);
    }
}

static void add_allgather(struct gpuring_writer *writer, uint32_t stripe)
{
    struct part all = find_part(writer, stripe, 1, 2), part;

    for (int i = 0; i < all.size; i++) {
        part = part_at(all, i);
        gpuring_writer_lane(writer, stripe, stripe + 1, writer->plan->nranks);
        if (i == 0) {
            add_ring(&part);
        } else {
            add_receives(&part);
        }
    }
}

static void add_reduce_scatter(struct gpuring_writer *writer, uint32_t stripe)
{
    struct part all = find_part(writer, stripe, 0, 1), part;

    gpuring_writer_lane(writer, stripe, stripe + 1, writer->plan->nranks);
    for (int k = 0; k <= all.last; k++) {
        for (int i = all.size - 1; i >= 0; i--) {
            part = part_at(all, i);
            if (i > 0) {
                add_send(&part, k);
            } else {
                add_ring_step(&part, k);
            }
        }
    }
}

gpuring_builder *const gpuring_nodes_builders[GPURING_COLLECTIVE_COUNT] = {
    [GPURING_COLLECTIVE_ALLREDUCE] = add_allreduce,
    [GPURING_COLLECTIVE_ALLGATHER] = add_allgather,
    [GPURING_COLLECTIVE_REDUCE_SCATTER] = add_reduce_scatter,
};

/* ---- Doubling ---- */

/* A node, as one of its ranks sees it in a stripe. */
struct node {
    struct gpuring_writer *writer;
    const int *ranks; /* [size] */
    int size, number;
    uint32_t stripe, key;
};

/* Return a node. All nodes have at least one rank. */
static struct node find_node(struct gpuring_writer *writer, int number, uint32_t stripe)
{
    const struct gpuring_plan_input *input = writer->input;
    struct node node = {.writer = writer,
                        .ranks = input->by_node,
                        .number = number,
                        .stripe = stripe,
                        .key = gpuring_plan_key(writer->plan, stripe, false)};

    while (input->node[node.ranks[0]] != number) {
        node.ranks++;
    }
    while (node.ranks + node.size < input->by_node + input->nranks &&
           input->node[node.ranks[node.size]] == number) {
        node.size++;
    }
    return node;
}

/* Return the leader of the node, or the i-th rank after it. */
static int rank_after(const struct node *node, int i)
{
    return node->ranks[(node->stripe + (uint32_t) i) % (uint32_t) node->size];
}

static int leader_of(const struct node *node, int number)
{
    struct node other = find_node(node->writer, number, node->stripe);

    return rank_after(&other, 0);
}

/* Begin the leader's sum of its node. */
static struct sum begin_node_sum(const struct node *node)
{
    struct sum sum = begin_sum(node->writer, 0);

    add_input(&sum);
    for (int i = 1; i < node->size; i++) {
        add_from(&sum, rank_after(node, i), node->key);
    }
    return sum;
}

/* Send the result to the ranks of the node. */
static void end_node_sum(const struct node *node, struct sum *sum)
{
    for (int i = 1; i < node->size; i++) {
        add_to(sum, rank_after(node, i), node->key);
    }
    end_sum(sum, SUM_STORED);
}

/* Add the steps of a leader that exchanges sums. further: the leader on node P + a, or -1 if there
 * is no such node. */
static void add_exchanges(const struct node *node, int power, int further)
{
    struct sum sum = begin_node_sum(node);

    if (further >= 0) {
        add_from(&sum, further, node->key);
    }
    for (int distance = 1; distance < power; distance *= 2) {
        int partner = leader_of(node, node->number ^ distance);

        add_to(&sum, partner, node->key);
        end_sum(&sum, SUM_PARTIAL);
        sum = begin_sum(node->writer, 0);
        if ((node->number & distance) != 0) {
            add_from(&sum, partner, node->key);
            add_output(&sum);
        } else {
            add_output(&sum);
            add_from(&sum, partner, node->key);
        }
    }
    if (further >= 0) {
        add_to(&sum, further, node->key);
    }
    end_node_sum(node, &sum);
}

/* Add the steps of a rank that sends its sum, or its input, to another rank and gets the result. */
static void add_request(const struct node *node, int to, bool leads)
{
    struct sum sum = leads ? begin_node_sum(node) : begin_sum(node->writer, 0);

    if (!leads) {
        add_input(&sum);
    }
    add_to(&sum, to, node->key);
    end_sum(&sum, SUM_SENT);
    sum = begin_sum(node->writer, 0);
    add_from(&sum, to, node->key);
    if (leads) {
        end_node_sum(node, &sum);
    } else {
        end_sum(&sum, SUM_STORED);
    }
}

void gpuring_doubling_allreduce(struct gpuring_writer *writer, uint32_t stripe)
{
    const struct gpuring_plan_input *input = writer->input;
    struct node node = find_node(writer, input->node[input->rank], stripe);
    int nnodes = input->node[input->by_node[input->nranks - 1]] + 1, power = 1;
    int leader = rank_after(&node, 0);
    bool leads = leader == input->rank;

    while (2 * power <= nnodes) {
        power *= 2;
    }
    gpuring_writer_lane(writer, stripe, stripe + 1, 1);
    if (!leads || node.number >= power) {
        add_request(&node, leads ? leader_of(&node, node.number - power) : leader, leads);
    } else {
        bool further = node.number + power < nnodes;

        add_exchanges(&node, power, further ? leader_of(&node, node.number + power) : -1);
    }
}
