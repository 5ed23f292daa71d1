#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test failover on two emulated machines with two verbs ports each (run by test_rdma.sh). One port fails,
# because its interface is taken down or its network loses all packets, and the data is sent through the
# other port. The second port is a macvlan interface with a separate address on the same cable. Prints TAP.
# shellcheck source=test/rdma/lib.sh
. "${top_srcdir:?run this by test_rdma.sh}/test/rdma/lib.sh"
export OMPI_MCA_coll_gpuring_verbs_timeout=19 OMPI_MCA_coll_gpuring_verbs_retry_count=3
export OMPI_MCA_btl_tcp_if_include=eth0

# Print the commands that add a second port. Each interface answers only for its own address, although
# both are on the same cable. Its network precedes that of the first port, so it is device 0 of the net.
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

# Run ACTION in the background after some of the thousands of chunks of the next run have been sent
# through the second port.
in_between() { # ACTION
    before=$(sent rxe1)
    (
        for _ in $(seq 1800); do
            [ $(($(sent rxe1) - before)) -lt 300 ] || break
            sleep 0.1
        done
        eval "$1"
    ) >/dev/null 2>&1 &
}

spare="--timeout 17 --retry 3 --spares 1 --device 0 --slot-bytes 4096"

# All packets of vm0's second port are lost without an event.
in_between "tc qdisc add dev mv0 root netem loss 100%"
# shellcheck disable=SC2086
pairs 200 $spare check 1500
check "a port that loses everything: all chunks come by the other" \
    says '^check: 6 lanes of 1500 chunks right'
check "which port failed, why, and which one serves now" \
    says '\[verbs-failover\] .* device rxe1 port 1 .* device rxe0 port 1'
tc qdisc del dev mv0 root

# The interface of vm1's second port goes down, and its device reports an event.
in_between "on-host vm1 'ip link set mv0 down'"
# shellcheck disable=SC2086
pairs 200 $spare --qps 2 check 1500
check "a port that goes down, two queue pairs: all chunks come by the other" \
    says '^check: 6 lanes of 1500 chunks right'
check "the device tells of its port" says '\[port-down\] .*device rxe1 port 1'
on-host vm1 "ip link set mv0 up"
sleep 3

# 20 communicators share the port that dies. All of them continue on the other port.
under_way '10 1000 0 20' vm0,vm1 'ip link set mv0 down'
each 2 "a port of 20 communicators fails: all go on, data are right" '[1-9][0-9]* operations right$'
check "each of them has moved" \
    test "$(grep -c '\[verbs-failover\] .*vm0 to .* device rxe1 port 1 .* device rxe0 port 1' "$work/out")" -ge 20
ip link set mv0 up
sleep 3

# There are two channels of rings, one on each port. In the second run, the second port never works.
export OMPI_MCA_coll_gpuring_algorithm=ring
before=$(sent rxe1)
run 200 "$MPIRUN" --host vm0,vm1 -n 2 --mca coll_gpuring_min_channels 2 \
    "$programs/matrix" -n 0,1,1023,65537 -f 20 -s
adopt_as_one "MPI_Allreduce over two ports"
check "both ports sent" test $(($(sent rxe1) - before)) -gt 10
tc qdisc add dev mv0 root netem loss 100%
run 200 "$MPIRUN" --host vm0,vm1 -n 2 --mca coll_gpuring_min_channels 2 \
    "$programs/matrix" -n 0,1,1023,65537 -f 20 -s
adopt_as_one "MPI_Allreduce over two ports, one of which is dead"
check "the channel of the dead port has moved" says '\[verbs-failover\] .* device rxe0 port 1'
finish
