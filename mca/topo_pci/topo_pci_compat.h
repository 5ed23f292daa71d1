/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef TOPO_PCI_TOPO_PCI_COMPAT_H
#define TOPO_PCI_TOPO_PCI_COMPAT_H

/*
 * All differences between Open MPI versions that affect the topo/pci component. 5.0 and 6.0 differ
 * from 4.1 in the arguments of the query, in the name of its slot, in the dump of enumerators, and
 * (6.0) in the counts of gatherv.
 */

#include "ompi_config.h"

#include "mpi.h"

#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/coll/base/coll_tags.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/mca/topo/base/base.h"
#include "ompi/mca/topo/topo.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/mca/base/mca_base_var_enum.h"
#include "opal/util/output.h"

#if OMPI_MAJOR_VERSION >= 5
#define TOPO_PCI_QUERY_SLOT topoc_query
#define TOPO_PCI_QUERY_ARGUMENTS \
    const ompi_communicator_t *comm, const ompi_group_t *group, int *priority, uint32_t type
#define TOPO_PCI_QUERY_UNUSED (void) group
#else
#define TOPO_PCI_QUERY_SLOT      topoc_comm_query
#define TOPO_PCI_QUERY_ARGUMENTS const ompi_communicator_t *comm, int *priority, uint32_t type
#define TOPO_PCI_QUERY_UNUSED    (void) 0
#endif

/* From 5.0 on, the dump function of an enumerator has a third argument for colours. */
#if OMPI_MAJOR_VERSION >= 5
#define TOPO_PCI_DUMP_ARGUMENTS \
    mca_base_var_enum_t *self, char **out, mca_base_var_enum_dump_type_t type
#define TOPO_PCI_DUMP_UNUSED (void) type
#else
#define TOPO_PCI_DUMP_ARGUMENTS mca_base_var_enum_t *self, char **out
#define TOPO_PCI_DUMP_UNUSED    (void) 0
#endif

/* The info argument of MPI_Dist_graph_create has had this type since 4.0. */
typedef struct opal_info_t topo_pci_info_t;

/* Gather bytes of every rank on the root. COUNTS and OFFSETS are only used on the root. */
static inline int topo_pci_gatherv(const void *bytes, int count, void *all, const int *counts,
                                   const int *offsets, int root, ompi_communicator_t *comm)
{
    mca_coll_base_comm_coll_t *coll = comm->c_coll;
#if OMPI_MAJOR_VERSION >= 6
    ompi_count_array_t count_array;
    ompi_disp_array_t offset_array;

    OMPI_COUNT_ARRAY_INIT(&count_array, counts);
    OMPI_DISP_ARRAY_INIT(&offset_array, offsets);
    return coll->coll_gatherv(bytes, count, MPI_BYTE, all, count_array, offset_array, MPI_BYTE,
                              root, comm, coll->coll_gatherv_module);
#else
    return coll->coll_gatherv(bytes, count, MPI_BYTE, all, counts, offsets, MPI_BYTE, root, comm,
                              coll->coll_gatherv_module);
#endif
}

#endif
