#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test verbs between two emulated machines; see test_rdma.sh.
. "${top_srcdir:-.}/test/rdma/test_rdma.sh"
