/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/*
 * Check the properties of a reordered Cartesian or graph communicator that applications rely on,
 * and count the neighbours on other hosts. test_topo_pci.sh runs this program. The host of a
 * process is the text in OMPI_MCA_topo_pci_hostid.
 *
 *     topo_pci_check cart DIMS PERIODS    e.g. cart 4,4 0,1
 *     topo_pci_check graph SEED           random distributed graphs, four ways to create them
 *
 * Rank 0 prints "neighbours on other hosts: BEFORE AFTER".  Exit status 1 when anything is wrong.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

enum {
    DIMS_MAX = 8,
    DEGREE_MAX = 6,
    HOST_TEXT = 64,
};

static int world_rank, world_size;
static char (*hosts)[HOST_TEXT];

static void check_at(int ok, const char *what, int line)
{
    if (!ok) {
        fprintf(stderr, "line %d: rank %d: wrong: %s\n", line, world_rank, what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

#define CHECK(condition) check_at((condition), #condition, __LINE__)

static void hosts_gather(void)
{
    char mine[HOST_TEXT] = "";
    const char *text = getenv("OMPI_MCA_topo_pci_hostid");

    snprintf(mine, sizeof(mine), "%s", text ? text : "");
    hosts = calloc((size_t) world_size, HOST_TEXT);
    CHECK(hosts != NULL);
    MPI_Allgather(mine, HOST_TEXT, MPI_CHAR, hosts, HOST_TEXT, MPI_CHAR, MPI_COMM_WORLD);
}

static int list_parse(const char *text, int *values)
{
    int count = 0;
    char *end;

    for (; *text && count < DIMS_MAX; text = *end ? end + 1 : end) {
        values[count++] = (int) strtol(text, &end, 10);
    }
    return count;
}

static int cells_of(int ndims, const int *dims)
{
    int cells = 1;

    for (int d = 0; d < ndims; d++) {
        cells *= dims[d];
    }
    return cells;
}

/* Return the old rank of each rank of COMM, after checking that they are a permutation. */
static int *members_of(MPI_Comm comm)
{
    int size, *members, *seen = calloc((size_t) world_size, sizeof(int));

    MPI_Comm_size(comm, &size);
    members = malloc((size_t) size * sizeof(int));
    CHECK(members && seen);
    MPI_Allgather(&world_rank, 1, MPI_INT, members, 1, MPI_INT, comm);
    for (int r = 0; r < size; r++) {
        CHECK(members[r] >= 0 && members[r] < world_size && !seen[members[r]]);
        seen[members[r]] = 1;
    }
    free(seen);
    return members;
}

/* Count neighbour relations of the grid between different hosts, in both directions. */
static int grid_cut(MPI_Comm comm, int ndims, const int *members)
{
    int mine = 0, all = 0, rank;

    MPI_Comm_rank(comm, &rank);
    for (int d = 0; d < ndims; d++) {
        int peers[2];

        MPI_Cart_shift(comm, d, 1, &peers[0], &peers[1]);
        for (int i = 0; i < 2; i++) {
            if (peers[i] != MPI_PROC_NULL && peers[i] != rank) {
                int a = members ? members[rank] : rank, b = members ? members[peers[i]] : peers[i];

                mine += strcmp(hosts[a], hosts[b]) != 0;
            }
        }
    }
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, comm);
    return all;
}

/* Exchange coordinates with the neighbours in each dimension, and check them. */
static void grid_messages(MPI_Comm comm, int ndims, const int *dims, const int *periods)
{
    int rank, mine[DIMS_MAX], theirs[DIMS_MAX];

    MPI_Comm_rank(comm, &rank);
    MPI_Cart_coords(comm, rank, DIMS_MAX, mine);
    for (int d = 0; d < ndims; d++) {
        int from, to;

        MPI_Cart_shift(comm, d, 1, &from, &to);
        CHECK((from == MPI_PROC_NULL) == (!periods[d] && mine[d] == 0));
        memcpy(theirs, mine, sizeof(theirs));
        MPI_Sendrecv(mine, ndims, MPI_INT, to, 0, theirs, ndims, MPI_INT, from, 0, comm,
                     MPI_STATUS_IGNORE);
        for (int k = 0; from != MPI_PROC_NULL && k < ndims; k++) {
            CHECK(theirs[k] == (k == d ? (mine[k] + dims[k] - 1) % dims[k] : mine[k]));
        }
    }
}

/* The communicator reports its arguments, ranks are row-major, and neighbours can exchange
 * messages. */
static void grid_semantics(MPI_Comm comm, int ndims, const int *dims, const int *periods)
{
    int got_dims[DIMS_MAX], got_periods[DIMS_MAX], coords[DIMS_MAX], rank, size, kind, again;
    int row_major = 0, got_ndims, remain[DIMS_MAX];
    MPI_Comm row;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Topo_test(comm, &kind);
    CHECK(kind == MPI_CART && size == cells_of(ndims, dims));
    MPI_Cartdim_get(comm, &got_ndims);
    CHECK(got_ndims == ndims);
    MPI_Cart_get(comm, DIMS_MAX, got_dims, got_periods, coords);
    for (int d = 0; d < ndims; d++) {
        CHECK(got_dims[d] == dims[d] && !got_periods[d] == !periods[d]);
        row_major = row_major * dims[d] + coords[d];
        remain[d] = d == ndims - 1;
    }
    CHECK(row_major == rank);
    if (ndims == 0) {
        return;
    }
    MPI_Cart_rank(comm, coords, &again);
    CHECK(again == rank);
    grid_messages(comm, ndims, dims, periods);
    MPI_Cart_sub(comm, remain, &row);
    MPI_Comm_size(row, &size);
    MPI_Comm_rank(row, &again);
    CHECK(size == dims[ndims - 1] && again == coords[ndims - 1]);
    grid_messages(row, 1, dims + ndims - 1, periods + ndims - 1);
    MPI_Comm_free(&row);
}

/* MPI_Cart_map on a Cartesian communicator returns the rank that MPI_Cart_create assigns. */
static void grid_map_agrees(MPI_Comm comm, int ndims, const int *dims, const int *periods)
{
    int reversed[DIMS_MAX], wrap[DIMS_MAX], predicted, rank;
    MPI_Comm other;

    for (int d = 0; d < ndims; d++) {
        reversed[d] = dims[ndims - 1 - d];
        wrap[d] = periods[ndims - 1 - d];
    }
    if (ndims == 0) {
        return;
    }
    MPI_Cart_map(comm, ndims, reversed, wrap, &predicted);
    MPI_Cart_create(comm, ndims, reversed, wrap, 1, &other);
    MPI_Comm_rank(other, &rank);
    CHECK(predicted == rank);
    MPI_Comm_free(&other);
}

static void cart_check(const char *dims_text, const char *periods_text)
{
    int dims[DIMS_MAX], periods[DIMS_MAX] = {0}, ndims = list_parse(dims_text, dims);
    int *members, before = 0, after = 0, member, count = 0;
    MPI_Comm plain, grid, copy;

    list_parse(periods_text, periods);
    MPI_Cart_create(MPI_COMM_WORLD, ndims, dims, periods, 0, &plain);
    MPI_Cart_create(MPI_COMM_WORLD, ndims, dims, periods, 1, &grid);
    member = grid != MPI_COMM_NULL;
    MPI_Allreduce(&member, &count, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(count == cells_of(ndims, dims));
    if (plain != MPI_COMM_NULL) {
        int rank;

        MPI_Comm_rank(plain, &rank);
        CHECK(rank == world_rank);
        grid_semantics(plain, ndims, dims, periods);
        before = grid_cut(plain, ndims, NULL);
        grid_map_agrees(plain, ndims, dims, periods);
        MPI_Comm_free(&plain);
    }
    if (grid != MPI_COMM_NULL) {
        members = members_of(grid);
        grid_semantics(grid, ndims, dims, periods);
        after = grid_cut(grid, ndims, members);
        MPI_Comm_dup(grid, &copy);
        grid_map_agrees(grid, ndims, dims, periods);
        MPI_Comm_free(&grid);
        grid_semantics(copy, ndims, dims, periods);
        MPI_Comm_free(&copy);
        free(members);
    }
    MPI_Allreduce(MPI_IN_PLACE, &after, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &before, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    CHECK(after <= before);
    if (world_rank == 0) {
        printf("neighbours on other hosts: %d %d\n", before, after);
    }
}

/* A directed graph that every rank knows: edge k of node v leads to target[v][k]. */
struct graph {
    int *degree;
    int (*target)[DEGREE_MAX];
    int (*weight)[DEGREE_MAX];
};

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Make a graph with much traffic between nodes of the same residue modulo the number of hosts,
 * which is bad for ranks that are placed in blocks. */
static void graph_make(struct graph *g, unsigned seed)
{
    int stride = 2 + (int) (seed % 3);

    g->degree = calloc((size_t) world_size, sizeof(int));
    g->target = calloc((size_t) world_size, sizeof(*g->target));
    g->weight = calloc((size_t) world_size, sizeof(*g->weight));
    CHECK(g->degree && g->target && g->weight);
    for (int v = 0; v < world_size; v++) {
        g->degree[v] = (int) (next_random(&seed) % (DEGREE_MAX + 1));
        for (int k = 0; k < g->degree[v]; k++) {
            int step = stride * (int) (next_random(&seed) % (unsigned) world_size);

            g->target[v][k] = (v + step) % world_size;
            g->weight[v][k] = 1 + (int) (next_random(&seed) % 9);
        }
    }
}

static void graph_free(struct graph *g)
{
    free(g->degree);
    free(g->target);
    free(g->weight);
}

static int graph_cut(const struct graph *g, const int *members)
{
    int cut = 0;

    for (int v = 0; v < world_size; v++) {
        for (int k = 0; k < g->degree[v]; k++) {
            int a = members ? members[v] : v, t = g->target[v][k], b = members ? members[t] : t;

            cut += strcmp(hosts[a], hosts[b]) != 0 ? g->weight[v][k] : 0;
        }
    }
    return cut;
}

/* Get the sources of NODE in the order of the sending nodes, with weights. */
static int sources_of(const struct graph *g, int node, int *sources, int *weights)
{
    int count = 0;

    for (int v = 0; v < world_size; v++) {
        for (int k = 0; k < g->degree[v]; k++) {
            if (g->target[v][k] == node) {
                weights[count] = g->weight[v][k];
                sources[count++] = v;
            }
        }
    }
    return count;
}

static MPI_Comm graph_create(const struct graph *g, int adjacent, int weighted, int reorder)
{
    size_t room = (size_t) world_size * DEGREE_MAX + 1;
    int *sources = malloc(2 * room * sizeof(int)), *weights = sources + room;
    int me = world_rank, indegree;
    MPI_Comm comm;

    CHECK(sources != NULL);
    indegree = sources_of(g, me, sources, weights);
    if (adjacent) {
        MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, indegree, sources,
                                       weighted ? weights : MPI_UNWEIGHTED, g->degree[me],
                                       g->target[me], weighted ? g->weight[me] : MPI_UNWEIGHTED,
                                       MPI_INFO_NULL, reorder, &comm);
    } else {
        /* Each rank declares the edges of another one: nodes and declarers need not agree. */
        int node = (me + 1) % world_size;

        MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &node, &g->degree[node], g->target[node],
                              weighted ? g->weight[node] : MPI_UNWEIGHTED, MPI_INFO_NULL, reorder,
                              &comm);
    }
    free(sources);
    return comm;
}

static int by_pair(const void *a, const void *b)
{
    return memcmp(a, b, 2 * sizeof(int));
}

/* Check that two lists are equal, in any order unless ORDERED. Weights are compared if WEIGHTED. */
static void lists_compare(int count, const int *got, const int *got_weight, const int *want,
                          const int *want_weight, int weighted, int ordered)
{
    int(*pairs)[2][2] = NULL;
    int(*a)[2] = calloc((size_t) count + 1, sizeof(*a)), (*b)[2] = calloc((size_t) count + 1, 8);

    (void) pairs;
    CHECK(a && b);
    for (int i = 0; i < count; i++) {
        a[i][0] = got[i];
        b[i][0] = want[i];
        a[i][1] = weighted ? got_weight[i] : 0;
        b[i][1] = weighted ? want_weight[i] : 0;
    }
    if (!ordered) {
        qsort(a, (size_t) count, sizeof(*a), by_pair);
        qsort(b, (size_t) count, sizeof(*b), by_pair);
    }
    CHECK(memcmp(a, b, (size_t) count * sizeof(*a)) == 0);
    free(a);
    free(b);
}

/* Check that rank r of the new communicator has the neighbours of node r, and exchange data. */
static void graph_semantics(const struct graph *g, MPI_Comm comm, int adjacent, int weighted)
{
    size_t room = (size_t) world_size * DEGREE_MAX + 1;
    int *buffer = malloc(6 * room * sizeof(int)), *in = buffer, *in_weight = in + room;
    int *out = in_weight + room, *out_weight = out + room, *want = out_weight + room;
    int *want_weight = want + room, rank, indegree, outdegree, has_weights;

    CHECK(buffer != NULL);
    MPI_Comm_rank(comm, &rank);
    MPI_Dist_graph_neighbors_count(comm, &indegree, &outdegree, &has_weights);
    CHECK(outdegree == g->degree[rank] && !has_weights == !weighted);
    CHECK(indegree == sources_of(g, rank, want, want_weight));
    MPI_Dist_graph_neighbors(comm, indegree, in, in_weight, outdegree, out, out_weight);
    lists_compare(indegree, in, in_weight, want, want_weight, weighted, adjacent);
    lists_compare(outdegree, out, out_weight, g->target[rank], g->weight[rank], weighted, adjacent);
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, want, 1, MPI_INT, comm);
    CHECK(memcmp(want, in, (size_t) indegree * sizeof(int)) == 0);
    free(buffer);
}

static void graph_check(unsigned seed)
{
    struct graph g;
    int before, after = 0;

    graph_make(&g, seed);
    before = graph_cut(&g, NULL);
    for (int way = 0; way < 8; way++) {
        int adjacent = way & 1, weighted = (way & 2) != 0, reorder = (way & 4) != 0, *members;
        MPI_Comm comm = graph_create(&g, adjacent, weighted, reorder);

        members = members_of(comm);
        graph_semantics(&g, comm, adjacent, weighted);
        for (int r = 0; !reorder && r < world_size; r++) {
            CHECK(members[r] == r);
        }
        if (reorder && weighted) {
            after = graph_cut(&g, members);
            CHECK(after <= before);
        }
        free(members);
        MPI_Comm_free(&comm);
    }
    if (world_rank == 0) {
        printf("neighbours on other hosts: %d %d\n", before, after);
    }
    graph_free(&g);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    hosts_gather();
    if (argc == 4 && strcmp(argv[1], "cart") == 0) {
        cart_check(argv[2], argv[3]);
    } else if (argc == 3 && strcmp(argv[1], "graph") == 0) {
        graph_check((unsigned) strtoul(argv[2], NULL, 10));
    } else {
        fprintf(stderr, "usage: %s cart DIMS PERIODS | graph SEED\n", argv[0]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    free(hosts);
    MPI_Finalize();
    return 0;
}
