/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* Locations of the ranks of a communicator: their exchange, and the module that keeps them. */

#include "mca/topo_pci/topo_pci.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/topo_pci_location.h"

static void module_construct(mca_topo_pci_module_t *module)
{
    memset(&module->super.topo, 0, sizeof module->super.topo);
    module->locations = NULL;
    module->location_count = 0;
}

static void module_destruct(mca_topo_pci_module_t *module)
{
    free(module->locations);
}

OBJ_CLASS_INSTANCE(mca_topo_pci_module_t, mca_topo_base_module_t, module_construct,
                   module_destruct);

int topo_pci_agree(ompi_communicator_t *comm, bool ok, bool *all)
{
    int mine = ok, least = 0;
    int rc = comm->c_coll->coll_allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, comm,
                                          comm->c_coll->coll_allreduce_module);

    *all = rc == OMPI_SUCCESS && least;
    return rc;
}

/* Find the location each time, because the application may have changed its binding or its GPU. */
static struct pci_map_location location_mine(void)
{
    struct pci_map_location location;

    topo_pci_location_find(topo_pci_parameters.hostid, topo_pci_parameters.domain, &location);
    topo_pci_report(3, "this process runs on host %016" PRIx64 ", domain %" PRIu64, location.host,
                    location.domain);
    return location;
}

int topo_pci_locations_gather(ompi_communicator_t *comm, struct pci_map_location **locations)
{
    struct pci_map_location mine = location_mine(), *all;
    bool ok;
    int rc;

    *locations = NULL;
    all = malloc((size_t) ompi_comm_size(comm) * sizeof *all);
    if (!all) {
        opal_output(0,
                    "topo/pci: out of memory for the locations of %d ranks; the order of "
                    "ranks stays as it is",
                    ompi_comm_size(comm));
    }
    rc = topo_pci_agree(comm, all != NULL, &ok);
    if (rc == OMPI_SUCCESS && ok) {
        rc = comm->c_coll->coll_allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE,
                                          comm, comm->c_coll->coll_allgather_module);
    }
    if (rc != OMPI_SUCCESS || !ok) {
        free(all);
        return rc;
    }
    *locations = all;
    return OMPI_SUCCESS;
}
