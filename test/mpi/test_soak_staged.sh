#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Run long random sequences of all collectives with the host device and on the stand-in driver
# (test/standin): in all forms, many in flight, with buffers on GPUs and in host memory, on communicators
# of every kind that are created and freed meanwhile.
#
# GPURING_SOAK_SEED selects other random calls, and GPURING_SOAK_COUNT their number. The default seed is
# fixed, because new seeds have also found faults of Open MPI.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

seed=${GPURING_SOAK_SEED:-5001}
count=${GPURING_SOAK_COUNT:-120}
echo "# GPURING_SOAK_SEED=$seed GPURING_SOAK_COUNT=$count repeats this run"

# Test the program itself on host memory with only the stock components.
run 120 "$MPIRUN" -n 3 --mca coll_gpuring_priority 0 "$programs/soak_staged" -s "$seed" -c "$count"
adopt_as_one "3 ranks without the component, on host memory"

mpi 120 3 soak_staged -s "$seed" -c $((3 * count))
adopt_as_one "3 ranks, host device, seed $seed"
mpi 120 4 soak_staged -s 1 -c $((3 * count))
adopt_as_one "4 ranks, host device, seed 1"

if [ ! -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    skip "built without CUDA: there is no device layer to test" "collectives on device memory"
    finish
fi

use_gpus 2
export OMPI_MCA_coll_gpuring_buffer_size=64k
export GPURING_STANDIN_REPORT="$work/report" GPURING_STANDIN_PROTECT=0

soak() { # SEED RANKS NODES TEXT
    mpi 120 "$2" "n$3" soak_staged -s "$1" -c "$count"
    adopt_as_one "$2 ranks on $3 nodes, $4, seed $1"
}

soak 1 4 1 "served calls on GPUs everywhere or nowhere"
export OMPI_MCA_coll_gpuring_agree=always
guarded soak 2 3 1 "all ranks for themselves"
OMPI_MCA_coll_gpuring_connect_after=5 soak "$seed" 4 1 "all ranks for themselves"
if grep -q 'GPURING_HAVE_UCX *1' "$top_builddir/gpuring_config.h"; then
    export OMPI_MCA_coll_gpuring_net=ucx
    unset OMPI_MCA_coll_gpuring_agree
    soak "$seed" 3 2 "served calls on GPUs everywhere or nowhere"
else
    skip "built without UCX" "several nodes"
fi
nothing_held "all memory is given back"
finish
