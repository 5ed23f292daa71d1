# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# The topology engine (libpcigraph: no Open MPI, no CUDA, no verbs) and the component topo/pci.

noinst_LTLIBRARIES += libpcigraph.la
libpcigraph_la_CPPFLAGS = $(AM_CPPFLAGS) $(HWLOC_CPPFLAGS) $(XML_CPPFLAGS)
libpcigraph_la_LIBADD = $(HWLOC_LIBS) $(XML_LIBS) -ldl -lm
libpcigraph_la_SOURCES = \
    mca/topo_pci/bound.c \
    mca/topo_pci/bound_flow.c \
    mca/topo_pci/bound_graph.c \
    mca/topo_pci/channels.c \
    mca/topo_pci/channels_check.c \
    mca/topo_pci/channels_graph.c \
    mca/topo_pci/connect.c \
    mca/topo_pci/connect_check.c \
    mca/topo_pci/connect_tree.c \
    mca/topo_pci/discover.c \
    mca/topo_pci/discover_cpu.c \
    mca/topo_pci/discover_gpu.c \
    mca/topo_pci/discover_internal.h \
    mca/topo_pci/discover_link.c \
    mca/topo_pci/discover_net.c \
    mca/topo_pci/discover_pci.c \
    mca/topo_pci/discover_sys.c \
    mca/topo_pci/file_create.c \
    mca/topo_pci/file_read.c \
    mca/topo_pci/gdr_cuda.c \
    mca/topo_pci/graph_build.c \
    mca/topo_pci/graph_connect.c \
    mca/topo_pci/graph_flatten.c \
    mca/topo_pci/graph_number.c \
    mca/topo_pci/graph_store.c \
    mca/topo_pci/graph_tables.c \
    mca/topo_pci/graph_trim.c \
    mca/topo_pci/map_cart.c \
    mca/topo_pci/map_graph.c \
    mca/topo_pci/map_grow.c \
    mca/topo_pci/map_refine.c \
    mca/topo_pci/map_slots.c \
    mca/topo_pci/map_tile.c \
    mca/topo_pci/maxflow.c \
    mca/topo_pci/maxflow.h \
    mca/topo_pci/nvlink.c \
    mca/topo_pci/nvlink_nvml.c \
    mca/topo_pci/pack.c \
    mca/topo_pci/pack.h \
    mca/topo_pci/pack_check.c \
    mca/topo_pci/pack_graph.c \
    mca/topo_pci/pack_lp.c \
    mca/topo_pci/pack_routes.c \
    mca/topo_pci/pack_tree.c \
    mca/topo_pci/paths_local.c \
    mca/topo_pci/paths_rules.c \
    mca/topo_pci/paths_search.c \
    mca/topo_pci/pci_bound.h \
    mca/topo_pci/pci_channels.h \
    mca/topo_pci/pci_connect.h \
    mca/topo_pci/pci_cuda.h \
    mca/topo_pci/pci_discover.h \
    mca/topo_pci/pci_file.h \
    mca/topo_pci/pci_map.h \
    mca/topo_pci/pci_map_internal.h \
    mca/topo_pci/pci_nvml.h \
    mca/topo_pci/pci_pack.h \
    mca/topo_pci/pci_predict.h \
    mca/topo_pci/pci_render.h \
    mca/topo_pci/pcigraph.h \
    mca/topo_pci/pcigraph_internal.h \
    mca/topo_pci/predict.c \
    mca/topo_pci/predict.h \
    mca/topo_pci/predict_costs.c \
    mca/topo_pci/predict_fit.c \
    mca/topo_pci/predict_job.c \
    mca/topo_pci/predict_table.c \
    mca/topo_pci/render_dot.c \
    mca/topo_pci/render_matrix.c \
    mca/topo_pci/render_svg.c \
    mca/topo_pci/render_svg.h \
    mca/topo_pci/render_svg_machine.c \
    mca/topo_pci/render_svg_panel.c \
    mca/topo_pci/render_text.c \
    mca/topo_pci/search.c \
    mca/topo_pci/search.h \
    mca/topo_pci/search_bound.c \
    mca/topo_pci/search_ends.c \
    mca/topo_pci/search_local.c \
    mca/topo_pci/search_pack.c \
    mca/topo_pci/search_price.c \
    mca/topo_pci/search_tour.c \
    mca/topo_pci/xml_doc.c \
    mca/topo_pci/xml_merge.c \
    mca/topo_pci/xml_read.c \
    mca/topo_pci/xml_trim.c \
    mca/topo_pci/xml_write.c

component_LTLIBRARIES += mca_topo_pci.la
mca_topo_pci_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS) $(HWLOC_CPPFLAGS)
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
    mca/topo_pci/topo_pci_place.c \
    mca/topo_pci/topo_pci_place.h
