#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Faults of the CUDA driver under MPI_Allreduce (stand-in driver, test/standin): each leads to another
# path or to an MPI error at every rank, never to a wrong result, a crash, a hang or a leak.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

if [ ! -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    skip "built without CUDA: there is no device layer to test" "faults of the driver"
    finish
fi
use_gpus 2
# A rank that waits for one that is gone says so in time.
export OMPI_MCA_coll_gpuring_timeout=20 OMPI_MCA_coll_gpuring_buffer_size=64k
export GPURING_STANDIN_REPORT="$work/leaks"

# faults RANKS ENDS LIST: RANKS: 0 (that one has the fault), all. ENDS: none (the program runs to its end), any (it may give up with a message: its
# own calls of the driver fail, too).
faults() {
    ranks=$1 ends=$2
    for fault in $3; do
        : >"$work/leaks"
        GPURING_TEST_FAULT_RANK=$ranks
        export GPURING_TEST_FAULT_RANK GPURING_STANDIN_FAULTS="$fault"
        [ "$ranks" != all ] || unset GPURING_TEST_FAULT_RANK
        mpi 120 2 matrix -e -n 1,1000,20000 -f 120
        text="$fault at rank $ranks"
        if [ "$ends" = none ]; then
            adopt_as_one "$text"
            check "$text: nothing is left behind" test ! -s "$work/leaks"
            check "$text: it was met, and is told" told "$fault"
        else
            check "$text: no wrong result, crash or hang" right_or_given_up
        fi
    done
    unset GPURING_STANDIN_FAULTS GPURING_TEST_FAULT_RANK
}

told() { # FAULT
    case $1 in slow=*) return 0 ;; esac
    says 'gpuring (ERROR|WARN) '
}

right_or_given_up() {
    [ "$status" -eq 0 ] || [ "$status" -eq 2 ] && ! grep -q '^not ok\|wrong, first' "$work/out"
}

# Making the connections: memory, streams, kernels, paths to the others.
faults 0 none "cuMemHostAlloc=1:2 cuMemHostRegister_v2=1 cuMemAlloc_v2=3:2 cuMemAlloc_v2=5:2"
faults 0 none "cuMemAlloc_v2=12:2 cuMemsetD8Async=1 cuStreamCreate=2 cuStreamCreate=3 cuEventCreate=1"
faults 0 none "cuDeviceGetPCIBusId=1 cuDeviceGetUuid_v2=1 cuDeviceGet=2 cuIpcGetMemHandle=1"
faults 0 none "cuMemGetAddressRange_v2=1 cuIpcOpenMemHandle_v2=1 nopeer=1 corrupt=1"
# Running: launches, events, a slow GPU, a context that is broken for good.
faults 0 none "cuModuleLoadData=1:209 cuModuleGetFunction=1 cuLaunchKernel=1 cuLaunchKernel=4"
faults 0 none "cuEventRecord=1 cuEventQuery=1 cuEventQuery=3 cuPointerGetAttributes=1 slow=2000"
faults 0 any "cuPointerGetAttributes=7 cuCtxPushCurrent_v2=9 cuCtxPushCurrent_v2=40 sticky=1 sticky=3"
faults all none "cuMemAlloc_v2=5:2 cuStreamCreate=2 cuIpcOpenMemHandle_v2=1 cuLaunchKernel=4"

finish
