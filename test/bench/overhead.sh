#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# overhead.sh BUILD [RANKS [COLLECTIVE]]: measure the time that an idle component adds to each call, in
# nanoseconds. Measures MPI_Allreduce (or COLLECTIVE: allgather, bcast, sendrecv) of one int
#
#   - without the component
#   - with coll_gpuring_priority=0
#   - with priority 90 and device=auto in a process without the CUDA driver, where the component checks
#     and delegates each call (a BUILD without CUDA makes no modules in this case)
#   - for an allreduce that is delegated to the previous component ("delegated": device=host,
#     algorithm=previous)
#
# The runs alternate. Prints the medians and their differences. Not a test, because the figures depend on
# the machine.
set -eu
build=$(cd "${1:?usage: overhead.sh BUILD [RANKS [COLLECTIVE]]}" && pwd)
ranks=${2-2}
collective=${3-allreduce}
: "${ROUNDS:=7}" "${MPIRUN:=mpirun}"
program=$build/test/bench/overhead
[ -x "$program" ] || make -C "$build" test/bench/overhead >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1
ours="$build/.libs:SYSTEM_DEFAULT:USER_DEFAULT"
round=0
while [ "$round" -lt "$ROUNDS" ]; do
    "$MPIRUN" -n "$ranks" "$program" "$collective" >>"$work/absent"
    OMPI_MCA_mca_base_component_path=$ours "$MPIRUN" -n "$ranks" \
        --mca coll_gpuring_priority 0 "$program" "$collective" >>"$work/off"
    OMPI_MCA_mca_base_component_path=$ours "$MPIRUN" -n "$ranks" \
        --mca coll_gpuring_priority 90 --mca coll_gpuring_device auto "$program" "$collective" >>"$work/idle"
    OMPI_MCA_mca_base_component_path=$ours "$MPIRUN" -n "$ranks" \
        --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
        --mca coll_gpuring_algorithm previous "$program" "$collective" >>"$work/delegated"
    round=$((round + 1))
done
median() { sort -n "$1" | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }
absent=$(median "$work/absent")
for case in off idle delegated; do
    awk -v name="$case" -v a="$absent" -v b="$(median "$work/$case")" \
        'BEGIN {printf "%-9s  %.1f ns a call, %+.1f ns against %.1f ns without the component\n", name, b, b - a, a}'
done
