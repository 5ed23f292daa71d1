#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Tests on one emulated machine with a verbs device (run by test_rdma.sh): the net alone, MPI between two
# hosts of the machine, and mistakes that must be reported with a helpful message. Prints TAP.
# shellcheck source=test/rdma/lib.sh
. "${top_srcdir:?run this by test_rdma.sh}/test/rdma/lib.sh"

run 100 "$pair" --net verbs --links 2 --slot-bytes 16384 check 30
check "chunks of all sizes over two links each way" says '^check: 12 lanes of 30 chunks right'

before=$(packets)
run 200 "$MPIRUN" --host a,b -n 2 "$programs/matrix" -n 0,1,2,1023,65537 -f 24 -s
adopt_as_one "MPI_Allreduce between two hosts"
check "the log names the transport verbs" says '\[serves\] .*transport verbs'
after=$(packets)
echo "# packets sent by the device: $before before, $after after" | tee "$work/out"
check "the device has sent the data" test $((after - before)) -gt 100

# A communicator has the queue pairs of the algorithms that its calls have used, at both ends.
qps=99
under_way "3 2" a,b 'qps=$(rdma resource show qp | grep -c "type RC")'
echo "# $qps queue pairs of 2 processes" >>"$work/out"
check "a communicator with small calls has at most 4 queue pairs in each process" \
    sh -c "[ $qps -ge 2 ] && [ $qps -le 8 ]"
run 200 "$MPIRUN" --host a,b -n 2 "$programs/churn" -d 30
adopt "a communicator that is made again and again"

# Communicators beyond the limit of queue pairs use messages of MPI, until others are freed.
run 200 env OMPI_MCA_coll_gpuring_net=auto "$MPIRUN" --host a,b -n 2 \
    --mca coll_gpuring_verbs_qp_limit 20 "$rdma_programs/crowd" 30 20
adopt "communicators at the limit of queue pairs"
check "each process says once that it is at its limit" \
    test "$(grep -c '\[qp-limit\] this process has 2[0-9]* queue pairs' "$work/out")" -eq 2
check "a communicator beyond the limit uses mpi" says '\[serves\] .*one of many.*transport mpi'
check "one that is made later uses verbs" says '\[serves\] .*after the others.*transport verbs'

. "$top_srcdir/test/rdma/net_choice.sh"

# The sender exits. The receiver sends nothing, so it detects this with its probes.
run 100 "$pair" --net verbs --timeout 14 --retry 3 --die-after 2 both 100000000
check "a killed peer: hosts, device, status and remedy" \
    says '\[verbs-failed\] .*host0 to rank 1 on the second host, device rxe0 port 1.*status 12'

run 60 setpriv --bounding-set=-ipc_lock sh -c "ulimit -l 64; exec '$pair' --net verbs check 10"
check "a limit of locked memory that is too low" \
    says '\[no-registration\] .*rxe0: .* 64 KiB'

run 60 "$pair" --net verbs --hca '^rxe0' check 10
check "no device is selected" test "$status" -ne 0
run 60 "$pair" --net verbs --hca 'rxe0:1:2' check 10
check "a list of devices that is none" says '\[bad-hca\] .*rxe0:1:2'

rdma link delete rxe0
run 60 "$pair" --net verbs check 10
check "no device at all" test "$status" -ne 0
finish
