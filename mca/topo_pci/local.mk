# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# The topology engine (libpcigraph: no Open MPI, no CUDA, no verbs) and the component topo/pci.

noinst_LTLIBRARIES += libpcigraph.la
libpcigraph_la_CPPFLAGS = $(base_cppflags) $(HWLOC_CPPFLAGS) $(EXPAT_CPPFLAGS)
libpcigraph_la_LIBADD = $(HWLOC_LIBS) $(EXPAT_LIBS) -ldl -lm
libpcigraph_la_SOURCES = \
    mca/topo_pci/bounds/bound.c \
    mca/topo_pci/bounds/flow.c \
    mca/topo_pci/bounds/bounds_graph.c \
    mca/topo_pci/bounds/maxflow.c \
    mca/topo_pci/bounds/maxflow.h \
    mca/topo_pci/bounds/pci_bound.h \
    mca/topo_pci/discover/cpu.c \
    mca/topo_pci/discover/discover.c \
    mca/topo_pci/discover/gdr_cuda.c \
    mca/topo_pci/discover/gpu.c \
    mca/topo_pci/discover/discover_internal.h \
    mca/topo_pci/discover/discover_link.c \
    mca/topo_pci/discover/net.c \
    mca/topo_pci/discover/nvlink.c \
    mca/topo_pci/discover/nvlink_nvml.c \
    mca/topo_pci/discover/pci.c \
    mca/topo_pci/discover/pci_discover.h \
    mca/topo_pci/discover/pci_driver.h \
    mca/topo_pci/discover/sys.c \
    mca/topo_pci/graph/graph_build.c \
    mca/topo_pci/graph/graph_connect.c \
    mca/topo_pci/graph/flatten.c \
    mca/topo_pci/graph/graph_internal.h \
    mca/topo_pci/graph/number.c \
    mca/topo_pci/graph/parts.c \
    mca/topo_pci/graph/paths_local.c \
    mca/topo_pci/graph/paths_rules.c \
    mca/topo_pci/graph/paths_search.c \
    mca/topo_pci/graph/pcigraph.h \
    mca/topo_pci/graph/store.c \
    mca/topo_pci/graph/graph_tables.c \
    mca/topo_pci/map/cart.c \
    mca/topo_pci/map/map_graph.c \
    mca/topo_pci/map/grow.c \
    mca/topo_pci/map/map_internal.h \
    mca/topo_pci/map/pci_map.h \
    mca/topo_pci/map/refine.c \
    mca/topo_pci/map/slots.c \
    mca/topo_pci/map/tile.c \
    mca/topo_pci/predict/executor_model.c \
    mca/topo_pci/predict/choose.c \
    mca/topo_pci/predict/costs.c \
    mca/topo_pci/predict/job.c \
    mca/topo_pci/predict/pci_predict.h \
    mca/topo_pci/predict/predict.c \
    mca/topo_pci/predict/predict.h \
    mca/topo_pci/predict/table.c \
    mca/topo_pci/search/search_bound.c \
    mca/topo_pci/search/channels.c \
    mca/topo_pci/search/channels_graph.c \
    mca/topo_pci/search/search_connect.c \
    mca/topo_pci/search/connect_tree.c \
    mca/topo_pci/search/ends.c \
    mca/topo_pci/search/local.c \
    mca/topo_pci/search/pack.c \
    mca/topo_pci/search/pci_channels.h \
    mca/topo_pci/search/pci_connect.h \
    mca/topo_pci/search/price.c \
    mca/topo_pci/search/search.c \
    mca/topo_pci/search/search.h \
    mca/topo_pci/search/tour.c \
    mca/topo_pci/xml/doc.c \
    mca/topo_pci/xml/doc.h \
    mca/topo_pci/xml/file.c \
    mca/topo_pci/xml/merge.c \
    mca/topo_pci/xml/pci_doc.h \
    mca/topo_pci/xml/pci_file.h \
    mca/topo_pci/xml/read.c \
    mca/topo_pci/xml/trim.c \
    mca/topo_pci/xml/write.c

component_LTLIBRARIES += mca_topo_pci.la
mca_topo_pci_la_CPPFLAGS = $(base_cppflags) $(MPI_CPPFLAGS) $(HWLOC_CPPFLAGS)
mca_topo_pci_la_LDFLAGS = -module $(AM_LDFLAGS) $(GPURING_MODULE_LDFLAGS) \
    -export-symbols-regex '^mca_topo_pci_component$$'
mca_topo_pci_la_LIBADD = libpcigraph.la $(MPI_LIBS)
mca_topo_pci_la_SOURCES = \
    mca/topo_pci/topo_pci.h \
    mca/topo_pci/topo_pci_cart.c \
    mca/topo_pci/topo_pci_compat.h \
    mca/topo_pci/topo_pci_component.c \
    mca/topo_pci/topo_pci_gather.c \
    mca/topo_pci/topo_pci_graph.c \
    mca/topo_pci/topo_pci_parameters.c \
    mca/topo_pci/topo_pci_report.c \
    mca/topo_pci/topo_pci_location.c \
    mca/topo_pci/topo_pci_location.h
