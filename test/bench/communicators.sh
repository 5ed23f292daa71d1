#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# communicators.sh BUILD: measure the cost of a communicator that is used once, in microseconds, between
# processes of one node, and of two nodes, on the host device. The jobs alternate:
#   reused      the ranks are connected in the first call, and use the connections of a freed communicator
#   connected   the same with coll_gpuring_pool_size=0: they make connections
#   elsewhere   the default: other components run the first calls
#   without     without the component
# Prints medians of ROUNDS rounds (default: 5).
set -eu
build=$(cd "${1:?usage: communicators.sh BUILD}" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
: "${ROUNDS:=5}" "${MPIRUN:=mpirun}" "${MODULES:=$build/.libs}"
program=$build/test/bench/communicators
[ -x "$program" ] || make -C "$build" test/bench/communicators >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1

job() { # FILE NODES RANKS PRIORITY CONNECT_AFTER POOL_SIZE
    OMPI_MCA_mca_base_component_path=$MODULES:SYSTEM_DEFAULT:USER_DEFAULT "$MPIRUN" -n "$3" \
        --mca coll_gpuring_priority "$4" --mca coll_gpuring_device host --mca coll_gpuring_verbose 0 \
        --mca coll_gpuring_connect_after "$5" --mca coll_gpuring_pool_size "$6" \
        "$here/../mpi/as_nodes.sh" "$2" "$3" "$program" >>"$work/$1"
}

median() { # FILE COLUMN
    cut -d ' ' -f "$2" "$work/$1" | sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'
}

echo "nodes ranks component  MPI_Comm_dup  first MPI_Allreduce  MPI_Comm_free  window"
for case in "1 2" "1 8" "2 2" "2 8"; do
    round=0
    while [ "$round" -lt "$ROUNDS" ]; do
        job "reused $case" ${case} 90 0 8
        job "connected $case" ${case} 90 0 0
        job "elsewhere $case" ${case} 90 64 8
        job "without $case" ${case} 0 64 8
        round=$((round + 1))
    done
    for which in reused connected elsewhere without; do
        printf '%5s %5s %9s  %12s  %19s  %13s  %6s\n' ${case} "$which" "$(median "$which $case" 1)" \
            "$(median "$which $case" 2)" "$(median "$which $case" 3)" "$(median "$which $case" 4)"
    done
done
