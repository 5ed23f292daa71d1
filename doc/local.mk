# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors

dist_doc_DATA += doc/cost-model.md
EXTRA_DIST += doc/results/kernels.md doc/results/packed-trees.md doc/results/scale.md \
    doc/results/fuzz.md doc/results/gpu.md doc/results/search.md \
    doc/results/communicators.md doc/results/faults.md doc/results/ucx.md doc/results/verbs.md \
    doc/results/host-allreduce.md

dist_man1_MANS += doc/man/gpuring-topo.1
