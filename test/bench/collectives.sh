#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# collectives.sh BUILD FOLDER [RANKS]: measure bcast, reduce, allgather, reduce_scatter_block, alltoall
# and allreduce on host memory with coll/gpuring (host device), coll/tuned (Open MPI's default), coll/sm
# and MPICH. Their jobs alternate. Writes the output of each job and table.md to FOLDER.
#
#   ROUNDS       rounds (default: 5)
#   COLLECTIVES  the collectives to measure (default: all of these); also barrier, and ibarrier, ibcast,
#                iallreduce, barrier_init, bcast_init and allreduce_init
#   SIZES        first size, last size, factor (default: 8 16777216 8)
#   MPIRUN_ARGS  arguments of Open MPI's mpirun (default: --bind-to core for 2 ranks, otherwise
#                --bind-to none)
#   MPICH_CC     compiler of MPICH (default: mpicc.mpich; MPICH is left out if it is missing)
#   MPICH_RUN    mpiexec of MPICH (default: mpiexec.mpich)
#   FRESH        "0.2 fresh": inputs are written between the calls (see collectives.c)
#   AHEAD        a command in front of mpirun, such as chrt or nice
set -eu
usage='usage: collectives.sh BUILD FOLDER [RANKS]'
build=$(cd "${1:?$usage}" && pwd)
mkdir -p "${2:?$usage}"
folder=$(cd "$2" && pwd)
ranks=${3:-2}
here=$(cd "$(dirname "$0")" && pwd)
bind=none
[ "$ranks" -gt 2 ] || bind=core
: "${ROUNDS:=5}" "${SIZES:=8 16777216 8}" "${MPIRUN:=mpirun}" "${MPIRUN_ARGS:=--bind-to $bind}"
: "${COLLECTIVES:=bcast reduce allgather reduce_scatter_block alltoall allreduce}"
: "${MPICH_CC:=mpicc.mpich}" "${MPICH_RUN:=mpiexec.mpich}" "${AHEAD:=}" "${FRESH:=}"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1

rm -f "$folder"/*.txt
mpicc -O2 "$here/collectives.c" -o "$folder/collectives"
mpich=
# shellcheck disable=SC2086
if command -v "${MPICH_CC%% *}" >/dev/null && $MPICH_CC -O2 "$here/collectives.c" -o "$folder/collectives.mpich"; then
    mpich=mpich
fi

# job NAME COLLECTIVE ROUND
# shellcheck disable=SC2086
job() {
    case $1 in
    gpuring)
        set -- "$@" env OMPI_MCA_mca_base_component_path="$build/.libs:SYSTEM_DEFAULT:USER_DEFAULT" \
            "$MPIRUN" -n "$ranks" $MPIRUN_ARGS \
            --mca coll_gpuring_priority 100 --mca coll_gpuring_device host "$folder/collectives"
        ;;
    mpich) set -- "$@" "$MPICH_RUN" -n "$ranks" -bind-to "$bind" "$folder/collectives.mpich" ;;
    sm) set -- "$@" "$MPIRUN" -n "$ranks" $MPIRUN_ARGS --mca coll_sm_priority 100 "$folder/collectives" ;;
    *) set -- "$@" "$MPIRUN" -n "$ranks" $MPIRUN_ARGS "$folder/collectives" ;;
    esac
    name=$1 collective=$2 file=$folder/$1.$2.$3.txt
    shift 3
    $AHEAD "$@" "$collective" $SIZES $FRESH >"$file" 2>"$folder/log" ||
        { echo "$name does not run $collective:" && cat "$folder/log"; }
}

round=1
while [ "$round" -le "$ROUNDS" ]; do
    for collective in $COLLECTIVES; do
        for name in gpuring tuned sm $mpich; do
            job "$name" "$collective" "$round"
        done
    done
    echo "round $round of $ROUNDS done"
    round=$((round + 1))
done
python3 "$here/collectives.py" "$folder" "$ranks" >"$folder/table.md"
cat "$folder/table.md"
