#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# communicators.sh BUILD: measure the cost of a communicator that is used once, in microseconds, with the
# component (coll_gpuring_device=host) and without it, between processes of one node, and of two nodes
# through UCX. The jobs alternate. Prints medians of ROUNDS rounds (default: 5).
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

job() { # FILE NODES RANKS PRIORITY
    OMPI_MCA_mca_base_component_path=$MODULES:SYSTEM_DEFAULT:USER_DEFAULT "$MPIRUN" -n "$3" \
        --mca coll_gpuring_priority "$4" --mca coll_gpuring_device host --mca coll_gpuring_verbose 0 \
        "$here/../mpi/as_nodes.sh" "$2" "$3" "$program" >>"$work/$1"
}

median() { # FILE COLUMN
    cut -d ' ' -f "$2" "$work/$1" | sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'
}

echo "nodes ranks component  MPI_Comm_dup  first MPI_Allreduce  MPI_Comm_free  window"
for case in "1 2" "1 4" "2 2" "2 4"; do
    round=0
    while [ "$round" -lt "$ROUNDS" ]; do
        job "with $case" ${case} 90
        job "without $case" ${case} 0
        round=$((round + 1))
    done
    for which in with without; do
        printf '%5s %5s %9s  %12s  %19s  %13s  %6s\n' ${case} "$which" "$(median "$which $case" 1)" \
            "$(median "$which $case" 2)" "$(median "$which $case" 3)" "$(median "$which $case" 4)"
    done
done
