#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test every collective in every form against results that each rank computes, with the host device and on
# device memory of the stand-in driver (test/standin), where no call may be staged. Also tests several
# concurrent calls with host buffers on some ranks.
#
# GPURING_NATIVE_SEED selects other calls, and GPURING_NATIVE_EVERY=1 runs all combinations.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"
seed=${GPURING_NATIVE_SEED:-1}
echo "# GPURING_NATIVE_SEED=$seed repeats this run"
export OMPI_MCA_coll_gpuring_buffer_size=16k # so that vectors have several windows

native() { # RANKS EVERY GROUPS TEXT
    mpi 240 "$1" native -s "$seed" -f "${GPURING_NATIVE_EVERY:-$2}" -m "$3"
    adopt_as_one "$1 ranks, $4"
}

# Test the program itself with only the stock components.
run 240 "$MPIRUN" -n 3 --mca coll_gpuring_priority 0 "$programs/native" -s "$seed" -f 23
adopt_as_one "3 ranks without the component"

native 1 11 5 "host device"
native 2 5 20 "host device"
export OMPI_MCA_coll_gpuring_check=plans OMPI_MCA_coll_gpuring_verbose=1
native 3 11 20 "host device, check=plans"
proven() { sed -nE 's/.*\[plans-proven\] .*: (MPI_[A-Za-z_]*|[a-z]+) (by|over) .*/\1/p' "$work/out" | sort -u; }
check "each collective's plan is proven when it is made" \
    test "$(proven | grep -c MPI_) $(proven | grep -c ring)" = "9 1"
unset OMPI_MCA_coll_gpuring_check OMPI_MCA_coll_gpuring_verbose
native 4 17 15 "host device"
native 5 23 10 "host device"
native 8 61 5 "host device"
# Many ranks exchange data directly. Their connections are made at first use and have bounded memory.
export OMPI_MCA_coll_gpuring_verbose=1
for sample in "20 8004 101" "72 1204 301"; do
    # shellcheck disable=SC2086
    set -- $sample
    ranks=$1
    mpi 240 "$ranks" n5 native -s "$seed" -l "$2" -f "$3"
    adopt_as_one "$ranks ranks on 5 nodes, direct exchanges on the host device"
    connections=$(sed -n 's/.*\[serves\].* direct.* \([0-9]*\)\.[0-9]* MiB for connections.*/\1/p' "$work/out" | sort -n | tail -n 1)
    check "direct connections of $ranks ranks take less than 16 MiB" test "${connections:-99}" -lt 16
done
unset OMPI_MCA_coll_gpuring_verbose
# Calls by node: several windows, in both stages of an alltoall, and blocks of any layout.
by_node() { # RANKS NODES TEXT PROGRAM ARGS...
    ranks=$1 nodes=$2 text=$3
    shift 3
    OMPI_MCA_coll_gpuring_algorithm=two-shot OMPI_MCA_coll_gpuring_verbose=1 \
        mpi 240 "$ranks" "n$nodes" "$@"
    adopt_as_one "$ranks ranks on $nodes nodes, by node, $text"
    check "alltoalls are" says '\[serves\] .*first MPI_Alltoall .* algorithm two-shot'
}
OMPI_MCA_coll_gpuring_check=plans by_node 6 3 "host device" native -s "$seed" -f 401 -m 3
check "both plans of alltoalls are proven" says '\[plans-proven\] .* MPI_Alltoall by two-shot, root -3,'
for name in Allgather Reduce_scatter; do
    check "and that of MPI_$name" says "\[plans-proven\] .* MPI_$name by two-shot, root 0,"
done
# Consecutive ranks are on different nodes, so alltoalls are direct.
GPURING_TEST_BY_NODE=1 OMPI_MCA_coll_gpuring_check=plans OMPI_MCA_coll_gpuring_verbose=1 \
    OMPI_MCA_coll_gpuring_algorithm=two-shot mpi 240 6 n2 native -s "$seed" -f 401 -m 3
adopt_as_one "6 ranks on 2 nodes in turn, by node"
check "allgathers are" says '\[plans-proven\] .* MPI_Allgather by two-shot, root 0,'
OMPI_MCA_coll_gpuring_protocol=ll by_node 12 3 "host device, LL" native -s "$seed" -l 1204 -f 61
# All calls in all forms between fewer ranks, also with connections at first use.
export OMPI_MCA_coll_gpuring_direct_ranks=2
native 4 41 10 "connected when it is needed"
mpi 240 4 n2 native -s "$seed" -f 41 -m 10
adopt_as_one "4 ranks on 2 nodes, connected when it is needed"
unset OMPI_MCA_coll_gpuring_direct_ranks
# With coll_gpuring_deterministic=1, data is folded in the order of ranks. Without it, rings use another
# order.
ordered() { # RANKS NODES TEXT OPTIONS...
    ranks=$1 nodes=$2 text=$3
    shift 3
    mpi 240 "$ranks" "n$nodes" ordered "$@"
    adopt_as_one "$ranks ranks on $nodes node(s), $text, coll_gpuring_deterministic=1"
}
OMPI_MCA_coll_gpuring_algorithm=ring mpi 240 4 ordered -a
check "without coll_gpuring_deterministic rings fold in another order" says '^not ok .* in the order of the ranks'
export OMPI_MCA_coll_gpuring_deterministic=1
ordered 3 1 "host device"
ordered 5 2 "host device"
ordered 17 2 "host device" -a
unset OMPI_MCA_coll_gpuring_deterministic

if [ ! -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    skip "built without CUDA: there is no device layer to test" "collectives on device memory"
    finish
fi
use_gpus 2
export GPURING_STANDIN_PROTECT=0
native 1 11 5 "device memory"
guarded native 2 11 20 "device memory"
native 4 67 20 "device memory"
# Between nodes ranks agree by messages on calls in which each may have its buffers anywhere.
mpi 240 4 n2 native -s "$seed" -f "${GPURING_NATIVE_EVERY:-67}" -m 20
adopt_as_one "4 ranks on 2 nodes, device memory"
by_node 4 2 "device memory" native -s "$seed" -f 401 -m 3
mpi 240 17 n4 native -s "$seed" -l 2804 -f 61
adopt_as_one "17 ranks on 4 nodes, direct exchanges of device memory"
OMPI_MCA_coll_gpuring_direct_ranks=2 mpi 240 4 n2 native -s "$seed" -f 97 -m 30
adopt_as_one "4 ranks on 2 nodes, device memory, connected when it is needed"
OMPI_MCA_coll_gpuring_agree_size=3000 mpi 240 4 n2 native -s "$seed" -f 1000000 -m 15
check "4 ranks on 2 nodes, groups of calls of which some are agreed on" says '^ok .* - 15 groups'
# Small calls with a root are staged, and so are those below the limit between nodes.
unset OMPI_MCA_coll_gpuring_agree_size
OMPI_MCA_coll_gpuring_agree_size=10000 guarded mpi 240 4 n2 rooted
adopt_as_one "4 ranks on 2 nodes, calls with a root, agreed on from 10000 bytes on"
for nodes in 1 2; do
    mpi 240 3 n$nodes rooted first
    adopt_as_one "3 ranks on $nodes node(s), calls with a root before any other"
done
OMPI_MCA_coll_gpuring_agree_size=10000 mpi 240 3 n1 rooted first
adopt_as_one "3 ranks on 1 node, agreed on from 10000 bytes on, before any other call"
OMPI_MCA_coll_gpuring_agree_size=0 mpi 240 4 n2 native -s "$seed" -l 2804 -f 41
check "without agreements they are staged" says '^not ok .* blocking gather: .* [1-9][0-9]* staged'
check "and so are those of which not all ranks know the size" says '^not ok .* (alltoallv|gatherv): '
export OMPI_MCA_coll_gpuring_deterministic=1
ordered 3 1 "device memory" -a
ordered 4 2 "device memory" -a
finish
