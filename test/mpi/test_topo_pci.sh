#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test the component topo/pci: reordered communicators follow the rules of MPI, and neighbours are placed
# close to each other. topo_pci_hostid simulates several hosts on one machine.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

# as_hosts RANKS HOST-OF-RANK ARGS...: run topo_pci_check. HOST-OF-RANK is a shell arithmetic expression for
# the number of a rank's host.
as_hosts() {
    ranks=$1 place=$2
    shift 2
    # shellcheck disable=SC2016
    run 120 "$MPIRUN" -n "$ranks" --mca topo_pci_priority "${priority-90}" sh -c '
        r=$OMPI_COMM_WORLD_RANK
        OMPI_MCA_topo_pci_hostid=h$(('"$place"'))
        export OMPI_MCA_topo_pci_hostid
        exec "$@"' sh "$programs/topo_pci_check" "$@"
}

# neighbours TEXT BEFORE AFTER: check that the last run succeeded, with these numbers of neighbours on other
# hosts.
neighbours() {
    if [ "$status" -eq 0 ] && says "neighbours on other hosts: $2 $3\$"; then
        ok "$1: $2 before, $3 after"
    else
        not_ok "$1: wanted $2 before and $3 after (status $status)"
    fi
}

# Rows (or round-robin ranks) become blocks. The figures are those of the best possible placement.
as_hosts 16 'r / 4' cart 4,4 0,0
neighbours "4x4 grid on 4 hosts of 4" 24 16
as_hosts 16 'r % 4' cart 4,4 0,0
neighbours "4x4 grid, ranks dealt out in turn" 24 16
as_hosts 8 'r / 2' cart 2,2,2 0,0,0
neighbours "cube on 4 hosts of 2" 16 16
as_hosts 8 'r % 2' cart 8 0
neighbours "chain of 8 dealt out over 2 hosts" 14 2
as_hosts 8 'r % 2' cart 8 1
neighbours "ring of 8 dealt out over 2 hosts" 16 4
as_hosts 12 'r % 3' cart 3,4 1,1
neighbours "3x4 torus dealt out over 3 hosts" 42 24

# A grid that is smaller than the communicator uses whole hosts. The other ranks get MPI_COMM_NULL.
as_hosts 6 'r % 3' cart 2,2 0,0
neighbours "2x2 grid on 2 of 3 hosts of 2" 8 4

# Hosts of different sizes, odd numbers, one host, one rank.
as_hosts 7 'r / 3' cart 7 1
neighbours "ring of 7 on hosts of 3, 3 and 1" 6 6
as_hosts 9 'r < 5 ? 0 : 1' cart 3,3 0,1
check "3x3 grid on hosts of 5 and 4" [ "$status" -eq 0 ]
as_hosts 4 '0' cart 2,2 1,1
neighbours "one host" 0 0
as_hosts 1 'r' cart 1 0
neighbours "one rank" 0 0

# Graphs: the nodes of two components are distributed over the hosts, and then each component gets one host.
as_hosts 8 'r / 4' graph 6
check "graph on 2 hosts of 4" [ "$status" -eq 0 ]
for seed in 1 2 3 4 5 6; do
    as_hosts 9 'r / 3' graph $seed
    check "random graph $seed on 3 hosts: same neighbours, same order, right data" [ "$status" -eq 0 ]
done

# With priority 0 the component does nothing, and treematch or the base serves.
priority=0 as_hosts 16 'r / 4' cart 4,4 0,0
neighbours "off by default" 24 24

# Parameters are listed, and wrong values are reported. (This uses ompi_info, because mpirun of 4.1.4 loses one
# in five messages of a job.)
run 60 "$OMPI_INFO" --param topo pci --level 9
for name in priority domain verbose hostid; do
    check "ompi_info lists topo_pci_$name" says "topo_pci_$name"
done
for bad in "priority abc" "priority 101" "domain -2" "verbose x"; do
    # shellcheck disable=SC2086
    set -- $bad
    run 60 env "OMPI_MCA_topo_pci_$1=$2" "$OMPI_INFO" --param topo pci --level 9
    grep -A 4 'invalid value' "$work/out" >"$work/text"
    mv "$work/text" "$work/out"
    check "topo_pci_$1=$2 is refused by name" says "topo_pci_$1"
done

# The report at verbose 1.
run 60 "$MPIRUN" -n 4 --mca topo_pci_priority 90 --mca topo_pci_verbose 1 \
    "$programs/topo_pci_check" cart 2,2 0,0
check "verbose 1 reports the mapping" says '\[mapping\] grid 2x2 on 4 ranks'

finish
