/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* MPI_Cart_create, MPI_Cart_map and MPI_Cart_sub. */

#include "mca/topo_pci/topo_pci.h"

#include <inttypes.h>
#include <stdlib.h>

/* Return the module of a communicator if it is one of ours, otherwise NULL. */
static mca_topo_pci_module_t *module_of(ompi_communicator_t *comm)
{
    mca_topo_base_module_t *topo = comm->c_topo;

    if (!topo || topo->super.obj_class != OBJ_CLASS(mca_topo_pci_module_t)) {
        return NULL;
    }
    return (mca_topo_pci_module_t *) topo;
}

/* Find the new rank of RANK among COUNT processes at LOCATIONS; -1: it has none. Return 0 or a
 * negative errno value. */
static int cart_rank_find(int rank, int count, const struct pci_map_location *locations, int ndims,
                          const int *dims, const int *periods, int *newrank,
                          struct pci_map_result *result)
{
    uint32_t *node_of = malloc((size_t) count * sizeof *node_of);
    int rc;

    if (!node_of) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    rc = pci_map_cart(ndims, dims, periods, (uint32_t) count, locations, node_of, result);
    if (rc == 0) {
        *newrank = node_of[rank] == PCI_MAP_NONE ? -1 : (int) node_of[rank];
    }
    free(node_of);
    return rc;
}

/* Copy the locations of the new communicator's ranks from those of OLD_COMM to its module. */
static void locations_inherit(ompi_communicator_t *old_comm,
                              const struct pci_map_location *old_locations,
                              ompi_communicator_t *new_comm)
{
    mca_topo_pci_module_t *module = module_of(new_comm);
    int count = ompi_comm_size(new_comm);
    struct pci_map_location *locations;
    int *ranks;

    if (!module || !old_locations || count <= 0) {
        return;
    }
    locations = malloc((size_t) count * sizeof *locations);
    ranks = malloc(2 * (size_t) count * sizeof *ranks);
    if (!locations || !ranks) {
        free(locations);
        free(ranks);
        return;
    }
    for (int i = 0; i < count; i++) {
        ranks[i] = i;
    }
    if (ompi_group_translate_ranks(new_comm->c_local_group, count, ranks, old_comm->c_local_group,
                                   ranks + count) == MPI_SUCCESS) {
        for (int i = 0; i < count; i++) {
            locations[i] = old_locations[ranks[count + i]];
        }
        free(module->locations);
        module->locations = locations;
        module->location_count = count;
        locations = NULL;
    }
    free(locations);
    free(ranks);
}

/* Create the reordered grid: a split orders the processes, and the base does the rest. */
static int cart_create_reordered(mca_topo_base_module_t *topo, ompi_communicator_t *old_comm,
                                 int newrank, int ndims, const int *dims, const int *periods,
                                 ompi_communicator_t **new_comm)
{
    ompi_communicator_t *ordered = MPI_COMM_NULL;
    int color = newrank < 0 ? MPI_UNDEFINED : 0;
    int rc = ompi_comm_split(old_comm, color, newrank < 0 ? 0 : newrank, &ordered, false);

    if (rc != OMPI_SUCCESS) {
        return rc;
    }
    if (newrank < 0) {
        /* After success the caller no longer uses the module, and there is no other reference. */
        *new_comm = MPI_COMM_NULL;
        OBJ_RELEASE(topo);
        return OMPI_SUCCESS;
    }
    rc = mca_topo_base_cart_create(topo, ordered, ndims, dims, periods, true, new_comm);
    ompi_comm_free(&ordered);
    return rc;
}

static void cart_report(ompi_communicator_t *comm, int ndims, const int *dims,
                        const struct pci_map_result *result)
{
    char shape[128] = "";
    size_t used = 0;

    if (ompi_comm_rank(comm) != 0 || topo_pci_parameters.verbose < 1) {
        return;
    }
    for (int d = 0; d < ndims && used < sizeof shape; d++) {
        used += (size_t) snprintf(shape + used, sizeof shape - used, "%s%d", d ? "x" : "", dims[d]);
    }
    topo_pci_report(1,
                    "[mapping] grid %s on %d ranks: neighbours on other hosts %" PRIu64
                    " before, %" PRIu64 " now; in other domains of a host %" PRIu64
                    " before, %" PRIu64 " now",
                    shape, ompi_comm_size(comm), result->before.hosts, result->after.hosts,
                    result->before.domains, result->after.domains);
}

int topo_pci_cart_create(mca_topo_base_module_t *topo, ompi_communicator_t *old_comm, int ndims,
                         const int *dims, const int *periods, bool reorder,
                         ompi_communicator_t **new_comm)
{
    struct pci_map_location *locations = NULL;
    struct pci_map_result result;
    int newrank = -1, rc = topo_pci_locations_gather(old_comm, &locations);
    bool mapped = false;

    if (rc == OMPI_SUCCESS && reorder && locations) {
        rc = cart_rank_find(ompi_comm_rank(old_comm), ompi_comm_size(old_comm), locations, ndims,
                            dims, periods, &newrank, &result);
        if (rc != 0) {
            topo_pci_report(2, "the grid was not mapped (error %d); the order stays as it is", rc);
        }
        rc = topo_pci_agree(old_comm, rc == 0, &mapped);
    }
    if (rc == OMPI_SUCCESS && mapped) {
        cart_report(old_comm, ndims, dims, &result);
        rc = cart_create_reordered(topo, old_comm, newrank, ndims, dims, periods, new_comm);
    } else if (rc == OMPI_SUCCESS) {
        rc = mca_topo_base_cart_create(topo, old_comm, ndims, dims, periods, reorder, new_comm);
    }
    if (rc == OMPI_SUCCESS && *new_comm != MPI_COMM_NULL) {
        locations_inherit(old_comm, locations, *new_comm);
    }
    free(locations);
    return rc;
}

/* Return the rank that cart_create with reorder would assign, without communication. */
int topo_pci_cart_map(ompi_communicator_t *comm, int ndims, const int *dims, const int *periods,
                      int *newrank)
{
    mca_topo_pci_module_t *module = module_of(comm);
    int rank;

    if (!module || !module->locations ||
        cart_rank_find(ompi_comm_rank(comm), module->location_count, module->locations, ndims, dims,
                       periods, &rank, NULL) != 0) {
        return mca_topo_base_cart_map(comm, ndims, dims, periods, newrank);
    }
    *newrank = rank < 0 ? MPI_UNDEFINED : rank;
    return MPI_SUCCESS;
}

int topo_pci_cart_sub(ompi_communicator_t *comm, const int *remain_dims,
                      ompi_communicator_t **new_comm)
{
    mca_topo_pci_module_t *module = module_of(comm);
    int rc = mca_topo_base_cart_sub(comm, remain_dims, new_comm);

    if (rc == MPI_SUCCESS && module && *new_comm != MPI_COMM_NULL) {
        locations_inherit(comm, module->locations, *new_comm);
    }
    return rc;
}
