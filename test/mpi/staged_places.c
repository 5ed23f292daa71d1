/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "staged_places.h"

#include <string.h>

#include "harness.h"

long place_told(long value, int from)
{
    for (int to = 0; harness_rank == from && to < harness_size; to++) {
        if (to != from) {
            MPI_Send(&value, 1, MPI_LONG, to, 9, MPI_COMM_WORLD);
        }
    }
    if (harness_rank != from) {
        MPI_Recv(&value, 1, MPI_LONG, from, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return value;
}

/* Return the number of elements, possibly 0, that rank a sends to rank b. */
static int pair_count(int a, int b)
{
    return a == MPI_PROC_NULL || b == MPI_PROC_NULL ? 1 : (a + b) % 3;
}

/* Return the type for a pair of ranks. Types alternate, and both ranks know them. */
static MPI_Datatype pair_type(MPI_Datatype type, MPI_Datatype other, int a, int b)
{
    return a != MPI_PROC_NULL && b != MPI_PROC_NULL && (a + b) % 2 ? other : type;
}

/* Set the arguments that depend on the peers. */
static void set_peers(struct call *x, MPI_Datatype other, const struct place *place)
{
    const int *sources = place->sources, *targets = place->targets;
    MPI_Aint lower, extent;

    MPI_Type_get_extent(x->type, &lower, &extent);
    x->count = 2;
    x->give = x->rank % 5 + 1;
    x->part = 12 / x->size;
    for (int i = 0; i < x->size; i++) {
        x->parts[i] = 12 / x->size;
    }
    for (int i = 0; i < x->sources; i++) {
        int slot = (x->sources - 1 - i) * 5;

        x->from_counts[i] = sources[i] == MPI_PROC_NULL ? 1 : sources[i] % 5 + 1;
        x->from_displs[i] = slot;
        x->r_counts[i] = pair_count(sources[i], x->rank);
        x->r_displs[i] = slot;
        x->r_bytes[i] = slot * (int) extent;
        x->r_aints[i] = x->r_bytes[i];
        x->r_types[i] = pair_type(x->type, other, sources[i], x->rank);
    }
    for (int i = 0; i < x->targets; i++) {
        x->s_counts[i] = pair_count(x->rank, targets[i]);
        x->s_displs[i] = 4 * i;
        x->s_bytes[i] = 4 * i * (int) extent;
        x->s_aints[i] = x->s_bytes[i];
        x->s_types[i] = pair_type(x->type, other, x->rank, targets[i]);
    }
}

static void all_are_peers(struct place *place)
{
    if (place->inter) {
        MPI_Comm_remote_size(place->comm, &place->nsources);
    } else {
        MPI_Comm_size(place->comm, &place->nsources);
    }
    place->ntargets = place->nsources;
    for (int i = 0; i < place->nsources; i++) {
        place->sources[i] = place->targets[i] = i;
    }
}

/* Make a communicator of all ranks or of some, in an order or on a grid. */
static struct place one_group(enum place_kind kind)
{
    struct place place = {.name = "all ranks"};
    int dims[2] = {0}, periods[2] = {1, 0};

    if (kind == PLACE_PARTS) {
        place.name = "every other rank";
        MPI_Comm_split(MPI_COMM_WORLD, harness_rank % 2, 0, &place.comm);
    } else if (kind == PLACE_REVERSED) {
        place.name = "all ranks, the last one first";
        MPI_Comm_split(MPI_COMM_WORLD, 0, -harness_rank, &place.comm);
    } else if (kind == PLACE_GRID) {
        place.name = "all ranks on a grid";
        MPI_Dims_create(harness_size, 2, dims);
        MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &place.comm);
    } else {
        MPI_Comm_dup(MPI_COMM_WORLD, &place.comm);
    }
    all_are_peers(&place);
    return place;
}

static struct place between_groups(void)
{
    struct place place = {.name = "between two groups", .comm = MPI_COMM_NULL, .inter = true};
    int color = harness_rank % 2;
    MPI_Comm half;

    if (harness_size > 1) {
        MPI_Comm_split(MPI_COMM_WORLD, color, harness_rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - color, 5, &place.comm);
        MPI_Comm_free(&half);
        place.first_group = color == 0;
        all_are_peers(&place);
    }
    return place;
}

/* Make a line, whose ends have MPI_PROC_NULL as a neighbour. */
static struct place on_a_line(void)
{
    struct place place = {.name = "on a line", .topology = true, .nsources = 2, .ntargets = 2};
    int closed = 0;

    MPI_Cart_create(MPI_COMM_WORLD, 1, &harness_size, &closed, 0, &place.comm);
    place.sources[0] = harness_rank > 0 ? harness_rank - 1 : MPI_PROC_NULL;
    place.sources[1] = harness_rank + 1 < harness_size ? harness_rank + 1 : MPI_PROC_NULL;
    memcpy(place.targets, place.sources, sizeof place.targets);
    return place;
}

/* Make a graph with edges from every rank to all greater ranks. */
static struct place on_a_graph(void)
{
    struct place place = {.name = "on a graph", .topology = true, .nsources = harness_rank};
    int weights[PEERS] = {0};

    place.ntargets = harness_size - 1 - harness_rank;
    for (int i = 0; i < place.nsources; i++) {
        place.sources[i] = i;
    }
    for (int i = 0; i < place.ntargets; i++) {
        place.targets[i] = harness_rank + 1 + i;
    }
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, place.nsources, place.sources, weights,
                                   place.ntargets, place.targets, weights, MPI_INFO_NULL, 0,
                                   &place.comm);
    return place;
}

struct place place_open(enum place_kind kind)
{
    struct place place = kind == PLACE_BETWEEN ? between_groups()
                         : kind == PLACE_LINE  ? on_a_line()
                         : kind == PLACE_GRAPH ? on_a_graph()
                                               : one_group(kind);

    if (place.comm != MPI_COMM_NULL) {
        MPI_Comm_set_errhandler(place.comm, MPI_ERRORS_RETURN);
    }
    return place;
}

void places_open(struct place places[PLACES])
{
    for (int i = 0; i < PLACES; i++) {
        places[i] = place_open((enum place_kind) i);
    }
}

void places_close(struct place places[PLACES])
{
    for (int i = 0; i < PLACES; i++) {
        if (places[i].comm != MPI_COMM_NULL) {
            MPI_Comm_free(&places[i].comm);
        }
    }
}

bool place_has(const struct place *place, const struct collective *what)
{
    return place->comm != MPI_COMM_NULL && ((what->flags & NEIGHBORS) != 0) == place->topology &&
           !((what->flags & ONE_GROUP) != 0 && place->inter);
}

bool place_is_of_graph(const struct collective *what, const struct call *x)
{
    int topology;

    MPI_Topo_test(x->comm, &topology);
    return topology == MPI_DIST_GRAPH && (strcmp(what->name, "neighbor_allgather") == 0 ||
                                          strcmp(what->name, "neighbor_alltoall") == 0);
}

struct call place_call(const struct place *place, enum form form, MPI_Datatype type,
                       MPI_Datatype other, int root)
{
    struct call x = {.form = form,
                     .comm = place->comm,
                     .sources = place->nsources,
                     .targets = place->ntargets,
                     .type = type};
    int roots;

    MPI_Comm_rank(x.comm, &x.rank);
    MPI_Comm_size(x.comm, &x.size);
    set_peers(&x, other, place);
    roots = place->inter ? (harness_size + 1) / 2 : x.size; /* of the first group */
    root = (root + roots) % roots;
    x.root = root;
    x.root_here = x.rank == root;
    if (place->inter) {
        x.root_here = place->first_group && x.rank == root;
        x.bystander = place->first_group && !x.root_here;
        x.root = x.root_here ? MPI_ROOT : x.bystander ? MPI_PROC_NULL : root;
    }
    return x;
}

void place_scale(struct call *x, int factor)
{
    int *const ones[] = {&x->count, &x->part, &x->give};
    int *const arrays[] = {x->from_counts, x->parts,    x->from_displs, x->s_counts, x->r_counts,
                           x->s_displs,    x->r_displs, x->s_bytes,     x->r_bytes};

    for (size_t i = 0; i < sizeof ones / sizeof *ones; i++) {
        *ones[i] *= factor;
    }
    for (int k = 0; k < PEERS; k++) {
        for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
            arrays[i][k] *= factor;
        }
        x->s_aints[k] *= factor;
        x->r_aints[k] *= factor;
    }
}

void place_buffers(const struct collective *what, struct call *x, bool in_place, char *send,
                   char *receive)
{
    bool here = in_place && ((what->flags & ROOTED) == 0 || x->root_here);

    x->send = here && (what->flags & IN_PLACE) != 0 ? MPI_IN_PLACE : send;
    x->receive = here && (what->flags & SCATTERS) != 0 ? MPI_IN_PLACE : receive;
}

bool place_defines_all(const struct collective *what, bool in_place)
{
    return !in_place || strncmp(what->name, "reduce_scatter", 14) != 0;
}

long place_defined_bytes(const struct call *x)
{
    MPI_Aint lower, extent;

    MPI_Type_get_extent(x->type, &lower, &extent);
    return x->part * extent;
}
