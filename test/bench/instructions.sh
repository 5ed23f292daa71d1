#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# instructions.sh BUILD [RANKS]: count the instructions of calls of 8 bytes on host memory, with
# coll_gpuring_device=host and callgrind. A rank that does not have to wait for others is counted. Each call
# follows a barrier, or with REPEAT=repeat another call of the same kind. Prints the mean number of
# instructions per call: in the component, and in Open MPI and the C library.
#
#   CALLS  calls and ranks to count (default: the list below; rank 0 is the root of a bcast and a reduce)
#   FILES  folder for the files of callgrind, which callgrind_annotate reads (default: they are deleted)
#   MCA    further arguments of mpirun, such as --mca coll_gpuring_priority 0
set -eu
build=$(cd "${1:?usage: instructions.sh BUILD [RANKS]}" && pwd)
ranks=${2-2}
: "${CALLS:=bcast:0 bcast:1 allreduce:1 barrier:1 reduce:0 reduce:1 ibcast:1 iallreduce:1 allreduce_init:1}"
: "${MPIRUN:=mpirun}" "${REPEAT:=}" "${MCA:=}"
make -C "$build" test/bench/instructions >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_mca_base_component_path="$build/.libs:SYSTEM_DEFAULT:USER_DEFAULT"
count=100
printf '%-16s %4s %10s %10s\n' call rank component others
for case in $CALLS; do
    call=${case%:*} rank=${case#*:} file=${FILES:-$work}/$call.$rank
    # shellcheck disable=SC2086
    "$MPIRUN" -n "$ranks" --bind-to none --mca coll_gpuring_priority 90 --mca coll_gpuring_device host $MCA \
        valgrind --tool=callgrind --toggle-collect=counted --dump-instr=yes \
        --callgrind-out-file="$file.%q{OMPI_COMM_WORLD_RANK}" \
        "$build/test/bench/instructions" "$call" $count "$rank" $REPEAT >"$work/log" 2>&1 ||
        { cat "$work/log" && exit 1; }
    # Add up the instructions of each shared object. Lines after `calls=` count those of the callee again.
    awk -v call="$call" -v rank="$rank" -v n=$count '
        /^c?ob=/ { id = $1; sub(/^c?ob=/, "", id); if (NF > 1) name[id] = $2; if (/^ob/) object = name[id] }
        /^calls=/ { getline; next }
        /^[-+*0-9][^=]* [0-9]+$/ { count[object ~ /mca_coll_gpuring/ ? "ours" : "others"] += $NF }
        END { printf "%-16s %4d %10.0f %10.0f\n", call, rank, count["ours"] / n, count["others"] / n }
    ' "$file.$rank"
done
