# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Tests under mpirun: programs in C, run by scripts that print TAP.

mpi_test_programs =
mpi_test_scripts =

mpi_test_programs += test/mpi/topo_pci_check
test_mpi_topo_pci_check_SOURCES = test/mpi/topo_pci_check.c
test_mpi_topo_pci_check_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_topo_pci_check_LDADD = $(MPI_LIBS)

# The programs of the component's tests share one harness, which is compiled once.
check_LTLIBRARIES += test/mpi/libharness.la
test_mpi_libharness_la_SOURCES = \
    test/mpi/buffers.c test/mpi/harness.c test/mpi/harness.h test/mpi/types.c \
    tools/gpuring-perf-memory.c tools/gpuring-perf.h
test_mpi_libharness_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
mpi_test_libs = test/mpi/libharness.la $(MPI_LIBS) -lpthread -ldl

mpi_test_programs += test/mpi/matrix
test_mpi_matrix_SOURCES = test/mpi/matrix.c
test_mpi_matrix_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_matrix_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/ordered
test_mpi_ordered_SOURCES = test/mpi/ordered.c
test_mpi_ordered_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_ordered_LDADD = $(mpi_test_libs) -lm

mpi_test_programs += test/mpi/many
test_mpi_many_SOURCES = test/mpi/many.c
test_mpi_many_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_many_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/rooted
test_mpi_rooted_SOURCES = test/mpi/rooted.c
test_mpi_rooted_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_rooted_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/semantics
test_mpi_semantics_SOURCES = test/mpi/semantics.c
test_mpi_semantics_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_semantics_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/nonblocking
test_mpi_nonblocking_SOURCES = test/mpi/nonblocking.c
test_mpi_nonblocking_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_nonblocking_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/barrier
test_mpi_barrier_SOURCES = test/mpi/barrier.c
test_mpi_barrier_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_barrier_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/sessions
test_mpi_sessions_SOURCES = test/mpi/sessions.c
test_mpi_sessions_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_sessions_LDADD = $(MPI_LIBS)

mpi_test_programs += test/mpi/churn
test_mpi_churn_SOURCES = test/mpi/churn.c
test_mpi_churn_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_churn_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/threads
test_mpi_threads_SOURCES = test/mpi/threads.c
test_mpi_threads_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_threads_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/processes
test_mpi_processes_SOURCES = test/mpi/processes.c
test_mpi_processes_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_processes_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/staged
test_mpi_staged_SOURCES = \
    test/mpi/staged.c test/mpi/staged.h test/mpi/staged_calls.c test/mpi/staged_data.c \
    test/mpi/staged_data.h test/mpi/staged_places.c test/mpi/staged_places.h
test_mpi_staged_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_staged_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/native
test_mpi_native_SOURCES = \
    test/mpi/native.c test/mpi/native_expect.c test/mpi/native_expect.h test/mpi/staged.h \
    test/mpi/staged_calls.c test/mpi/staged_places.c test/mpi/staged_places.h
test_mpi_native_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_native_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/staged_cases
test_mpi_staged_cases_SOURCES = test/mpi/staged_cases.c
test_mpi_staged_cases_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_staged_cases_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/staged_failures
test_mpi_staged_failures_SOURCES = \
    test/mpi/staged_failures.c test/mpi/standin_find.c test/mpi/standin_find.h
test_mpi_staged_failures_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_staged_failures_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/late_driver
test_mpi_late_driver_SOURCES = test/mpi/late_driver.c
test_mpi_late_driver_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_late_driver_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/mixed
test_mpi_mixed_SOURCES = \
    test/mpi/mixed.c test/mpi/standin_find.c test/mpi/standin_find.h
test_mpi_mixed_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_mixed_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/gpu_costs
test_mpi_gpu_costs_SOURCES = \
    test/mpi/gpu_costs.c test/mpi/standin_find.c test/mpi/standin_find.h
test_mpi_gpu_costs_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_gpu_costs_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/bad_cable
test_mpi_bad_cable_SOURCES = test/mpi/bad_cable.c

mpi_test_programs += test/mpi/tuning
test_mpi_tuning_SOURCES = test/mpi/tuning.c
test_mpi_tuning_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_tuning_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/soak
test_mpi_soak_SOURCES = \
    test/mpi/soak.c test/mpi/soak_calls.c test/mpi/soak_calls.h test/mpi/soak_make.c \
    test/mpi/soak_types.c test/mpi/soak_types.h
test_mpi_soak_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_soak_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/soak_staged
test_mpi_soak_staged_SOURCES = \
    test/mpi/soak_staged.c test/mpi/staged.h test/mpi/staged_calls.c test/mpi/staged_data.c \
    test/mpi/staged_data.h test/mpi/staged_places.c test/mpi/staged_places.h
test_mpi_soak_staged_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_soak_staged_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/aware
test_mpi_aware_SOURCES = test/mpi/aware.c
test_mpi_aware_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_aware_LDADD = $(mpi_test_libs)

# Preloaded by test_aware.sh.
check_LTLIBRARIES += test/mpi/aware_profiler.la
test_mpi_aware_profiler_la_SOURCES = test/mpi/aware_profiler.c
test_mpi_aware_profiler_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_aware_profiler_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
test_mpi_aware_profiler_la_LIBADD = $(MPI_LIBS)

mpi_test_programs += test/mpi/aware_files
test_mpi_aware_files_SOURCES = \
    test/mpi/aware_files.c test/mpi/memory_faults.h test/mpi/standin_find.c test/mpi/standin_find.h
test_mpi_aware_files_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_aware_files_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/p2p
test_mpi_p2p_SOURCES = test/mpi/p2p.c test/mpi/p2p_data.c test/mpi/p2p_data.h
test_mpi_p2p_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_p2p_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/p2p_soak
test_mpi_p2p_soak_SOURCES = test/mpi/p2p_soak.c test/mpi/p2p_data.c test/mpi/p2p_data.h
test_mpi_p2p_soak_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_p2p_soak_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/p2p_faults
test_mpi_p2p_faults_SOURCES = test/mpi/p2p_faults.c test/mpi/memory_faults.h
test_mpi_p2p_faults_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_p2p_faults_LDADD = $(mpi_test_libs) -ldl

mpi_test_programs += test/mpi/p2p_offers
test_mpi_p2p_offers_SOURCES = test/mpi/p2p_offers.c
test_mpi_p2p_offers_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_p2p_offers_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/p2p_consent
test_mpi_p2p_consent_SOURCES = test/mpi/p2p_consent.c
test_mpi_p2p_consent_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_p2p_consent_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/p2p_cases
test_mpi_p2p_cases_SOURCES = test/mpi/p2p_cases.c
test_mpi_p2p_cases_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_p2p_cases_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/lost_rank
test_mpi_lost_rank_SOURCES = test/mpi/lost_rank.c
test_mpi_lost_rank_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_lost_rank_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/descriptors
test_mpi_descriptors_SOURCES = test/mpi/descriptors.c
test_mpi_descriptors_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_descriptors_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/wireup_memory
test_mpi_wireup_memory_SOURCES = test/mpi/wireup_memory.c test/mpi/memory_faults.h
test_mpi_wireup_memory_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_wireup_memory_LDADD = $(mpi_test_libs)

# Preloaded by test_wireup_memory.sh.
check_LTLIBRARIES += test/mpi/memory_faults.la
test_mpi_memory_faults_la_SOURCES = test/mpi/memory_faults.c test/mpi/memory_faults.h
test_mpi_memory_faults_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
test_mpi_memory_faults_la_LIBADD = -ldl

mpi_test_programs += test/mpi/standin_faults
test_mpi_standin_faults_SOURCES = \
    test/mpi/standin_faults.c test/mpi/standin_trial.c test/mpi/standin_trial.h \
    test/mpi/standin_find.c test/mpi/standin_find.h
test_mpi_standin_faults_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_standin_faults_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/leaked
test_mpi_leaked_SOURCES = test/mpi/leaked.c
test_mpi_leaked_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_leaked_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/driver_calls
test_mpi_driver_calls_SOURCES = \
    test/budgets.h test/mpi/driver_calls.c test/mpi/standin_find.c test/mpi/standin_find.h
test_mpi_driver_calls_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_driver_calls_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/memops
test_mpi_memops_SOURCES = \
    test/mpi/memops.c test/mpi/standin_find.c test/mpi/standin_find.h
test_mpi_memops_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_memops_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/contexts
test_mpi_contexts_SOURCES = \
    test/mpi/contexts.c test/mpi/standin_find.c test/mpi/standin_find.h
test_mpi_contexts_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_contexts_LDADD = $(mpi_test_libs)

mpi_test_programs += test/mpi/large_vectors
test_mpi_large_vectors_SOURCES = test/mpi/large_vectors.c
test_mpi_large_vectors_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_large_vectors_LDADD = $(mpi_test_libs)

mpi_test_scripts += \
    test/mpi/test_aware.sh \
    test/mpi/test_churn.sh \
    test/mpi/test_contexts.sh \
    test/mpi/test_gpu.sh \
    test/mpi/test_gpu_ptx.sh \
    test/mpi/test_hosts.sh \
    test/mpi/test_input.sh \
    test/mpi/test_matrix.sh \
    test/mpi/test_memops.sh \
    test/mpi/test_mpi4py.sh \
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
    test/mpi/test_topo_pci.sh \
    test/mpi/test_topology.sh \
    test/mpi/test_tuning.sh \
    test/mpi/test_watchdog.sh \
    test/mpi/test_wireup_memory.sh
EXTRA_DIST += test/mpi/aware_ctypes.py
EXTRA_DIST += test/mpi/counters.py test/mpi/cuda_array.py test/mpi/numba_arrays.py
EXTRA_DIST += test/mpi/lib.sh test/mpi/as_nodes.sh test/mpi/as_views.sh test/mpi/first_rank.sh \
    test/mpi/two_hosts.sh

check_PROGRAMS += $(mpi_test_programs)
TESTS += $(mpi_test_scripts)
EXTRA_DIST += $(mpi_test_scripts)
