/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* The component of the framework topo: registration, query, and creation of modules. */

#include "mca/topo_pci/topo_pci.h"

#include "gpuring_config.h"

OMPI_DECLSPEC extern mca_topo_base_component_t mca_topo_pci_component;

static int topo_pci_register(void)
{
    return topo_pci_parameters_register(&mca_topo_pci_component.topoc_version);
}

static int topo_pci_open(void)
{
    topo_pci_report_open();
    return OMPI_SUCCESS;
}

static int topo_pci_close(void)
{
    topo_pci_report_close();
    return OMPI_SUCCESS;
}

static int topo_pci_init_query(bool progress_threads, bool mpi_threads)
{
    (void) progress_threads;
    (void) mpi_threads;
    return OMPI_SUCCESS;
}

/* Offer a module for grids and distributed graphs. The base handles the old MPI_Graph_create. */
static mca_topo_base_module_t *topo_pci_query(TOPO_PCI_QUERY_ARGUMENTS)
{
    mca_topo_pci_module_t *module;

    (void) comm;
    TOPO_PCI_QUERY_UNUSED;
    if (topo_pci_parameters.priority <= 0 ||
        (type != OMPI_COMM_CART && type != OMPI_COMM_DIST_GRAPH)) {
        return NULL;
    }
    module = OBJ_NEW(mca_topo_pci_module_t);
    if (!module) {
        return NULL;
    }
    module->super.type = type;
    if (type == OMPI_COMM_CART) {
        module->super.topo.cart.cart_create = topo_pci_cart_create;
        module->super.topo.cart.cart_map = topo_pci_cart_map;
        module->super.topo.cart.cart_sub = topo_pci_cart_sub;
    } else {
        module->super.topo.dist_graph.dist_graph_create = topo_pci_graph_create;
        module->super.topo.dist_graph.dist_graph_create_adjacent = topo_pci_graph_create_adjacent;
    }
    *priority = topo_pci_parameters.priority;
    return &module->super;
}

mca_topo_base_component_t mca_topo_pci_component = {
    .topoc_version =
        {
            MCA_TOPO_BASE_VERSION_2_2_0,
            .mca_component_name = "pci",
            MCA_BASE_MAKE_VERSION(component, GPURING_VERSION_MAJOR, GPURING_VERSION_MINOR,
                                  GPURING_VERSION_RELEASE),
            .mca_open_component = topo_pci_open,
            .mca_close_component = topo_pci_close,
            .mca_register_component_params = topo_pci_register,
        },
    .topoc_data = {.param_field = MCA_BASE_METADATA_PARAM_NONE},
    .topoc_init_query = topo_pci_init_query,
    .TOPO_PCI_QUERY_SLOT = topo_pci_query,
};
