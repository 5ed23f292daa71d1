# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Tests print TAP. A test is a program of test/unit (cmocka) or a shell script (.sh). `make check` runs
# all of them, and `make check-unit` only the programs of test/unit. Each test is stopped after
# GPURING_TEST_TIMEOUT seconds.

GPURING_TEST_TIMEOUT = 1200
TEST_EXTENSIONS = .sh

# Folder with topology files of real machines. If it is missing, tests that read them report a skip.
AM_TESTS_ENVIRONMENT = \
    GPURING_TOPOLOGIES="$${GPURING_TOPOLOGIES-$(abs_top_srcdir)/../shared/topologies}"; \
    export GPURING_TOPOLOGIES; \
    CMOCKA_MESSAGE_OUTPUT=TAP; export CMOCKA_MESSAGE_OUTPUT; \
    top_srcdir='$(abs_top_srcdir)'; export top_srcdir; \
    GPURING_SOURCE='$(abs_top_srcdir)'; export GPURING_SOURCE; \
    top_builddir='$(abs_top_builddir)'; export top_builddir; \
    MPIRUN='$(MPIRUN)'; export MPIRUN; \
    OMPI_INFO='$(OMPI_INFO)'; export OMPI_INFO; \
    HWLOC_CPPFLAGS='$(HWLOC_CPPFLAGS)'; export HWLOC_CPPFLAGS; \
    HWLOC_LIBS='$(HWLOC_LIBS)'; export HWLOC_LIBS; \
    CMOCKA_LIBS='$(CMOCKA_LIBS)'; export CMOCKA_LIBS; \
    EXPAT_LIBS='$(EXPAT_LIBS)'; export EXPAT_LIBS; \
    GPURING_LDFLAGS='$(GPURING_LDFLAGS)'; export GPURING_LDFLAGS; \
    NVCC='$(NVCC)'; export NVCC; \
    CC='$(CC)'; export CC;

LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/config/tap-driver.sh
LOG_COMPILER = $(SHELL) $(top_srcdir)/test/unit/run.sh timeout -k 10 $(GPURING_TEST_TIMEOUT)
SH_LOG_DRIVER = $(LOG_DRIVER)
SH_LOG_COMPILER = timeout -k 10 $(GPURING_TEST_TIMEOUT) $(SHELL)

# Parts of `make check`. Each target builds only the programs that it runs. The -programs targets run
# nothing.
.PHONY: check-unit check-mpi check-threads unit-programs thread-programs
unit-programs: $(unit_tests) $(unit_needs)
thread-programs: $(thread_tests)
check-unit: unit-programs
	$(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS='$(unit_tests)' check_PROGRAMS= check_LTLIBRARIES=
check-mpi: $(mpi_test_programs)
	$(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS='$(mpi_test_scripts)' check_PROGRAMS= check_LTLIBRARIES=
check-threads: thread-programs
	$(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS='$(thread_tests)' check_PROGRAMS= check_LTLIBRARIES=

EXTRA_DIST += \
    .ci/run \
    .github/workflows/check.yml \
    .gitlab-ci.yml \
    test/bad_files.sh \
    test/check.sh \
    test/cuda_aware.sh \
    test/install.sh \
    test/lint/arrows.txt \
    test/lint/comments_only.py \
    test/lint/doc_paths.py \
    test/lint/layers.py \
    test/lint/lint.sh \
    test/lint/prose.py \
    test/lint/prose_limits.txt \
    test/mutation.sh \
    test/container.sh \
    test/packages.sh \
    test/packages.txt \
    test/quickstart.sh \
    test/openmpi_source.sh \
    test/root.sh \
    test/setup.sh

# A copy of the component for test/mutation.sh, which makes its results wrong.
EXTRA_LTLIBRARIES += test/mutation/mca_coll_gpuring.la
test_mutation_mca_coll_gpuring_la_SOURCES = test/mutation.c
test_mutation_mca_coll_gpuring_la_LDFLAGS = $(mca_coll_gpuring_la_LDFLAGS) -rpath /nowhere \
    -Wl,--wrap=gpuring_work_run_host -Wl,--wrap=gpuring_plan_build_on
test_mutation_mca_coll_gpuring_la_LIBADD = \
    $(mca_coll_gpuring_la_OBJECTS) $(mca_coll_gpuring_la_LIBADD)
test_mutation_mca_coll_gpuring_la_DEPENDENCIES = mca_coll_gpuring.la

# Programs and scripts that measure; see collectives.sh, instructions.sh, overhead.sh, ucx.sh, verbs.sh
# and wire.sh in test/bench.
CLEANFILES += $(EXTRA_PROGRAMS)
# Libraries of tests that other targets build, too.
CLEANFILES += test/mpi/libharness.la test/ptx/libptx.la test/unit/libunit.la
EXTRA_PROGRAMS = test/bench/overhead
test_bench_overhead_LDADD = $(MPI_LIBS)

EXTRA_PROGRAMS += test/bench/walk
test_bench_walk_LDFLAGS = -export-dynamic
test_bench_walk_LDADD = $(mpi_test_libs)

EXTRA_PROGRAMS += test/bench/communicators
test_bench_communicators_LDADD = $(MPI_LIBS)

EXTRA_PROGRAMS += test/bench/instructions
test_bench_instructions_LDADD = $(MPI_LIBS)
EXTRA_DIST += \
    test/bench/collectives.c \
    test/bench/collectives.py \
    test/bench/collectives.sh \
    test/bench/communicators.sh \
    test/bench/instructions.sh \
    test/bench/overhead.sh \
    test/bench/search_table.py \
    test/bench/ucx.sh \
    test/bench/verbs.py \
    test/bench/verbs.sh \
    test/bench/verbs_machine.sh \
    test/bench/walk.py \
    test/bench/wire.sh
if GPURING_HAVE_VERBS
EXTRA_PROGRAMS += test/bench/verbs_exchange
test_bench_verbs_exchange_SOURCES = \
    test/bench/verbs_exchange.c \
    test/rdma/pair_socket.c \
    test/rdma/pair_socket.h
test_bench_verbs_exchange_LDADD = -libverbs
EXTRA_PROGRAMS += test/bench/wire
test_bench_wire_LDADD = $(MPI_LIBS) -ldl
endif

# `make parts_table` builds the program for the table of doc/results/search.md about parts of machines.
EXTRA_PROGRAMS += test/bench/parts_table
test_bench_parts_table_LDADD = test/unit/libunit.la libpcigraph.la -lm
.PHONY: parts_table
parts_table: test/bench/parts_table

# Tests of the tools through their command lines.
TESTS += test/tools/test_gpuring_perf.sh test/tools/test_gpuring_perf_compare.sh \
    test/tools/test_gpuring_perf_tuning.sh test/tools/test_gpuring_selftest.sh \
    test/tools/test_gpuring_report.sh test/tools/test_gpuring_topo.sh
check_LTLIBRARIES += test/tools/selftest_faults.la
test_tools_selftest_faults_la_SOURCES = test/tools/selftest_faults.c
test_tools_selftest_faults_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
test_tools_selftest_faults_la_LIBADD = $(MPI_LIBS)
EXTRA_DIST += test/tools/lib.sh test/tools/report_compare.py test/tools/test_gpuring_perf.sh \
    test/tools/test_gpuring_perf_compare.sh test/tools/test_gpuring_perf_tuning.sh \
    test/tools/test_gpuring_report.sh test/tools/test_gpuring_selftest.sh \
    test/tools/test_gpuring_topo.sh

# Test of discovery with the declarations of hwloc 3.
TESTS += test/tools/test_hwloc3.sh
EXTRA_DIST += test/tools/test_hwloc3.sh test/tools/hwloc3_answers.c
