/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/*
 * MPI_Dist_graph_create and MPI_Dist_graph_create_adjacent. Rank 0 of the old communicator gathers
 * all edges, maps the graph, and scatters the new ranks, so that only rank 0 needs memory for the
 * whole graph.
 */

#include "mca/topo_pci/topo_pci.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROOT = 0,
};

/* The edges that one rank declares. */
struct edges {
    int count;
    uint32_t *triples; /* source, target, weight of each */
};

/* The data that rank 0 gathers. */
struct whole {
    int *counts;  /* of each rank, in bytes */
    int *offsets; /* of each rank, in bytes */
    uint32_t *triples;
    size_t edges;
};

static int edges_alloc(struct edges *edges, size_t count)
{
    edges->count = 0;
    edges->triples = NULL;
    if (count > INT_MAX / (3 * sizeof(uint32_t))) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    edges->triples = malloc((3 * count + 1) * sizeof(uint32_t));
    return edges->triples ? OMPI_SUCCESS : OMPI_ERR_OUT_OF_RESOURCE;
}

static void edges_add(struct edges *edges, int source, int target, const int *weights, int at)
{
    uint32_t *triple = edges->triples + 3 * (size_t) edges->count++;
    int weight = weights && weights != MPI_UNWEIGHTED ? weights[at] : 1;

    triple[0] = (uint32_t) source;
    triple[1] = (uint32_t) target;
    triple[2] = weight > 0 ? (uint32_t) weight : 0;
}

/* Gather the number of bytes of each rank on rank 0, which allocates memory for them. *ALL is false
 * if this fails. */
static int counts_gather(ompi_communicator_t *comm, int bytes, struct whole *whole, bool *all)
{
    int size = ompi_comm_size(comm), root = ompi_comm_rank(comm) == ROOT, rc;
    size_t total = 0;

    if (root) {
        whole->counts = malloc((size_t) size * sizeof(int));
        whole->offsets = malloc((size_t) size * sizeof(int));
    }
    rc = topo_pci_agree(comm, !root || (whole->counts && whole->offsets), all);
    if (rc != OMPI_SUCCESS || !*all) {
        return rc;
    }
    rc = comm->c_coll->coll_gather(&bytes, 1, MPI_INT, whole->counts, 1, MPI_INT, ROOT, comm,
                                   comm->c_coll->coll_gather_module);
    for (int r = 0; root && rc == OMPI_SUCCESS && r < size; r++) {
        whole->offsets[r] = total < INT_MAX ? (int) total : INT_MAX;
        total += (size_t) whole->counts[r];
    }
    if (root && rc == OMPI_SUCCESS && total <= INT_MAX) {
        whole->triples = malloc(total + 1);
        whole->edges = total / (3 * sizeof(uint32_t));
    }
    if (rc != OMPI_SUCCESS) {
        return rc;
    }
    return topo_pci_agree(comm, !root || whole->triples, all);
}

/* On rank 0, find the new rank of every process from the edges and the locations. */
static int whole_map(const struct whole *whole, int size, const struct pci_map_location *locations,
                     uint32_t *newranks, struct pci_map_result *result)
{
    struct pci_map_graph graph = {0};
    size_t n = whole->edges + 1;
    uint32_t *columns = malloc(3 * n * sizeof *columns);
    int rc;

    if (!columns) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    for (size_t i = 0; i < whole->edges; i++) {
        for (size_t c = 0; c < 3; c++) {
            columns[c * n + i] = whole->triples[3 * i + c];
        }
    }
    rc = pci_map_graph_build((uint32_t) size, whole->edges, columns, columns + n, columns + 2 * n,
                             &graph);
    free(columns);
    if (rc == 0) {
        rc = pci_map_graph(&graph, locations, newranks, result);
        pci_map_graph_free(&graph);
    }
    return rc;
}

static void graph_report(int size, size_t edges, const struct pci_map_result *result)
{
    topo_pci_report(1,
                    "graph of %zu edges on %d ranks: weight between hosts %" PRIu64
                    " before, %" PRIu64 " now; between domains of a host %" PRIu64
                    " before, %" PRIu64 " now",
                    edges, size, result->before.hosts / 2, result->after.hosts / 2,
                    result->before.domains / 2, result->after.domains / 2);
}

/* Map on rank 0, and scatter the new ranks. *NEWRANK is set and *MAPPED is true on all ranks or
 * none. */
static int ranks_scatter(ompi_communicator_t *comm, const struct whole *whole,
                         const struct pci_map_location *locations, int *newrank, bool *mapped)
{
    int size = ompi_comm_size(comm), root = ompi_comm_rank(comm) == ROOT, rc = 0;
    uint32_t *newranks = NULL, mine = 0;

    if (root) {
        struct pci_map_result result;

        newranks = malloc((size_t) size * sizeof *newranks);
        rc = newranks ? whole_map(whole, size, locations, newranks, &result)
                      : OMPI_ERR_OUT_OF_RESOURCE;
        if (rc == 0) {
            graph_report(size, whole->edges, &result);
        } else {
            topo_pci_report(2, "the graph was not mapped (error %d); the order stays as it is", rc);
        }
    }
    rc = topo_pci_agree(comm, rc == 0, mapped);
    if (rc == OMPI_SUCCESS && *mapped) {
        rc = comm->c_coll->coll_scatter(newranks, sizeof mine, MPI_BYTE, &mine, sizeof mine,
                                        MPI_BYTE, ROOT, comm, comm->c_coll->coll_scatter_module);
        *newrank = (int) mine;
    }
    free(newranks);
    return rc;
}

/*
 * Find the permutation for a graph. EDGES are this rank's part of it (NULL triples: out of memory).
 * Collective. *MAPPED is false if the order is unchanged.
 */
static int graph_map(ompi_communicator_t *comm, const struct edges *edges, int *newrank,
                     bool *mapped)
{
    struct pci_map_location *locations = NULL;
    struct whole whole = {0};
    int bytes = edges->count * (int) (3 * sizeof(uint32_t));
    bool ok;
    int rc = topo_pci_agree(comm, edges->triples != NULL, &ok);

    *mapped = false;
    if (rc == OMPI_SUCCESS && ok) {
        rc = topo_pci_locations_gather(comm, &locations);
        ok = locations != NULL;
    }
    if (rc == OMPI_SUCCESS && ok) {
        rc = counts_gather(comm, bytes, &whole, &ok);
    }
    if (rc == OMPI_SUCCESS && ok) {
        rc = topo_pci_gatherv(edges->triples, bytes, whole.triples, whole.counts, whole.offsets,
                              ROOT, comm);
    }
    if (rc == OMPI_SUCCESS && ok) {
        rc = ranks_scatter(comm, &whole, locations, newrank, mapped);
    }
    free(locations);
    free(whole.counts);
    free(whole.offsets);
    free(whole.triples);
    return rc;
}

int topo_pci_graph_create(mca_topo_base_module_t *topo, ompi_communicator_t *old_comm, int count,
                          const int nodes[], const int degrees[], const int targets[],
                          const int weights[], topo_pci_info_t *info, int reorder,
                          ompi_communicator_t **new_comm)
{
    ompi_communicator_t *ordered = MPI_COMM_NULL;
    struct edges edges;
    size_t total = 0;
    bool mapped = false;
    int newrank = 0, at = 0, rc;

    if (!reorder) {
        return mca_topo_base_dist_graph_create(topo, old_comm, count, nodes, degrees, targets,
                                               weights, info, reorder, new_comm);
    }
    for (int i = 0; i < count; i++) {
        total += (size_t) degrees[i];
    }
    if (edges_alloc(&edges, total) == OMPI_SUCCESS) {
        for (int i = 0; i < count; i++) {
            for (int k = 0; k < degrees[i]; k++, at++) {
                edges_add(&edges, nodes[i], targets[at], weights, at);
            }
        }
    }
    rc = graph_map(old_comm, &edges, &newrank, &mapped);
    free(edges.triples);
    if (rc != OMPI_SUCCESS || !mapped) {
        return rc != OMPI_SUCCESS
                   ? rc
                   : mca_topo_base_dist_graph_create(topo, old_comm, count, nodes, degrees, targets,
                                                     weights, info, reorder, new_comm);
    }
    rc = ompi_comm_split(old_comm, 0, newrank, &ordered, false);
    if (rc == OMPI_SUCCESS) {
        rc = mca_topo_base_dist_graph_create(topo, ordered, count, nodes, degrees, targets, weights,
                                             info, reorder, new_comm);
        ompi_comm_free(&ordered);
    }
    return rc;
}

/* The neighbours of one node, as arguments of MPI_Dist_graph_create_adjacent. */
struct adjacency {
    int indegree;
    int outdegree;
    int weighted_in;
    int weighted_out;
    int *numbers; /* sources, their weights, targets, their weights; absent weights are omitted */
};

enum {
    ADJACENCY_HEADER = 4,
    TAG_HEADER = 1,
    TAG_NUMBERS = 2,
};

static size_t adjacency_length(const struct adjacency *a)
{
    return (size_t) a->indegree * (a->weighted_in ? 2 : 1) +
           (size_t) a->outdegree * (a->weighted_out ? 2 : 1);
}

static int *numbers_append(int *to, const int *from, int count)
{
    if (count > 0) {
        memcpy(to, from, (size_t) count * sizeof *to);
    }
    return to + count;
}

static int adjacency_pack(struct adjacency *a, const int *sources, const int *sourceweights,
                          const int *targets, const int *targetweights)
{
    int *next;

    a->numbers = malloc((adjacency_length(a) + 1) * sizeof(int));
    if (!a->numbers) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    next = numbers_append(a->numbers, sources, a->indegree);
    next = numbers_append(next, sourceweights, a->weighted_in ? a->indegree : 0);
    next = numbers_append(next, targets, a->outdegree);
    numbers_append(next, targetweights, a->weighted_out ? a->outdegree : 0);
    return OMPI_SUCCESS;
}

/* Send OUT_COUNT integers to DEST while receiving from SOURCE (any if negative). */
static int integers_exchange(ompi_communicator_t *comm, const int *out, size_t out_count, int dest,
                             int *in, size_t in_count, int tag, int *source)
{
    ompi_request_t *request = MPI_REQUEST_NULL;
    ompi_status_public_t status;
    int rc, sent;

    rc = MCA_PML_CALL(
        irecv(in, in_count, MPI_INT, *source < 0 ? MPI_ANY_SOURCE : *source, tag, comm, &request));
    if (rc != OMPI_SUCCESS) {
        return rc;
    }
    sent = MCA_PML_CALL(send(out, out_count, MPI_INT, dest, tag, MCA_PML_BASE_SEND_STANDARD, comm));
    rc = ompi_request_wait(&request, &status);
    *source = status.MPI_SOURCE;
    return sent != OMPI_SUCCESS ? sent : rc;
}

/*
 * Move the adjacencies. ORDERED has the processes in their new order. Old rank r has described node
 * r of the graph, which is rank r of ORDERED from now on. Every process therefore sends its
 * arguments to the rank of ORDERED with its old number.
 */
static int adjacency_move(ompi_communicator_t *ordered, int old_rank, const struct adjacency *mine,
                          struct adjacency *theirs)
{
    int header_out[ADJACENCY_HEADER] = {mine->indegree, mine->outdegree, mine->weighted_in,
                                        mine->weighted_out};
    int header_in[ADJACENCY_HEADER], source = -1, rc;
    bool ok;

    rc = integers_exchange(ordered, header_out, ADJACENCY_HEADER, old_rank, header_in,
                           ADJACENCY_HEADER, TAG_HEADER, &source);
    if (rc != OMPI_SUCCESS) {
        return rc;
    }
    theirs->indegree = header_in[0];
    theirs->outdegree = header_in[1];
    theirs->weighted_in = header_in[2];
    theirs->weighted_out = header_in[3];
    theirs->numbers = malloc((adjacency_length(theirs) + 1) * sizeof(int));
    rc = topo_pci_agree(ordered, theirs->numbers != NULL, &ok);
    if (rc != OMPI_SUCCESS || !ok) {
        return rc != OMPI_SUCCESS ? rc : OMPI_ERR_OUT_OF_RESOURCE;
    }
    return integers_exchange(ordered, mine->numbers, adjacency_length(mine), old_rank,
                             theirs->numbers, adjacency_length(theirs), TAG_NUMBERS, &source);
}

/* Create the graph on ORDERED from each rank's new adjacency. */
static int adjacency_create(mca_topo_base_module_t *topo, ompi_communicator_t *ordered,
                            const struct adjacency *a, topo_pci_info_t *info, int reorder,
                            ompi_communicator_t **new_comm)
{
    const int *sources = a->numbers, *source_weights = sources + a->indegree;
    const int *targets = source_weights + (a->weighted_in ? a->indegree : 0);
    const int *target_weights = targets + a->outdegree;

    return mca_topo_base_dist_graph_create_adjacent(
        topo, ordered, a->indegree, sources, a->weighted_in ? source_weights : MPI_UNWEIGHTED,
        a->outdegree, targets, a->weighted_out ? target_weights : MPI_UNWEIGHTED, info, reorder,
        new_comm);
}

/* Split, move the adjacencies to their new owners, and create the graph. MINE is already packed. */
static int adjacent_create_reordered(mca_topo_base_module_t *topo, ompi_communicator_t *old_comm,
                                     int newrank, const struct adjacency *mine,
                                     topo_pci_info_t *info, int reorder,
                                     ompi_communicator_t **new_comm)
{
    ompi_communicator_t *ordered = MPI_COMM_NULL;
    struct adjacency theirs = {0};
    int rc = ompi_comm_split(old_comm, 0, newrank, &ordered, false);

    if (rc != OMPI_SUCCESS) {
        return rc;
    }
    rc = adjacency_move(ordered, ompi_comm_rank(old_comm), mine, &theirs);
    if (rc == OMPI_SUCCESS) {
        rc = adjacency_create(topo, ordered, &theirs, info, reorder, new_comm);
    }
    free(theirs.numbers);
    ompi_comm_free(&ordered);
    return rc;
}

int topo_pci_graph_create_adjacent(mca_topo_base_module_t *topo, ompi_communicator_t *old_comm,
                                   int indegree, const int sources[], const int sourceweights[],
                                   int outdegree, const int targets[], const int targetweights[],
                                   topo_pci_info_t *info, int reorder,
                                   ompi_communicator_t **new_comm)
{
    struct adjacency mine = {indegree, outdegree, sourceweights != MPI_UNWEIGHTED,
                             targetweights != MPI_UNWEIGHTED, NULL};
    struct edges edges = {0, NULL};
    int newrank = 0, rc = OMPI_SUCCESS, rank = ompi_comm_rank(old_comm);
    bool mapped = false;

    if (reorder) {
        if (edges_alloc(&edges, (size_t) outdegree) == OMPI_SUCCESS) {
            for (int i = 0; i < outdegree; i++) {
                edges_add(&edges, rank, targets[i], targetweights, i);
            }
            if (adjacency_pack(&mine, sources, sourceweights, targets, targetweights) != 0) {
                free(edges.triples);
                edges.triples = NULL;
            }
        }
        rc = graph_map(old_comm, &edges, &newrank, &mapped);
        free(edges.triples);
    }
    if (rc == OMPI_SUCCESS && mapped) {
        rc = adjacent_create_reordered(topo, old_comm, newrank, &mine, info, reorder, new_comm);
    } else if (rc == OMPI_SUCCESS) {
        rc = mca_topo_base_dist_graph_create_adjacent(topo, old_comm, indegree, sources,
                                                      sourceweights, outdegree, targets,
                                                      targetweights, info, reorder, new_comm);
    }
    free(mine.numbers);
    return rc;
}
