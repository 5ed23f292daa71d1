#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Tests on two emulated machines (run by test_rdma.sh): the net alone, MPI, and a network that loses,
# delays, duplicates and reorders packets. Prints TAP.
# shellcheck source=test/rdma/lib.sh
. "${top_srcdir:?run this by test_rdma.sh}/test/rdma/lib.sh"
# The emulated link is slow when the real machine is busy, so wait longer before packets are sent again.
export OMPI_MCA_coll_gpuring_verbs_timeout=20

pairs 120 --timeout 20 --links 2 --slot-bytes 16384 check 20
check "chunks of all sizes between two machines" says '^check: 12 lanes of 20 chunks right'

before=$(packets)
run 200 "$MPIRUN" --host vm0,vm1 -n 2 "$programs/matrix" -n 0,1,1023,65537 -f 40 -s
adopt_as_one "MPI_Allreduce between two machines"
check "the log names the transport verbs" says '\[serves\] .*transport verbs'
check "the device has sent the data" test $(($(packets) - before)) -gt 100

# The device repairs the losses of a bad network, so the data must be right.
for trouble in 'loss 1%' 'delay 1ms 500us duplicate 5% reorder 25% 50%'; do
    # shellcheck disable=SC2086
    tc qdisc add dev eth0 root netem $trouble
    pairs 200 --timeout 15 --slot-bytes 4096 check 10
    check "right over a network with $trouble" says '^check: 6 lanes of 10 chunks right'
    run 200 "$MPIRUN" --host vm0,vm1 -n 2 --mca coll_gpuring_verbs_timeout 17 \
        "$programs/matrix" -n 1,2001 -f 97 -s
    adopt_as_one "MPI_Allreduce over a network with $trouble"
    tc qdisc del dev eth0 root
done

# Over UCX, TCP repairs the losses.
if grep -q 'GPURING_HAVE_UCX *1' "$top_builddir/gpuring_config.h"; then
    trouble='delay 2ms 1ms loss 1% duplicate 5% reorder 25% 50%'
    # shellcheck disable=SC2086
    tc qdisc add dev eth0 root netem $trouble
    run 200 "$MPIRUN" --host vm0,vm1 -n 2 --mca coll_gpuring_net ucx -x UCX_LOG_LEVEL=info \
        "$programs/matrix" -n 1,2001 -f 97 -s
    check "UCX leaves the software devices alone" silent 'cfg(\[|#).*rxe0'
    adopt_as_one "MPI_Allreduce by UCX over a network with $trouble"
    check "the log names the transport ucx" says '\[serves\] .*transport ucx'
    tc qdisc del dev eth0 root
else
    skip "built without UCX" "MPI_Allreduce by UCX over a bad network"
fi

# Lose all RDMA packets from now on, while MPI's own messages still arrive.
lose_rdma() {
    tc qdisc add dev eth0 root handle 1: prio
    tc qdisc add dev eth0 parent 1:3 handle 30: netem loss 100%
    tc filter add dev eth0 parent 1: protocol ip u32 match ip dport 4791 0xffff flowid 1:3
}
under_way 60 vm0,vm1 lose_rdma --mca coll_gpuring_verbs_timeout 15 \
    --mca coll_gpuring_verbs_retry_count 3
each 2 "RDMA packets are lost for good: an MPI error on both machines" "$broken"
# The device of Linux 6.12 may take repeated packets for invalid requests (status 9), which moves the other
# queue pair to the error state (status 5).
check "RDMA packets are lost for good: the text names hosts, device, port, status and remedy" \
    says '\[verbs-failed\] .*from vm[01] to rank [01] .*vm[01].*, device rxe0 port 1.*\(status (5|9|12), '
tc qdisc del dev eth0 root

# The other machine's interface goes down for good: an error within the retries, on both ends.
timeout -k 5 100 on-host vm1 "sleep 4; ip link set eth0 down" >/dev/null 2>&1 &
pairs 100 --timeout 14 --retry 3 both 100000000
check "a link that goes down: an error that names hosts, device, port, status and remedy" \
    says '\[verbs-failed\] .*from vm0 to rank 1 .*, device rxe0 port 1.*\(status 12, '
finish
