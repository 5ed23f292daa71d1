#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# compare.sh BUILD FOLDER [RANKS [gpuring-perf options...]]: compare coll/gpuring (host device) with stock
# Open MPI on this machine. Their runs alternate over several rounds, so that a change of the machine's
# load affects both. Writes to FOLDER the JSON of every run, table.md for doc/results (medians over the
# rounds, or minima with BASE, and ratios) and, if gnuplot is installed, compare.svg and compare.png.
#
#   ROUNDS      rounds (default: 5)
#   STOCK       stock components to try, each alone at top priority; each size is compared with the
#               best of them (default: tuned basic libnbc adapt sm han xhc, as far as they exist)
#   BASE        another build of coll/gpuring to compare with instead, for example an earlier commit
#   MPIRUN      the mpirun to use
#   MPIRUN_ARGS its arguments (default: --bind-to none)
set -eu
usage='usage: compare.sh BUILD FOLDER [RANKS [gpuring-perf options...]]'
build=$(cd "${1:?$usage}" && pwd)
mkdir -p "${2:?$usage}"
folder=$(cd "$2" && pwd)
shift 2
ranks=2
if [ $# -gt 0 ]; then
    ranks=$1
    shift
fi
here=$(cd "$(dirname "$0")" && pwd)
perf=$build/tools/gpuring-perf
: "${ROUNDS:=5}" "${MPIRUN:=mpirun}" "${MPIRUN_ARGS:=--bind-to none}"
: "${STOCK:=tuned basic libnbc adapt sm han xhc}"
[ -x "$perf" ] || { echo "compare.sh: there is no $perf; build first" && exit 1; }
[ $# -gt 0 ] || set -- -b 8 -e 64M -f 2

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle="${OMPI_MCA_mpi_yield_when_idle:-0}"

# Stock components that this Open MPI has.
available=
[ -z "${BASE:-}" ] || STOCK=
for component in $STOCK; do
    if ompi_info --param coll "$component" --level 9 2>/dev/null |
        grep -q "MCA coll $component:"; then
        available="$available $component"
    fi
done

# measure NAME ROUND OPTIONS-OF-MPIRUN... -- OPTIONS-OF-PERF...
measure() {
    name=$1 round=$2
    shift 2
    file=$folder/$name.$round.json
    # shellcheck disable=SC2086
    if "$MPIRUN" -n "$ranks" $MPIRUN_ARGS "$@" -j "$file" >"$folder/log" 2>&1; then
        echo "round $round: $name"
    else
        rm -f "$file"
        echo "round $round: $name does not run this (log: $folder/$name.log)"
        mv "$folder/log" "$folder/$name.log"
    fi
}

# measure_build NAME ROUND BUILD OPTIONS-OF-PERF...: measure coll/gpuring of that build.
measure_build() {
    name=$1 round=$2 from=$3
    shift 3
    OMPI_MCA_mca_base_component_path="$from/.libs:SYSTEM_DEFAULT:USER_DEFAULT" \
        measure "$name" "$round" --mca coll_gpuring_priority 100 --mca coll_gpuring_device host \
        "$from/tools/gpuring-perf" "$@"
}

rm -f "$folder"/*.json
round=1
while [ "$round" -le "$ROUNDS" ]; do
    if [ -n "${BASE:-}" ]; then
        measure_build base "$round" "$BASE" "$@"
    else
        measure default "$round" "$perf" "$@"
    fi
    for component in $available; do
        measure "$component" "$round" --mca "coll_${component}_priority" 100 "$perf" "$@"
    done
    measure_build gpuring "$round" "$build" "$@"
    round=$((round + 1))
done

python3 "$here/compare.py" "$folder" "gpuring-perf $*, $ranks ranks, $ROUNDS rounds" \
    >"$folder/table.md"
cat "$folder/table.md"

if command -v gnuplot >/dev/null 2>&1; then
    for terminal in "svg size 900,600:svg" "pngcairo size 900,600:png"; do
        gnuplot -e "set terminal ${terminal%:*}" -e "set output '$folder/compare.${terminal##*:}'" \
            -e "data='$folder/compare.dat'" "$here/compare.gp" || {
            echo "compare.sh: this gnuplot cannot draw ${terminal##*:}"
            rm -f "$folder/compare.${terminal##*:}"
        }
    done
else
    echo "compare.sh: no plot: gnuplot is not installed"
fi
rm -f "$folder/log"
