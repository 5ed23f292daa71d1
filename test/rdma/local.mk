# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# The RDMA test bed, which runs commands on emulated machines with Soft-RoCE devices (test/rdma/run).

check_PROGRAMS += test/rdma/net_pair
test_rdma_net_pair_SOURCES = \
    test/rdma/net_pair.c \
    test/rdma/pair_socket.c \
    test/rdma/pair_socket.h \
    test/unit/net_lane.c \
    test/unit/net_lane.h
test_rdma_net_pair_CPPFLAGS = $(AM_CPPFLAGS) # unit tests compile one of the files with libtool
test_rdma_net_pair_LDADD = libgpuring_core.la -lpthread -lm

check_PROGRAMS += test/rdma/steady test/rdma/idle_threads
test_rdma_steady_LDADD = $(mpi_test_libs)
test_rdma_idle_threads_LDADD = $(mpi_test_libs)

# A library that is preloaded into processes to inject faults of their device.
if GPURING_HAVE_VERBS
check_LTLIBRARIES += test/rdma/libfault_verbs.la
test_rdma_libfault_verbs_la_SOURCES = test/rdma/fault_verbs.c
test_rdma_libfault_verbs_la_LDFLAGS = $(AM_LDFLAGS) -shared -module -avoid-version -rpath /nowhere
test_rdma_libfault_verbs_la_LIBADD = -ldl -lpthread
endif

rdma_tests = test/rdma/test_rdma.sh test/rdma/test_rdma_two.sh
TESTS += $(rdma_tests)

# The test of the machines themselves, test_rdma_bed.sh, depends only on these files, so it runs on request:
# make check TESTS=test/rdma/test_rdma_bed.sh
EXTRA_DIST += \
    test/rdma/lib.sh \
    test/rdma/machine-init \
    test/rdma/machine-main \
    test/rdma/on-host \
    test/rdma/prepare \
    test/rdma/run \
    test/rdma/switch.py \
    test/rdma/one_machine.sh \
    test/rdma/test_rdma_bed.sh \
    test/rdma/two_machines.sh \
    $(rdma_tests)
