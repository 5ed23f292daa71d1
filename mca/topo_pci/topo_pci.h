/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef TOPO_PCI_TOPO_PCI_H
#define TOPO_PCI_TOPO_PCI_H

/*
 * The topo/pci component. MPI_Cart_create and MPI_Dist_graph_create(_adjacent) with reorder = true
 * place neighbours of the grid or graph on the same host, and inside a host on the same NUMA node.
 *
 * Every rank describes its location (topo_pci_location.h), and the locations are gathered over the
 * old communicator. The mapper (pci_map.h) finds the permutation. A split of the old communicator
 * creates the new order, and Open MPI's functions build the communicator on it. After any failure
 * on one rank (usually lack of memory), all ranks keep the old order.
 */

#include "mca/topo_pci/map/pci_map.h"
#include "mca/topo_pci/topo_pci_compat.h"

/* Name, type, default, lowest and highest value (integers), level, text. */
#define TOPO_PCI_INT_PARAMETERS(X)                                                               \
    X(priority, 0, 0, 100, OPAL_INFO_LVL_3,                                                      \
      "Priority of topo/pci; 0 (default) disables it, and 90 lets MPI_Cart_create and "          \
      "MPI_Dist_graph_create with reorder place neighbours on the same host.")                   \
    X(domain, -1, -1, 65535, OPAL_INFO_LVL_6,                                                    \
      "Locality domain of this process within its host; -1 (default) selects the NUMA node of "  \
      "its GPU, or of the processors that it is bound to.")                                      \
    X(verbose, 0, 0, 3, OPAL_INFO_LVL_3,                                                         \
      "Amount of reporting, from 0 (default, nothing) to 3: 1 reports each mapping, 2 adds why " \
      "an order was kept, 3 adds the location of every process.")

/* Their values; hostid belongs to Open MPI. */
struct topo_pci_parameters {
    int priority;
    int domain;
    int verbose;
    char *hostid;
};
extern struct topo_pci_parameters topo_pci_parameters;

/* A module keeps the locations of its communicator's ranks, so that cart_map needs no
 * communication.
 */
typedef struct {
    mca_topo_base_module_t super;
    struct pci_map_location *locations;
    int location_count;
} mca_topo_pci_module_t;

OBJ_CLASS_DECLARATION(mca_topo_pci_module_t);

int topo_pci_cart_create(mca_topo_base_module_t *topo, ompi_communicator_t *old_comm, int ndims,
                         const int *dims, const int *periods, bool reorder,
                         ompi_communicator_t **new_comm);
int topo_pci_cart_map(ompi_communicator_t *comm, int ndims, const int *dims, const int *periods,
                      int *newrank);
int topo_pci_cart_sub(ompi_communicator_t *comm, const int *remain_dims,
                      ompi_communicator_t **new_comm);
int topo_pci_graph_create(mca_topo_base_module_t *topo, ompi_communicator_t *old_comm, int count,
                          const int nodes[], const int degrees[], const int targets[],
                          const int weights[], topo_pci_info_t *info, int reorder,
                          ompi_communicator_t **new_comm);
int topo_pci_graph_create_adjacent(mca_topo_base_module_t *topo, ompi_communicator_t *old_comm,
                                   int indegree, const int sources[], const int sourceweights[],
                                   int outdegree, const int targets[], const int targetweights[],
                                   topo_pci_info_t *info, int reorder,
                                   ompi_communicator_t **new_comm);

/* Register the parameters. Open MPI rejects values out of range with a message. */
int topo_pci_parameters_register(const mca_base_component_t *component);

/*
 * Gather the locations of all ranks of COMM on all ranks. Collective. *LOCATIONS is malloc'ed, or
 * NULL on every rank if one of them lacks memory (reported there). Returns an Open MPI error if MPI
 * fails.
 */
int topo_pci_locations_gather(ompi_communicator_t *comm, struct pci_map_location **locations);

/* Set *ALL to whether OK is true on every rank of COMM. Collective. */
int topo_pci_agree(ompi_communicator_t *comm, bool ok, bool *all);

/* Print a message to the component's output stream at verbose level LEVEL. The stream is open while
 * the component is. */
void topo_pci_report_open(void);
void topo_pci_report_close(void);
void topo_pci_report(int level, const char *format, ...) __opal_attribute_format__(printf, 2, 3);

#endif
