#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Tests on two emulated machines (run by test_rdma_two.sh): a network that loses, delays, duplicates and
# reorders packets, with one port, and failover with two ports, one of which fails. The second port is a
# macvlan interface with a separate address on the same cable. Prints TAP.
# shellcheck source=test/rdma/lib.sh
. "${top_srcdir:?run this by test_rdma_two.sh}/test/rdma/lib.sh"

# The device repairs the losses of a bad network, so the data must be right. The emulated link is slow when
# the real machine is busy, so wait longer before packets are sent again.
for trouble in 'loss 1%' 'delay 1ms 500us duplicate 5% reorder 25% 50%'; do
    # shellcheck disable=SC2086
    tc qdisc add dev eth0 root netem $trouble
    pairs 200 --timeout 17 --links 2 --slot-bytes 4096 check 10
    check "right over a network with $trouble" says '^check: 12 lanes of 10 chunks right'
    before=$(packets)
    run 200 "$MPIRUN" --host vm0,vm1 -n 2 --mca coll_gpuring_verbs_timeout 17 \
        "$programs/matrix" -n 1,2001 -f 97 -s
    adopt_as_one "MPI_Allreduce over a network with $trouble"
    sent=$(($(packets) - before))
    check "the device has sent $sent packets" test "$sent" -gt 10
    tc qdisc del dev eth0 root
done
check "the log names the transport verbs" says '\[serves\] .*transport verbs'
# Over UCX, TCP repairs the losses.
trouble='delay 2ms 1ms loss 1% duplicate 5% reorder 25% 50%'
# shellcheck disable=SC2086
tc qdisc add dev eth0 root netem $trouble
if grep -q 'GPURING_HAVE_UCX *1' "$top_builddir/gpuring_config.h"; then
    run 200 "$MPIRUN" --host vm0,vm1 -n 2 --mca coll_gpuring_net ucx -x UCX_LOG_LEVEL=info \
        "$programs/matrix" -n 1,2001 -f 97 -s
    check "UCX leaves the software devices alone" silent 'cfg(\[|#).*rxe0'
    adopt_as_one "MPI_Allreduce by UCX over a network with $trouble"
    check "the log names the transport ucx" says '\[serves\] .*transport ucx'
else
    skip "built without UCX" "MPI_Allreduce by UCX over a bad network"
fi
tc qdisc del dev eth0 root

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

# Print the commands that add a second port. Each interface answers only for its own address, although
# both are on the same cable. Its network precedes that of the first port, so it is device 0 of the net.
export OMPI_MCA_coll_gpuring_verbs_timeout=19 OMPI_MCA_coll_gpuring_verbs_retry_count=3
export OMPI_MCA_btl_tcp_if_include=eth0
second_port() { # NUMBER
    echo "sysctl -q -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 &&
        ip link add mv0 link eth0 mtu 4200 type macvlan mode bridge &&
        ip addr add 10.80.0.$1/24 dev mv0 && ip link set mv0 up && rdma link add rxe1 type rxe netdev mv0"
}
run 60 sh -c "$(second_port 1)"
run 60 on-host vm1 "$(second_port 2)"
sleep 3 # for the addresses to become GIDs
run 60 ibv_devinfo -d rxe1
check "a second port" says 'PORT_ACTIVE'

sent() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/sent_pkts"; }

# All packets of vm0's second port are lost without an event, after some of the thousands of chunks.
before=$(sent rxe1)
(
    for _ in $(seq 1800); do
        [ $(($(sent rxe1) - before)) -lt 300 ] || break
        sleep 0.1
    done
    tc qdisc add dev mv0 root netem loss 100%
) >/dev/null 2>&1 &
pairs 200 --timeout 17 --retry 3 --spares 1 --device 0 --slot-bytes 4096 --qps 2 check 1500
check "a port that loses everything, two queue pairs: all chunks come by the other" \
    says '^check: 6 lanes of 1500 chunks right'
check "which port failed, why, and which one serves now" \
    says '\[verbs-failover\] .* device rxe1 port 1 .* device rxe0 port 1'
tc qdisc del dev mv0 root

# 20 communicators share a port whose device reports that it went down. All of them continue on the other port.
under_way '8 1000 0 20' vm0,vm1 'ip link set mv0 down'
each 2 "a port of 20 communicators fails: all go on, data are right" '[1-9][0-9]* operations right$'
check "all of them have moved, with one warning" \
    test "$(grep -c '\[verbs-failover\] .*vm0 to .* device rxe1 port 1 .* device rxe0 port 1' "$work/out")" -eq 1
check "the warning has the number of connections" says '\[verbs-failover\] .*; [1-9][0-9]* other connections use'
check "the device tells of its port" says '\[port-down\] .*device rxe1 port 1'
ip link set mv0 up
sleep 3

# There are two channels of rings, one on each port, one of which never works.
before=$(sent rxe0)
tc qdisc add dev mv0 root netem loss 100%
run 200 "$MPIRUN" --host vm0,vm1 -n 2 --mca coll_gpuring_algorithm ring --mca coll_gpuring_min_channels 2 \
    "$programs/matrix" -n 0,1,1023,65537 -f 20 -s
adopt_as_one "MPI_Allreduce over two ports, one of which is dead"
check "the channel of the dead port has moved" says '\[verbs-failover\] .* device rxe0 port 1'
check "the other port sent" test $(($(sent rxe0) - before)) -gt 100
finish
