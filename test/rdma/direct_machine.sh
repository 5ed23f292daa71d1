#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test slots in GPU memory over verbs, on one emulated machine with several hosts (run by
# test_rdma_direct.sh). The stand-in driver provides the GPUs, and their memory is host memory, so Soft-RoCE
# can register it like peer memory. Everything from ibv_reg_mr on is real, also the reads that flush. No
# result is from a GPU. Prints TAP.
# shellcheck source=test/rdma/lib.sh
. "${top_srcdir:?run this by test_rdma_direct.sh}/test/rdma/lib.sh"

use_gpus 2
export GPURING_STANDIN_PROTECT=0 # a kernel cannot pin what is protected
export OMPI_MCA_coll_gpuring_device=cuda OMPI_MCA_coll_gpuring_gdr_level=SYS
export OMPI_MCA_coll_gpuring_buffer_size=256k
reach='\[gdr\] .*: [1-9][0-9]* of'

direct() { # TEXT GDR HOSTS OPTIONS...
    text=$1 hosts=$3
    export GPURING_STANDIN_GDR="$2"
    shift 3
    before=$(packets)
    run 250 "$MPIRUN" --host "$hosts" -x GPURING_STANDIN_PROTECT -x GPURING_STANDIN_GDR \
        -x GPURING_STANDIN_GPUS -x GPURING_TEST_MEMORY \
        -x LD_LIBRARY_PATH="$GPURING_TEST_DRIVER${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
        "$programs/matrix" "$@" -s
    adopt_as_one "$text"
    sent=$(($(packets) - before))
    check "$text: the device has sent $sent packets" test "$sent" -gt 100
}

direct "peer memory, flushed: 2 hosts" 1 a,b -n 1,1025,30001 -f 29
check "the log says so" says "$reach.*peer memory, flushed by reading"
direct "peer memory, writes in order: 2 hosts" 5 a,b -n 1,1025 -f 59
check "the log says so" says "$reach.*peer memory, in order"
direct "a descriptor that the device refuses: hosts a:2,b:2" 3 a:2,b:2 -n 1,1025 -f 149
check "the log says so" says "$reach"
export OMPI_MCA_coll_gpuring_gdr_level=PXB
direct "too far, or nobody knows how far: 2 hosts" 1 a,b -n 1,1025 -f 59
check "no word of it in the log" test "$(grep -c "$reach" "$work/out")" -eq 0
finish
