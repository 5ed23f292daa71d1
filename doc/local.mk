# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors

# For users: installed next to the README.
userdocdir = $(docdir)/user
dist_userdoc_DATA = doc/user/administrators.md doc/user/clusters.md doc/user/failures.md doc/user/gpu-aware.md \
    doc/user/gpu-buffers.md doc/user/install.md doc/user/parameters.md doc/user/python.md doc/user/streams.md doc/user/symptoms.md \
    doc/user/tools.md doc/user/troubleshooting.md doc/user/tuning.md
dist_doc_DATA += doc/cost-model.md

# For developers: only in the source.
EXTRA_DIST += doc/local.mk doc/parameters.py doc/hacking/checklists.md doc/hacking/device.md \
    doc/hacking/glossary.md doc/hacking/net.md doc/hacking/open-mpi.md doc/hacking/p2p.md doc/hacking/plans.md \
    doc/hacking/serve.md doc/hacking/stage.md doc/hacking/stream.md doc/hacking/style.md doc/hacking/testing.md doc/hacking/topology.md \
    doc/hacking/tour.md doc/hacking/wireup.md
EXTRA_DIST += doc/results/kernels.md doc/results/memory-order.md doc/results/scale.md \
    doc/results/fuzz.md doc/results/gpu.md doc/results/search.md \
    doc/results/collectives.md doc/results/communicators.md doc/results/faults.md doc/results/ucx.md doc/results/verbs.md \
    doc/results/install.md doc/results/p2p.md

dist_man1_MANS += doc/man/gpuring-topo.1
