# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# The RDMA test bed: commands on emulated machines with Soft-RoCE devices (test/rdma/run).

check_PROGRAMS += test/rdma/net_pair
test_rdma_net_pair_SOURCES = \
    test/rdma/net_pair.c \
    test/rdma/pair_socket.c \
    test/rdma/pair_socket.h \
    test/unit/net_lane.c \
    test/unit/net_lane.h
test_rdma_net_pair_LDADD = libgpuring_core.la -lpthread -lm

rdma_tests = test/rdma/test_rdma.sh test/rdma/test_rdma_two.sh test/rdma/test_rdma_failover.sh
TESTS += $(rdma_tests)

EXTRA_DIST += \
    test/rdma/auto.sh \
    test/rdma/machine-init \
    test/rdma/machine-main \
    test/rdma/on-host \
    test/rdma/prepare \
    test/rdma/run \
    test/rdma/switch.py \
    test/rdma/failover.sh \
    test/rdma/one_machine.sh \
    test/rdma/two_machines.sh \
    $(rdma_tests)
