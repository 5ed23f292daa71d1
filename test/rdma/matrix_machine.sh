#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Run the correctness matrix over verbs, on one emulated machine with several hosts (run by
# test_rdma_matrix.sh): types x operations x counts x ranks x hosts, with every algorithm and protocol.
# Each run must have sent packets through the device. Prints TAP.
# shellcheck source=test/rdma/lib.sh
. "${top_srcdir:?run this by test_rdma_matrix.sh}/test/rdma/lib.sh"

# matrix TEXT HOSTS OPTIONS...: run the matrix, and check the results and the packets of the device.
matrix() {
    text=$1 hosts=$2
    shift 2
    before=$(packets)
    run 200 "$MPIRUN" --host "$hosts" "$programs/matrix" "$@" -s
    adopt_as_one "$text"
    sent=$(($(packets) - before))
    check "$text: the device has sent $sent packets" test "$sent" -gt 100
}

matrix "hosts a:3,b:2" a:3,b:2 -n 0,1,2,3,1023,1024,1025,1048579 -f 149
check "hosts a:3,b:2: shared memory inside, verbs outside" \
    says '\[serves\] .*transport shm\+verbs'

# Test each protocol, which decides the content of the slots, and each algorithm, which decides the pairs
# of ranks. test/mpi/test_matrix.sh tests all combinations.
for case in "ring simple a:2,b,c" "ring ll128 a:2,b" "direct simple a,b,c,d,e"; do
    # shellcheck disable=SC2086
    set -- $case
    export OMPI_MCA_coll_gpuring_algorithm="$1" OMPI_MCA_coll_gpuring_protocol="$2"
    matrix "$1 $2, hosts $3" "$3" -n 1,20000 -f 193
done
unset OMPI_MCA_coll_gpuring_algorithm OMPI_MCA_coll_gpuring_protocol

export OMPI_MCA_coll_gpuring_min_channels=4 OMPI_MCA_coll_gpuring_max_channels=4
matrix "4 channels, hosts a:2,b:2" a:2,b:2 -n 1,1000,100003 -f 97
unset OMPI_MCA_coll_gpuring_min_channels OMPI_MCA_coll_gpuring_max_channels
export OMPI_MCA_coll_gpuring_buffer_size=8192 OMPI_MCA_coll_gpuring_chunk_size=200
matrix "chunks of 200 bytes, 3 hosts" a,b,c -n 1,49,50,51,1000,5011 -f 193
unset OMPI_MCA_coll_gpuring_buffer_size OMPI_MCA_coll_gpuring_chunk_size

before=$(packets)
run 200 "$MPIRUN" --host a:2,b:2 "$programs/threads"
adopt_as_one "threads on hosts a:2,b:2"
check "threads: the device has sent the data" test $(($(packets) - before)) -gt 100
finish
