#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Two real hosts (network namespaces with addresses and host names of their own), one mpirun over
# both: nothing is simulated by parameters, ranks find out themselves who is where.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

hosts() { # SECONDS RANKS-PER-HOST PROGRAM ARGS...
    limit=$1 each=$2 program=$3
    shift 3
    run "$limit" "$top_srcdir/test/mpi/two_hosts.sh" -n $((2 * each)) \
        --host "gpra:$each,gprb:$each" --map-by slot --mca pml ob1 --mca btl self,vader,tcp \
        -x OMPI_MCA_mca_base_component_path --mca coll_gpuring_priority 90 \
        --mca coll_gpuring_device host --mca coll_gpuring_verbose 1 "$programs/$program" "$@"
}

hosts 120 1 matrix -n 0,1,2,3,1023,1024,1025 -s
if [ "$status" -eq 77 ]; then
    skip "$(tail -n 1 "$work/out")" "two hosts"
    finish
fi
adopt_as_one "2 ranks on 2 hosts: all types and operations"
check "the log says that the network carries it" says 'gpuring INFO .*(ucx|verbs)'
hosts 120 2 matrix -n 0,1,2,3,1023,1024,1025 -f 2 -s
adopt_as_one "4 ranks on 2 hosts"
check "the log says shared memory inside, network outside" says 'gpuring INFO .*shm\+(ucx|verbs)'
hosts 120 2 matrix -n 1048579 -f 60 -s
adopt_as_one "4 ranks on 2 hosts, 1 Mi + 3 elements"
hosts 120 2 nonblocking
adopt_as_one "4 ranks on 2 hosts, non-blocking and persistent"
hosts 120 2 threads
adopt_as_one "4 ranks on 2 hosts, threads"

finish
