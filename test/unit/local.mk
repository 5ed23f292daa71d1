# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Unit tests: one cmocka program per module, one group of tests per program. Each block adds its
# program to unit_tests; those that run threads or share memory also to thread_tests, which the
# thread sanitizer repeats.

unit_tests =
thread_tests =

core_test_libs = libgpuring_core.la libpcigraph.la $(CMOCKA_LIBS) -lpthread -lm
pci_test_libs = libpcigraph.la $(CMOCKA_LIBS) -lm
pci_proof = test/unit/pci_proof_channels.c test/unit/pci_proof_connect.c test/unit/pci_proof.h

unit_tests += test/unit/test_decisions
test_unit_test_decisions_SOURCES = test/unit/test_decisions.c test/unit/selection.h
test_unit_test_decisions_LDADD = $(core_test_libs)

unit_tests += test/unit/test_queue
test_unit_test_queue_SOURCES = test/unit/test_queue.c
test_unit_test_queue_LDADD = $(core_test_libs)

unit_tests += test/unit/test_task
thread_tests += test/unit/test_task
test_unit_test_task_SOURCES = test/unit/test_task.c
test_unit_test_task_LDADD = $(core_test_libs)

unit_tests += test/unit/test_oob
test_unit_test_oob_SOURCES = test/unit/test_oob.c
test_unit_test_oob_LDADD = $(core_test_libs)


unit_tests += test/unit/test_runs
test_unit_test_runs_SOURCES = test/unit/test_runs.c
test_unit_test_runs_LDADD = $(core_test_libs)

unit_tests += test/unit/test_tuning
test_unit_test_tuning_SOURCES = test/unit/test_tuning.c test/unit/selection.h
test_unit_test_tuning_LDADD = $(core_test_libs)

unit_tests += test/unit/test_local_channels
test_unit_test_local_channels_SOURCES = test/unit/test_local_channels.c
test_unit_test_local_channels_LDADD = $(core_test_libs)

unit_tests += test/unit/test_nic_select
test_unit_test_nic_select_SOURCES = test/unit/test_nic_select.c test/unit/pci_test.h
test_unit_test_nic_select_LDADD = $(core_test_libs)

unit_tests += test/unit/test_pci_bound
test_unit_test_pci_bound_SOURCES = test/unit/test_pci_bound.c test/unit/pci_cube.h
test_unit_test_pci_bound_LDADD = $(pci_test_libs)

unit_tests += test/unit/test_pci_map
test_unit_test_pci_map_SOURCES = test/unit/test_pci_map.c
test_unit_test_pci_map_LDADD = $(pci_test_libs)

unit_tests += test/unit/test_plan
test_unit_test_plan_SOURCES = test/unit/test_plan.c test/unit/plans.c test/unit/plans.h
test_unit_test_plan_LDADD = $(core_test_libs)

unit_tests += test/unit/test_plan_simulate
test_unit_test_plan_simulate_SOURCES = test/unit/test_plan_simulate.c \
    test/unit/plan_simulate.c test/unit/plan_simulate.h test/unit/plans.c test/unit/plans.h
test_unit_test_plan_simulate_LDADD = $(core_test_libs)

exec_test_sources = test/unit/calls.c test/unit/calls.h test/unit/fabric.c test/unit/fabric.h \
    test/unit/plans.c test/unit/plans.h test/unit/reference.c test/unit/reference.h

unit_tests += test/unit/test_exec
thread_tests += test/unit/test_exec
test_unit_test_exec_SOURCES = test/unit/test_exec.c $(exec_test_sources)
test_unit_test_exec_LDADD = $(core_test_libs)

unit_tests += test/unit/test_collectives
thread_tests += test/unit/test_collectives
test_unit_test_collectives_SOURCES = test/unit/test_collectives.c test/unit/block_threads.c \
    test/unit/collective_calls.c test/unit/collective_calls.h \
    test/unit/block_threads.h kernels/block.h kernels/block_ll.h kernels/block_ll128.h \
    kernels/overlap.h $(exec_test_sources)
test_unit_test_collectives_LDADD = $(core_test_libs)

# The source of the CUDA kernels with real threads instead of the threads of a block.
unit_tests += test/unit/test_block
thread_tests += test/unit/test_block
test_unit_test_block_SOURCES = test/unit/test_block.c test/unit/block_threads.c \
    test/unit/block_threads.h kernels/block.h kernels/block_ll.h kernels/block_ll128.h \
    kernels/overlap.h $(exec_test_sources)
test_unit_test_block_LDADD = $(core_test_libs)

unit_tests += test/unit/test_types
test_unit_test_types_SOURCES = test/unit/test_types.c test/unit/reference.c test/unit/reference.h
test_unit_test_types_LDADD = $(core_test_libs)

unit_tests += test/unit/test_pci_machines
test_unit_test_pci_machines_SOURCES = test/unit/test_pci_machines.c test/unit/pci_cube.h
test_unit_test_pci_machines_LDADD = $(pci_test_libs)

unit_tests += test/unit/test_pci_block
test_unit_test_pci_block_SOURCES = test/unit/test_pci_block.c
test_unit_test_pci_block_LDADD = $(pci_test_libs)

unit_tests += test/unit/test_pci_predict
test_unit_test_pci_predict_SOURCES = test/unit/test_pci_predict.c
test_unit_test_pci_predict_LDADD = $(pci_test_libs)

unit_tests += test/unit/test_pci_recorded
test_unit_test_pci_recorded_SOURCES = test/unit/test_pci_recorded.c
test_unit_test_pci_recorded_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CPPFLAGS)
test_unit_test_pci_recorded_LDADD = $(pci_test_libs) $(JANSSON_LIBS)

unit_tests += test/unit/test_device_host
test_unit_test_device_host_SOURCES = test/unit/test_device_host.c test/unit/descriptors.h
test_unit_test_device_host_LDADD = $(core_test_libs)

unit_tests += test/unit/test_transport
test_unit_test_transport_SOURCES = test/unit/test_transport.c test/unit/connect_infos.h
test_unit_test_transport_LDADD = $(core_test_libs)

# The mock net is for tests only: it is compiled into them, not into the core.
net_lane_sources = test/unit/net_lane.c test/unit/net_lane.h

unit_tests += test/unit/test_proxy
thread_tests += test/unit/test_proxy
test_unit_test_proxy_SOURCES = test/unit/test_proxy.c $(net_lane_sources) \
    test/unit/net_mock.c test/unit/net_mock.h
test_unit_test_proxy_LDADD = $(core_test_libs)

unit_tests += test/unit/test_soak
thread_tests += test/unit/test_soak
test_unit_test_soak_SOURCES = test/unit/test_soak.c test/unit/soak_world.c test/unit/soak_world.h \
    test/unit/connect_infos.h \
    test/unit/plans.c test/unit/plans.h test/unit/reference.c test/unit/reference.h \
    test/unit/net_mock.c test/unit/net_mock.h
test_unit_test_soak_LDADD = $(core_test_libs)

unit_tests += test/unit/test_cores
thread_tests += test/unit/test_cores
test_unit_test_cores_SOURCES = test/unit/test_cores.c
test_unit_test_cores_LDADD = $(core_test_libs)

unit_tests += test/unit/test_net_choice
test_unit_test_net_choice_SOURCES = test/unit/test_net_choice.c
test_unit_test_net_choice_LDADD = $(core_test_libs)

unit_tests += test/unit/test_net_mpi
test_unit_test_net_mpi_SOURCES = test/unit/test_net_mpi.c $(net_lane_sources)
test_unit_test_net_mpi_LDADD = $(core_test_libs)

unit_tests += test/unit/test_net_list
test_unit_test_net_list_SOURCES = test/unit/test_net_list.c
test_unit_test_net_list_LDADD = $(core_test_libs)

if GPURING_HAVE_VERBS
verbs_world_sources = test/unit/verbs_world.c test/unit/verbs_world.h $(net_lane_sources) \
    test/unit/fake_verbs.c test/unit/fake_verbs.h \
    test/unit/fake_verbs_data.c test/unit/fake_verbs_internal.h

unit_tests += test/unit/test_net_verbs
thread_tests += test/unit/test_net_verbs
test_unit_test_net_verbs_CPPFLAGS = $(AM_CPPFLAGS) $(VERBS_CPPFLAGS)
test_unit_test_net_verbs_SOURCES = test/unit/test_net_verbs.c $(verbs_world_sources)
test_unit_test_net_verbs_LDADD = $(core_test_libs)

unit_tests += test/unit/test_net_verbs_ports
test_unit_test_net_verbs_ports_CPPFLAGS = $(AM_CPPFLAGS) $(VERBS_CPPFLAGS)
test_unit_test_net_verbs_ports_SOURCES = test/unit/test_net_verbs_ports.c $(verbs_world_sources)
test_unit_test_net_verbs_ports_LDADD = $(core_test_libs)

unit_tests += test/unit/test_net_verbs_gdr
thread_tests += test/unit/test_net_verbs_gdr
test_unit_test_net_verbs_gdr_CPPFLAGS = $(AM_CPPFLAGS) $(VERBS_CPPFLAGS)
test_unit_test_net_verbs_gdr_SOURCES = test/unit/test_net_verbs_gdr.c $(verbs_world_sources)
test_unit_test_net_verbs_gdr_LDADD = $(core_test_libs)

unit_tests += test/unit/test_net_verbs_failover
thread_tests += test/unit/test_net_verbs_failover
test_unit_test_net_verbs_failover_CPPFLAGS = $(AM_CPPFLAGS) $(VERBS_CPPFLAGS)
test_unit_test_net_verbs_failover_SOURCES = test/unit/test_net_verbs_failover.c \
    $(verbs_world_sources)
test_unit_test_net_verbs_failover_LDADD = $(core_test_libs)
endif

if GPURING_HAVE_UCX
unit_tests += test/unit/test_net_ucx
test_unit_test_net_ucx_CPPFLAGS = $(AM_CPPFLAGS) $(UCX_CPPFLAGS)
test_unit_test_net_ucx_SOURCES = test/unit/test_net_ucx.c $(net_lane_sources)
test_unit_test_net_ucx_LDADD = $(core_test_libs)
endif

unit_tests += test/unit/test_pci_file
test_unit_test_pci_file_SOURCES = test/unit/test_pci_file.c test/unit/descriptors.h
test_unit_test_pci_file_LDADD = $(pci_test_libs)

unit_tests += test/unit/test_pci_xml
test_unit_test_pci_xml_SOURCES = test/unit/test_pci_xml.c test/unit/pci_test.h
test_unit_test_pci_xml_LDADD = $(pci_test_libs)

unit_tests += test/unit/test_pci_graph
test_unit_test_pci_graph_SOURCES = test/unit/test_pci_graph.c test/unit/pci_test.h
test_unit_test_pci_graph_LDADD = $(pci_test_libs)

unit_tests += test/unit/test_pci_trim
test_unit_test_pci_trim_SOURCES = test/unit/test_pci_trim.c test/unit/pci_test.h
test_unit_test_pci_trim_LDADD = $(pci_test_libs)

# The project's topology files, and the kept inputs of the engine's fuzzer (test/fuzz/run.sh). test/fuzz is
# not listed as a whole, because `make dist` would also distribute the objects of a build in that folder.
EXTRA_DIST += test/data/topo test/fuzz/corpus test/fuzz/pci.dict test/fuzz/run.sh
unit_tests += test/unit/test_pci_corpus
test_unit_test_pci_corpus_SOURCES = test/unit/test_pci_corpus.c test/unit/pci_test.h \
    test/fuzz/fuzz_pci.c test/fuzz/fuzz_pci.h $(pci_proof)
test_unit_test_pci_corpus_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/test/fuzz
test_unit_test_pci_corpus_LDADD = $(pci_test_libs)

unit_tests += test/unit/test_pci_examples
test_unit_test_pci_examples_SOURCES = test/unit/test_pci_examples.c test/unit/pci_test.h \
    $(pci_proof)
test_unit_test_pci_examples_LDADD = $(pci_test_libs)

unit_tests += test/unit/test_pci_random
test_unit_test_pci_random_SOURCES = test/unit/test_pci_random.c test/unit/pci_test.h $(pci_proof)
test_unit_test_pci_random_LDADD = $(pci_test_libs)

unit_tests += test/unit/test_pci_paths
test_unit_test_pci_paths_SOURCES = test/unit/test_pci_paths.c test/unit/pci_test.h
test_unit_test_pci_paths_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CPPFLAGS)
test_unit_test_pci_paths_LDADD = $(pci_test_libs) $(JANSSON_LIBS)

# The stand-in driver's interpreter of PTX needs no CUDA.
ptx_test_sources = test/unit/ptx_kernel.c test/unit/ptx_kernel.h $(ptx_sources)
unit_tests += test/unit/test_ptx
test_unit_test_ptx_SOURCES = test/unit/test_ptx.c $(ptx_test_sources)
test_unit_test_ptx_LDADD = $(CMOCKA_LIBS)

unit_tests += test/unit/test_ptx_alu
test_unit_test_ptx_alu_SOURCES = test/unit/test_ptx_alu.c $(ptx_test_sources)
test_unit_test_ptx_alu_LDADD = $(CMOCKA_LIBS)

unit_tests += test/unit/test_ptx_weak
test_unit_test_ptx_weak_SOURCES = test/unit/test_ptx_weak.c $(ptx_test_sources)
test_unit_test_ptx_weak_LDADD = $(CMOCKA_LIBS)

if GPURING_HAVE_CUDA
unit_tests += test/unit/test_kernel_counts
test_unit_test_kernel_counts_SOURCES = test/unit/test_kernel_counts.c test/budgets.h $(ptx_sources)
test_unit_test_kernel_counts_LDADD = libgpuring_kernels.la $(CMOCKA_LIBS)
EXTRA_test_unit_test_kernel_counts_DEPENDENCIES = test/ptx/kernels.ptx

unit_tests += test/unit/test_device_cuda
test_unit_test_device_cuda_SOURCES = test/unit/test_device_cuda.c \
    test/unit/cuda_ranks.c test/unit/cuda_ranks.h test/unit/connect_infos.h
test_unit_test_device_cuda_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
test_unit_test_device_cuda_LDADD = $(core_test_libs)
EXTRA_test_unit_test_device_cuda_DEPENDENCIES = test/standin/libcuda.la

unit_tests += test/unit/test_device_contexts
test_unit_test_device_contexts_SOURCES = test/unit/test_device_contexts.c \
    test/unit/cuda_ranks.c test/unit/cuda_ranks.h test/unit/connect_infos.h
test_unit_test_device_contexts_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
test_unit_test_device_contexts_LDADD = $(core_test_libs)
EXTRA_test_unit_test_device_contexts_DEPENDENCIES = test/standin/libcuda.la

unit_tests += test/unit/test_standin
test_unit_test_standin_SOURCES = test/unit/test_standin.c \
    test/unit/cuda_ranks.c test/unit/cuda_ranks.h test/unit/connect_infos.h
test_unit_test_standin_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
test_unit_test_standin_LDADD = $(core_test_libs)
EXTRA_test_unit_test_standin_DEPENDENCIES = test/standin/libcuda.la

# Network devices and GPUs, both stand-ins.
if GPURING_HAVE_VERBS
unit_tests += test/unit/test_transport_direct
test_unit_test_transport_direct_SOURCES = test/unit/test_transport_direct.c $(verbs_world_sources) \
    test/unit/cuda_ranks.c test/unit/cuda_ranks.h test/unit/descriptors.h test/unit/connect_infos.h
test_unit_test_transport_direct_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) $(VERBS_CPPFLAGS)
test_unit_test_transport_direct_LDADD = $(core_test_libs)
EXTRA_test_unit_test_transport_direct_DEPENDENCIES = test/standin/libcuda.la
endif
endif

# A stand-in for NVIDIA's management library, loaded by the test.
if GPURING_HAVE_CMOCKA
check_LTLIBRARIES += test/unit/fake_nvml.la
endif
test_unit_fake_nvml_la_SOURCES = test/unit/fake_nvml.c
test_unit_fake_nvml_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere

unit_tests += test/unit/test_pci_discover
test_unit_test_pci_discover_SOURCES = test/unit/test_pci_discover.c \
    test/unit/fake_sysfs.c test/unit/fake_sysfs.h
test_unit_test_pci_discover_CPPFLAGS = $(AM_CPPFLAGS) $(HWLOC_CPPFLAGS) \
    -DFAKE_NVML_PATH='"$(abs_top_builddir)/test/unit/.libs/fake_nvml.so"'
test_unit_test_pci_discover_LDADD = $(pci_test_libs) $(HWLOC_LIBS)
test_unit_test_pci_discover_DEPENDENCIES = libpcigraph.la test/unit/fake_nvml.la

unit_tests += test/unit/test_pci_facts
test_unit_test_pci_facts_SOURCES = test/unit/test_pci_facts.c \
    test/unit/fake_sysfs.c test/unit/fake_sysfs.h
test_unit_test_pci_facts_CPPFLAGS = $(AM_CPPFLAGS) $(HWLOC_CPPFLAGS) \
    -DFAKE_NVML_PATH='"$(abs_top_builddir)/test/unit/.libs/fake_nvml.so"'
test_unit_test_pci_facts_LDADD = $(pci_test_libs) $(HWLOC_LIBS)
test_unit_test_pci_facts_DEPENDENCIES = libpcigraph.la test/unit/fake_nvml.la

unit_tests += test/unit/test_pci_render
test_unit_test_pci_render_SOURCES = test/unit/test_pci_render.c test/unit/pci_test.h
test_unit_test_pci_render_CPPFLAGS = $(AM_CPPFLAGS) $(EXPAT_CPPFLAGS)
test_unit_test_pci_render_LDADD = libgpuring_render.la $(pci_test_libs) $(EXPAT_LIBS)

unit_tests += test/unit/test_pci_search
test_unit_test_pci_search_SOURCES = test/unit/test_pci_search.c test/unit/pci_cube.h $(pci_proof)
test_unit_test_pci_search_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CPPFLAGS)
test_unit_test_pci_search_LDADD = $(pci_test_libs) $(JANSSON_LIBS)

unit_tests += test/unit/test_pci_tour
test_unit_test_pci_tour_SOURCES = test/unit/test_pci_tour.c
test_unit_test_pci_tour_LDADD = $(pci_test_libs)

unit_tests += test/unit/test_pci_connect
test_unit_test_pci_connect_SOURCES = test/unit/test_pci_connect.c $(pci_proof)
test_unit_test_pci_connect_LDADD = $(pci_test_libs)

if GPURING_HAVE_CMOCKA
check_PROGRAMS += $(unit_tests)
TESTS += $(unit_tests)
endif
