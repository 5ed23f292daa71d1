#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Verbs between two emulated machines with a real link; see test_rdma.sh.
. "${top_srcdir:-.}/test/rdma/test_rdma.sh"
