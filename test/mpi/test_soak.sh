#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Run long random sequences of all collectives in all forms over UCX and shared memory, and on the stand-in
# driver (test/standin). Datatypes and memory differ between ranks. There are several communicators, all
# algorithms and protocols, ranks that hang for some time, and ranks that are killed.
#
# GPURING_SOAK_SEED selects other random calls, and GPURING_SOAK_COUNT their number. The default seed is
# fixed, because new seeds have also found faults of Open MPI.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

seed=${GPURING_SOAK_SEED:-100}
count=${GPURING_SOAK_COUNT:-500}
echo "# GPURING_SOAK_SEED=$seed GPURING_SOAK_COUNT=$count repeats this run"
if ! grep -q 'GPURING_HAVE_UCX *1' "$top_builddir/gpuring_config.h"; then
    skip "built without UCX" "soak"
    finish
fi
export OMPI_MCA_coll_gpuring_net=ucx

soak() { # SHARE-OF-COUNT(1/n) RANKS NODES TEXT OPTIONS...
    calls=$((count / $1)) ranks=$2 nodes=$3 soak_text=$4
    shift 4
    mpi 300 "$ranks" "n$nodes" soak -s "$seed" -c "$calls" "$@"
    adopt_as_one "$ranks ranks on $nodes nodes, $calls calls, $soak_text"
    seed=$((seed + 1))
}

OMPI_MCA_coll_gpuring_connect_after=10 soak 2 4 1 "auto"
soak 4 2 2 "auto"
soak 5 4 2 "auto"
export OMPI_MCA_coll_gpuring_algorithm=tree OMPI_MCA_coll_gpuring_protocol=ll
soak 10 4 4 "tree, ll"
export OMPI_MCA_coll_gpuring_algorithm=ring OMPI_MCA_coll_gpuring_protocol=ll128
soak 10 3 3 "ring, ll128"
export OMPI_MCA_coll_gpuring_algorithm=ring OMPI_MCA_coll_gpuring_protocol=simple
export OMPI_MCA_coll_gpuring_buffer_size=16384
soak 10 4 2 "ring, simple, small buffers"
unset OMPI_MCA_coll_gpuring_algorithm OMPI_MCA_coll_gpuring_protocol \
    OMPI_MCA_coll_gpuring_buffer_size
GPURING_UCX_TLS=tcp soak 10 3 3 "TCP alone"
soak 10 4 2 "ranks that hang for a while" -p
GPURING_UCX_TLS=tcp soak 20 3 3 "TCP, ranks that hang for a while" -p
OMPI_MCA_coll_gpuring_net=mpi soak 10 3 3 "messages of MPI, long chunks" -m 4000000

killed() { # RANKS NODES TEXT
    run 120 "$MPIRUN" -n "$1" --enable-recovery --mca coll_gpuring_priority 90 \
        --mca coll_gpuring_device host --mca coll_gpuring_timeout 10 \
        "$top_srcdir/test/mpi/as_nodes.sh" "$2" "$1" "$programs/soak" -s "$seed" -c 100 -k
    survivors=$(($1 - 1))
    check "$3: the survivors' broken communicators refuse (seed $seed)" \
        test "$(grep -c '^ok - rank [0-9]*: communicator [01] refuses$' "$work/out")" -eq \
        $((2 * survivors))
    check "$3: a communicator without the dead rank goes on" \
        test "$(grep -c '^ok - rank [0-9]*: the others go on$' "$work/out")" -eq "$survivors"
    check "$3: the job ends in time" test "$status" -ne 124
    seed=$((seed + 1))
}
killed 4 2 "a rank dies amid calls, 4 ranks on 2 nodes"
killed 3 3 "a rank dies amid calls, 3 ranks on 3 nodes"

if [ ! -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    skip "built without CUDA: there is no device layer to test" "collectives on device memory"
    finish
fi
use_gpus 2
export GPURING_STANDIN_PROTECT=0
OMPI_MCA_coll_gpuring_connect_after=10 soak 10 3 1 "device memory"
export OMPI_MCA_coll_gpuring_agree=always
guarded soak 10 3 2 "device and host memory"

finish
