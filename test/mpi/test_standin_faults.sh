#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test MPI_Allreduce on device memory while the stand-in driver (test/standin) injects faults. They must cause
# an error or a fallback, and never a wrong result, a hang or a leak. There must be no leak even if the
# program frees nothing.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

if [ ! -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    skip "built without CUDA: there is no device layer to test" "faults of the driver"
    finish
fi
export OMPI_MCA_coll_gpuring_buffer_size=64k GPURING_STANDIN_PROTECT=0
export OMPI_MCA_coll_gpuring_pool_size=0 # each communicator is wired up

# Succeed if the stand-in driver has reported no leaks and no misuses.
left_behind() {
    if [ -s "$work/report" ]; then
        cp "$work/report" "$work/out"
        return 1
    fi
}

# faults RANKS GPUS FAULT...
faults() {
    ranks=$1
    use_gpus "$2"
    shift 2
    export GPURING_STANDIN_REPORT="$work/report"
    : >"$work/report"
    mpi 300 "$ranks" standin_faults "$@"
    adopt_as_one "$ranks ranks, $GPURING_STANDIN_GPUS GPU(s): $*"
    check "$ranks ranks, $GPURING_STANDIN_GPUS GPU(s): $*: nothing is leaked or misused" left_behind
    unset GPURING_STANDIN_REPORT
}

# The program has the lists of faults.
GPURING_TEST_SORT=pool faults 9 1 once
faults 2 1 calls
faults 3 2 -0 calls paths all
OMPI_MCA_coll_gpuring_timeout=2 faults 3 2 late
export OMPI_MCA_coll_gpuring_algorithm=previous # staged
faults 2 1 -s calls
faults 3 1 -s cuMemcpyAsync cuStreamQuery
unset OMPI_MCA_coll_gpuring_algorithm
# If queries of the driver fail, device memory is detected because the host cannot access it.
unset GPURING_STANDIN_PROTECT
OMPI_MCA_coll_gpuring_algorithm=previous \
    faults 2 2 -s contexts cuPointerGetAttributes cuCtxPushCurrent_v2
faults 2 2 contexts
faults 2 2 -0 contexts

# Communicators that are never freed, on ranks that finish at different times.
export GPURING_STANDIN_PROTECT=0 GPURING_STANDIN_REPORT="$work/report"
use_gpus 2
for case in "n1 0" "n2 -1"; do
    : >"$work/report"
    mpi 60 4 "${case% *}" leaked "${case#* }"
    adopt_as_one "communicators are never freed (${case})"
    check "communicators are never freed (${case}): they are given back at the end" left_behind
done
unset GPURING_STANDIN_REPORT

# The messages when memory of a peer corrupts data or access to it is refused.
use_gpus 2
for case in "corrupt=1 ACS" "nopeer=1 nvidia-smi"; do
    export GPURING_STANDIN_FAULTS="${case% *}"
    mpi 120 2 matrix -n 1,1000,30001 -f 40 -s
    cp "$work/out" "$work/said"
    adopt_as_one "2 GPUs, ${case% *}: right results through host memory"
    cp "$work/said" "$work/out"
    check "${case% *}: both GPUs and ranks are named" \
        says '0000:01:00.0 \(rank 0\).*0000:02:00.0 \(rank 1'
    check "${case% *}: and what to do" says "${case#* }"
    unset GPURING_STANDIN_FAULTS
done
finish
