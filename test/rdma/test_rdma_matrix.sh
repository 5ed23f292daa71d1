#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Run the correctness matrix over verbs on one emulated machine; see test_rdma.sh.
. "${top_srcdir:-.}/test/rdma/test_rdma.sh"
