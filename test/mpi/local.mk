# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Tests under mpirun: programs in C, run by scripts that print TAP. Sources that several programs share
# are in libharness.la.

check_LTLIBRARIES += test/mpi/libharness.la
test_mpi_libharness_la_SOURCES = \
    test/mpi/buffers.c \
    test/mpi/harness.c \
    test/mpi/harness.h \
    test/mpi/memory_faults.h \
    test/mpi/p2p_data.c \
    test/mpi/p2p_data.h \
    test/mpi/staged_calls.c \
    test/mpi/staged_data.c \
    test/mpi/staged_data.h \
    test/mpi/staged_places.c \
    test/mpi/staged_places.h \
    test/mpi/standin_find.c \
    test/mpi/standin_find.h \
    test/mpi/staged.h \
    test/mpi/sums.c \
    test/mpi/sums.h \
    test/mpi/types.c \
    tools/gpuring-perf-memory.c \
    tools/gpuring-perf.h
test_mpi_libharness_la_CPPFLAGS = $(AM_CPPFLAGS) # gpuring-perf compiles one of the files without libtool
mpi_test_libs = test/mpi/libharness.la $(MPI_LIBS) -lpthread -lm -ldl

mpi_test_programs = \
    test/mpi/aware \
    test/mpi/aware_files \
    test/mpi/bad_cable \
    test/mpi/barrier \
    test/mpi/churn \
    test/mpi/contexts \
    test/mpi/descriptors \
    test/mpi/driver_calls \
    test/mpi/enqueued \
    test/mpi/free_failed \
    test/mpi/gpu_costs \
    test/mpi/large_vectors \
    test/mpi/late_driver \
    test/mpi/leaked \
    test/mpi/linger \
    test/mpi/lost_rank \
    test/mpi/mapped \
    test/mpi/matrix \
    test/mpi/memops \
    test/mpi/mixed \
    test/mpi/native \
    test/mpi/nonblocking \
    test/mpi/ordered \
    test/mpi/p2p \
    test/mpi/p2p_cases \
    test/mpi/p2p_consent \
    test/mpi/p2p_faults \
    test/mpi/p2p_kernels \
    test/mpi/p2p_offers \
    test/mpi/p2p_soak \
    test/mpi/processes \
    test/mpi/rooted \
    test/mpi/semantics \
    test/mpi/sessions \
    test/mpi/soak \
    test/mpi/soak_staged \
    test/mpi/staged \
    test/mpi/staged_cases \
    test/mpi/staged_failures \
    test/mpi/standin_faults \
    test/mpi/tags \
    test/mpi/threads \
    test/mpi/topo_pci_check \
    test/mpi/tuning \
    test/mpi/wireup_memory

test_mpi_enqueued_SOURCES = \
    test/mpi/enqueued.c \
    test/mpi/enqueued_data.c \
    test/mpi/enqueued_data.h \
    test/mpi/enqueued_driver.c \
    test/mpi/enqueued_driver.h \
    test/mpi/enqueued_messages.c \
    test/mpi/enqueued_messages.h
test_mpi_native_SOURCES = \
    test/mpi/native.c \
    test/mpi/native_expect.c \
    test/mpi/native_expect.h
test_mpi_soak_SOURCES = \
    test/mpi/soak.c \
    test/mpi/soak_calls.c \
    test/mpi/soak_calls.h \
    test/mpi/soak_make.c \
    test/mpi/soak_types.c \
    test/mpi/soak_types.h
test_mpi_standin_faults_SOURCES = \
    test/mpi/standin_faults.c \
    test/mpi/standin_trial.c \
    test/mpi/standin_trial.h

test_mpi_aware_LDADD = $(mpi_test_libs)
test_mpi_aware_files_LDADD = $(mpi_test_libs)
test_mpi_bad_cable_LDADD =
test_mpi_barrier_LDADD = $(mpi_test_libs)
test_mpi_churn_LDADD = $(mpi_test_libs)
test_mpi_free_failed_LDADD = $(mpi_test_libs)
test_mpi_contexts_LDADD = $(mpi_test_libs)
test_mpi_descriptors_LDADD = $(mpi_test_libs)
test_mpi_driver_calls_LDADD = $(mpi_test_libs)
test_mpi_enqueued_LDADD = tools/libgpuring_stream.la $(mpi_test_libs)
test_mpi_gpu_costs_LDADD = $(mpi_test_libs)
test_mpi_large_vectors_LDADD = $(mpi_test_libs)
test_mpi_late_driver_LDADD = $(mpi_test_libs)
test_mpi_leaked_LDADD = $(mpi_test_libs)
test_mpi_linger_LDADD = $(mpi_test_libs)
test_mpi_lost_rank_LDADD = $(mpi_test_libs)
test_mpi_mapped_LDADD = $(mpi_test_libs)
test_mpi_matrix_LDADD = $(mpi_test_libs)
test_mpi_memops_LDADD = $(mpi_test_libs)
test_mpi_mixed_LDADD = $(mpi_test_libs)
test_mpi_native_LDADD = $(mpi_test_libs)
test_mpi_nonblocking_LDADD = $(mpi_test_libs)
test_mpi_ordered_LDADD = $(mpi_test_libs)
test_mpi_p2p_LDADD = $(mpi_test_libs)
test_mpi_p2p_cases_LDADD = $(mpi_test_libs)
test_mpi_p2p_consent_LDADD = $(mpi_test_libs)
test_mpi_p2p_faults_LDADD = $(mpi_test_libs)
test_mpi_p2p_kernels_LDADD = $(mpi_test_libs)
test_mpi_p2p_offers_LDADD = $(mpi_test_libs)
test_mpi_p2p_soak_LDADD = $(mpi_test_libs)
test_mpi_processes_LDADD = $(mpi_test_libs)
test_mpi_rooted_LDADD = $(mpi_test_libs)
test_mpi_semantics_LDADD = $(mpi_test_libs)
test_mpi_sessions_LDADD = $(mpi_test_libs)
test_mpi_soak_LDADD = $(mpi_test_libs)
test_mpi_soak_staged_LDADD = $(mpi_test_libs)
test_mpi_staged_LDADD = $(mpi_test_libs)
test_mpi_staged_cases_LDADD = $(mpi_test_libs)
test_mpi_staged_failures_LDADD = $(mpi_test_libs)
test_mpi_standin_faults_LDADD = $(mpi_test_libs)
test_mpi_tags_LDADD = $(mpi_test_libs)
test_mpi_threads_LDADD = $(mpi_test_libs)
test_mpi_topo_pci_check_LDADD = $(mpi_test_libs)
test_mpi_tuning_LDADD = $(mpi_test_libs)
test_mpi_wireup_memory_LDADD = $(mpi_test_libs)

# Preloaded by test_aware.sh.
check_LTLIBRARIES += test/mpi/aware_profiler.la
test_mpi_aware_profiler_la_SOURCES = test/mpi/aware_profiler.c
test_mpi_aware_profiler_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
test_mpi_aware_profiler_la_LIBADD = $(MPI_LIBS)

# Preloaded by test_wireup_memory.sh.
check_LTLIBRARIES += test/mpi/memory_faults.la
test_mpi_memory_faults_la_SOURCES = test/mpi/memory_faults.c
test_mpi_memory_faults_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
test_mpi_memory_faults_la_LIBADD = -ldl

mpi_test_scripts = \
    test/mpi/test_aware.sh \
    test/mpi/test_churn.sh \
    test/mpi/test_contexts.sh \
    test/mpi/test_gpu.sh \
    test/mpi/test_gpu_ptx.sh \
    test/mpi/test_hosts.sh \
    test/mpi/test_input.sh \
    test/mpi/test_mapped.sh \
    test/mpi/test_matrix.sh \
    test/mpi/test_memops.sh \
    test/mpi/test_native.sh \
    test/mpi/test_numba.sh \
    test/mpi/test_p2p.sh \
    test/mpi/test_params.sh \
    test/mpi/test_semantics.sh \
    test/mpi/test_soak.sh \
    test/mpi/test_soak_staged.sh \
    test/mpi/test_staged.sh \
    test/mpi/test_staged_failures.sh \
    test/mpi/test_standin_faults.sh \
    test/mpi/test_stream.sh \
    test/mpi/test_topo_pci.sh \
    test/mpi/test_topology.sh \
    test/mpi/test_tuning.sh \
    test/mpi/test_watchdog.sh \
    test/mpi/test_wireup_memory.sh
EXTRA_DIST += test/mpi/aware_ctypes.py
EXTRA_DIST += test/mpi/counters.py test/mpi/numba_arrays.py
EXTRA_DIST += test/mpi/lib.sh test/mpi/as_nodes.sh test/mpi/as_views.sh test/mpi/first_rank.sh \
    test/mpi/two_hosts.sh

check_PROGRAMS += $(mpi_test_programs)
TESTS += $(mpi_test_scripts)
EXTRA_DIST += $(mpi_test_scripts)
