# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
# shellcheck shell=sh
#
# Functions for the scripts that run on the emulated machines, which source this file.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:?run this by one of test/rdma/test_*.sh}/test/mpi/lib.sh"
rdma_programs=$top_builddir/test/rdma
# shellcheck disable=SC2034
pair=$rdma_programs/net_pair
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self,vader OMPI_MCA_coll_gpuring_priority=90
export OMPI_MCA_coll_gpuring_device=host OMPI_MCA_coll_gpuring_net=verbs
export OMPI_MCA_coll_gpuring_verbose=1 OMPI_MCA_coll_gpuring_connect_after=0

# Print the number of packets that the machine's first device has sent.
packets() { cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts; }

# each RANKS TEXT PATTERN: check that RANKS ranks have printed an "ok" line that matches PATTERN.
each() {
    check "$2" test "$(grep -Ec -- "^ok - rank [0-9]*: $3" "$work/out")" -eq "$1"
}

# The output of steady on a rank whose communicator has failed.
# shellcheck disable=SC2034
broken='an error after [1-9][0-9]* operations'

# Run steady on HOSTS, and run ACTION (a command) after the first allreduces.
under_way() { # "SECONDS [COUNT [PAUSE-MS]]" HOSTS ACTION [OPTIONS-OF-MPIRUN...]
    steady=$1 hosts=$2 action=$3
    shift 3
    # shellcheck disable=SC2086
    timeout -k 10 300 "$MPIRUN" --host "$hosts" "$@" "$rdma_programs/steady" $steady \
        >"$work/out" 2>&1 </dev/null &
    job=$!
    for _ in $(seq 1800); do
        ! says '^# data flow' || break
        sleep 0.1
    done
    eval "$action"
    status=0
    wait $job || status=$?
}

# Run net_pair with one process on this machine and one on vm1. $work/out has the output of both.
pairs() { # SECONDS OPTIONS...
    limit=$1
    shift
    timeout -k 5 "$limit" on-host vm1 "$pair --net verbs --to vm0:7000 $*" >"$work/second" 2>&1 &
    run "$limit" "$pair" --net verbs --serve 7000 "$@"
    wait
    cat "$work/second" >>"$work/out"
}
