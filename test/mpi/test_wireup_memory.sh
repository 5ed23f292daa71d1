#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Each memory allocation of one rank fails in turn while a communicator is wired up. No rank may wait for it
# forever.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

OMPI_MCA_coll_gpuring_timeout=60 # a rank that waits in vain ends in an error on some ranks only
export OMPI_MCA_coll_gpuring_timeout

# Each communicator must be wired up.
export OMPI_MCA_coll_gpuring_pool_size=0

# lacking RANKS NODES RANK [nonblocking | second | kept | both | known]
lacking() {
    LD_PRELOAD="$top_builddir/test/mpi/.libs/memory_faults.so" \
        mpi 300 "$1" "n$2" wireup_memory "$3" ${4:+"$4"}
    adopt "$1 ranks on $2 nodes, rank $3 runs out of memory"
    check "rank $3 of $1 on $2 nodes: no wait ran into its time limit" \
        sh -c "! grep -q '\[stalled\]' '$work/out'"
}

lacking 3 1 0
lacking 4 1 2 nonblocking
lacking 3 3 1
lacking 4 2 3 nonblocking
# In order, small allreduces are direct exchanges, which have connections of their own.
OMPI_MCA_coll_gpuring_deterministic=1 OMPI_MCA_coll_gpuring_direct_ranks=2 lacking 4 2 1 second

# The ranks keep connections between the same processes in another order, which do not fit.
OMPI_MCA_coll_gpuring_pool_size=1 lacking 3 1 1 kept
OMPI_MCA_coll_gpuring_pool_size=1 lacking 3 1 1 both
lacking 3 1 1 known
lacking 4 2 2 known

# The same while the ranks merge their views of the node.
LD_PRELOAD="$top_builddir/test/mpi/.libs/memory_faults.so" run 300 "$MPIRUN" -n 4 \
    --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
    "$top_srcdir/test/mpi/as_views.sh" "$top_srcdir/test/data/topo/nvswitch.xml" "$work" \
    "$programs/wireup_memory" 1
adopt "4 ranks that see one GPU each, rank 1 runs out of memory"
check "ranks that see one GPU each: no wait ran into its time limit" \
    sh -c "! grep -q '\[stalled\]' '$work/out'"

finish
