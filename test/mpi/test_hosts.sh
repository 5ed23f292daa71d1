#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Run jobs over two hosts, which are network namespaces with different addresses and host names. No
# parameter simulates nodes, so ranks must detect on which host each rank is. Tests the whole matrix over
# MPI messages and a part of it over UCX, every algorithm and protocol, ranks that are killed or late, and a
# network that delays, drops, duplicates and reorders packets.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

options= # of mpirun, by words
hosts() { # SECONDS RANKS-PER-HOST PROGRAM ARGS...
    limit=$1 each=$2 program=$3
    shift 3
    # shellcheck disable=SC2086
    run "$limit" "$top_srcdir/test/mpi/two_hosts.sh" -n $((2 * each)) \
        --host "gpra:$each,gprb:$each" --map-by slot --mca pml ob1 --mca btl self,vader,tcp \
        -x OMPI_MCA_mca_base_component_path --mca coll_gpuring_priority 90 \
        --mca coll_gpuring_device host --mca coll_gpuring_verbose 1 $options \
        "$programs/$program" "$@"
}

small=0,1,2,3,1023,1024,1025

options="--mca coll_gpuring_algorithm direct" # otherwise some calls are delegated
hosts 240 1 matrix -n $small -f 7 -s
options=
if [ "$status" -eq 77 ]; then
    skip "$(tail -n 1 "$work/out")" "two hosts"
    finish
fi
adopt_as_one "2 ranks on 2 hosts: every 7th combination"
check "the log says which network was chosen, and why" \
    says '\[network\] (mpi|verbs) .*\[[a-z-]+\]'
check "the log says that the network carries it" says '\[serves\] .*transport (mpi|verbs)'
hosts 240 2 matrix -n $small -f 7 -s
adopt_as_one "4 ranks on 2 hosts: every 7th combination"
check "the log says shared memory inside, network outside" says '\[serves\] .*shm\+(mpi|verbs)'
hosts 240 2 matrix -n 1048579 -f 60 -s
adopt_as_one "4 ranks on 2 hosts, 1 Mi + 3 elements"
# test_matrix.sh tests all combinations.
hosts 240 2 matrix -n $small,300001 -f 31 -s ring-simple tree-ll direct-ll128
adopt_as_one "4 ranks on 2 hosts, algorithms and protocols"
hosts 120 2 nonblocking
adopt_as_one "4 ranks on 2 hosts, non-blocking and persistent"
hosts 120 2 threads
adopt_as_one "4 ranks on 2 hosts, threads"

options="--mca coll_gpuring_net ucx"
hosts 240 2 matrix -n $small -f 30 -s
adopt_as_one "4 ranks on 2 hosts, UCX"
check "the log says that UCX carries it" says '\[serves\] .*shm\+ucx'
options=

# A rank is killed or late: all other ranks get an error and continue with other communicators. (Fault
# tolerance is enabled, because otherwise btl/tcp of Open MPI 5.0 ends the job when a connection closes.)
for how in killed late; do
    options="--enable-recovery --mca mpi_ft_enable 1 --mca coll_gpuring_timeout 8"
    hosts 120 2 lost_rank $how
    others_go_on "a $how rank on another host" 3
done
options=

# Faults of the network. TCP repairs them, so this tests that no layer above relies on timing. bad_cable.c
# explains the numbers.
cat >"$work/bad" <<'END'
#!/bin/sh
ip -n "$1" link del "$3"
exec "$programs/bad_cable" "$1" 10.213.7.1 "$2" 10.213.7.2 "$3" $BAD
END
chmod +x "$work/bad"
export programs BAD TWO_HOSTS_SETUP="$work/bad"
for BAD in "5 4 0 0 0" "2 1 1 5 20"; do
    hosts 240 2 matrix -n 1,1025,30000 -f 60 -s
    # shellcheck disable=SC2086
    set -- $BAD
    adopt_as_one "4 ranks on 2 hosts, $1 ms +- $2 ms, $3 % lost, $4 % doubled, $5 % reordered"
done
finish
