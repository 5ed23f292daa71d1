# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Unit tests: one cmocka program for each module. A test in one file needs only its name in unit_tests;
# those that run threads or share memory are also in thread_tests, which the thread sanitizer repeats.
# Sources that several tests share are in libunit.la.

unit_needs = # what they load

LDADD = test/unit/libunit.la test/ptx/libptx.la libgpuring_core.la libpcigraph.la $(CMOCKA_LIBS) \
    $(JANSSON_LIBS) $(HWLOC_LIBS) -lpthread -lm

unit_tests = \
    test/unit/test_block \
    test/unit/test_collectives \
    test/unit/test_cores \
    test/unit/test_decisions \
    test/unit/test_device_host \
    test/unit/test_engine_sets \
    test/unit/test_exec \
    test/unit/test_local_channels \
    test/unit/test_net_choice \
    test/unit/test_net_list \
    test/unit/test_net_mpi \
    test/unit/test_nic_select \
    test/unit/test_oob \
    test/unit/test_pci_block \
    test/unit/test_pci_bound \
    test/unit/test_pci_connect \
    test/unit/test_pci_corpus \
    test/unit/test_pci_discover \
    test/unit/test_pci_examples \
    test/unit/test_pci_facts \
    test/unit/test_pci_file \
    test/unit/test_pci_graph \
    test/unit/test_pci_machines \
    test/unit/test_pci_map \
    test/unit/test_pci_paths \
    test/unit/test_pci_predict \
    test/unit/test_pci_random \
    test/unit/test_pci_recorded \
    test/unit/test_pci_render \
    test/unit/test_pci_search \
    test/unit/test_pci_tour \
    test/unit/test_pci_trim \
    test/unit/test_pci_xml \
    test/unit/test_plan \
    test/unit/test_plan_exchange \
    test/unit/test_plan_nodes \
    test/unit/test_plan_simulate \
    test/unit/test_pool \
    test/unit/test_proxy \
    test/unit/test_proxy_drive \
    test/unit/test_ptx \
    test/unit/test_ptx_alu \
    test/unit/test_ptx_weak \
    test/unit/test_queue \
    test/unit/test_runs \
    test/unit/test_select_nodes \
    test/unit/test_soak \
    test/unit/test_task \
    test/unit/test_transport \
    test/unit/test_tuning \
    test/unit/test_types

thread_tests = \
    test/unit/test_block \
    test/unit/test_collectives \
    test/unit/test_cores \
    test/unit/test_exec \
    test/unit/test_proxy \
    test/unit/test_proxy_drive \
    test/unit/test_soak \
    test/unit/test_task

test_unit_test_proxy_drive_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=gpuring_proxy_bell_sleep
test_unit_test_cores_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=sched_yield

# The sources that the programs of test/gpu share, too.
exec_test_sources = \
    test/unit/calls.c test/unit/calls.h \
    test/unit/fabric.c test/unit/fabric.h \
    test/unit/plans.c test/unit/plans.h \
    test/unit/reference.c test/unit/reference.h \
    test/unit/unit.h
if GPURING_HAVE_CMOCKA
check_LTLIBRARIES += test/unit/libunit.la
endif
test_unit_libunit_la_SOURCES = \
    $(exec_test_sources) \
    kernels/block.h \
    kernels/block_each.h \
    kernels/block_ll.h \
    kernels/block_ll128.h \
    kernels/overlap.h \
    test/budgets.h \
    test/unit/block_threads.c \
    test/unit/block_threads.h \
    test/unit/collective_calls.c \
    test/unit/collective_calls.h \
    test/unit/connect_infos.h \
    test/unit/copy_rows.h \
    test/unit/descriptors.h \
    test/unit/fake_sysfs.c \
    test/unit/fake_sysfs.h \
    test/unit/net_lane.c \
    test/unit/net_lane.h \
    test/unit/net_messages.c \
    test/unit/net_messages.h \
    test/unit/net_mock.c \
    test/unit/net_mock.h \
    test/unit/proxy_world.h \
    test/unit/pci_cube.h \
    test/unit/pci_proof.h \
    test/unit/pci_proof_channels.c \
    test/unit/pci_proof_connect.c \
    test/unit/pci_test.h \
    test/unit/plan_simulate.c \
    test/unit/plan_simulate.h \
    test/unit/ptx_kernel.c \
    test/unit/ptx_kernel.h \
    test/unit/quiet_log.c \
    test/unit/selection.h \
    test/unit/soak_world.c \
    test/unit/soak_world.h \
    test/unit/unit.c \
    test/unit/unit_main.c

if GPURING_HAVE_VERBS
unit_tests += \
    test/unit/test_net_verbs \
    test/unit/test_net_verbs_bye \
    test/unit/test_net_verbs_failover \
    test/unit/test_net_verbs_gdr \
    test/unit/test_net_verbs_polls \
    test/unit/test_net_verbs_ports \
    test/unit/test_net_verbs_share
thread_tests += \
    test/unit/test_net_verbs \
    test/unit/test_net_verbs_failover \
    test/unit/test_net_verbs_gdr \
    test/unit/test_net_verbs_share
test_unit_libunit_la_SOURCES += \
    test/unit/fake_verbs.c \
    test/unit/fake_verbs.h \
    test/unit/fake_verbs_data.c \
    test/unit/fake_verbs_internal.h \
    test/unit/verbs_world.c \
    test/unit/verbs_world.h
endif
if GPURING_HAVE_UCX
unit_tests += test/unit/test_net_ucx
endif
if GPURING_HAVE_CUDA
unit_tests += \
    test/unit/test_device_contexts \
    test/unit/test_device_cuda \
    test/unit/test_kernel_counts \
    test/unit/test_move \
    test/unit/test_standin
test_unit_test_kernel_counts_LDADD = test/unit/libunit.la test/ptx/libptx.la libgpuring_kernels.la $(CMOCKA_LIBS)
test_unit_test_move_LDADD = test/unit/libunit.la test/ptx/libptx.la $(CMOCKA_LIBS)
test_unit_libunit_la_SOURCES += test/unit/cuda_ranks.c test/unit/cuda_ranks.h
unit_needs += test/ptx/kernels.ptx test/standin/libcuda.la
if GPURING_HAVE_VERBS
unit_tests += test/unit/test_transport_direct
endif
endif

# The project's topology files, and the kept inputs of the engine's fuzzer (test/fuzz/run.sh). test/fuzz is
# not listed as a whole, because `make dist` would also distribute the objects of a build in that folder.
EXTRA_DIST += test/unit/run.sh test/data/topo test/fuzz/corpus test/fuzz/pci.dict test/fuzz/run.sh
test_unit_test_pci_corpus_SOURCES = \
    test/unit/test_pci_corpus.c test/fuzz/fuzz_pci.c test/fuzz/fuzz_pci.h
test_unit_test_pci_corpus_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/test/fuzz

# A stand-in for NVIDIA's management library, loaded by the tests.
if GPURING_HAVE_CMOCKA
check_LTLIBRARIES += test/unit/fake_nvml.la
unit_needs += test/unit/fake_nvml.la
endif
test_unit_fake_nvml_la_SOURCES = test/unit/fake_nvml.c
test_unit_fake_nvml_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
fake_nvml_path = -DFAKE_NVML_PATH='"$(abs_top_builddir)/test/unit/.libs/fake_nvml.so"'
test_unit_test_pci_discover_CPPFLAGS = $(AM_CPPFLAGS) $(fake_nvml_path)
test_unit_test_pci_facts_CPPFLAGS = $(AM_CPPFLAGS) $(fake_nvml_path)

test_unit_test_pci_render_LDADD = libgpuring_render.la $(LDADD) $(EXPAT_LIBS)

if GPURING_HAVE_CMOCKA
check_PROGRAMS += $(unit_tests)
TESTS += $(unit_tests)
endif
