#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# mutation.sh BUILD: are the tests strong? Runs the correctness tests of BUILD on a component whose
# host executor changes one bit of every result (test/mutation.c, linked in front of it): each must
# fail. The control, the same component without a mutation, must pass. Prints TAP.
set -u
cd "$(dirname "$0")/.." || exit 1
top_srcdir=$PWD
top_builddir=$(cd "${1:?mutation.sh BUILD}" && pwd) || exit 1
# shellcheck source=test/mpi/lib.sh
. test/mpi/lib.sh
mutated=$top_builddir/test/mutation/.libs
perf=$top_builddir/tools/gpuring-perf
make -C "$top_builddir" -j "$(nproc)" test/mutation/mca_coll_gpuring.la tools/gpuring-perf \
    test/mpi/matrix >"$work/out" 2>&1 || { tail "$work/out" && exit 1; }
export OMPI_MCA_mca_base_component_path="$mutated:SYSTEM_DEFAULT:USER_DEFAULT"

# A test of each served collective, as "NAME: COMMAND": seconds long, and past 64 KiB. None of them may
# create a communicator: that takes an allreduce, and a spoiled one makes Open MPI itself hang.
cases() {
    echo "MPI_Allreduce, test/mpi/matrix: $programs/matrix -n 1025,40000 -t MPI_INT -s"
    echo "MPI_Allreduce, gpuring-perf: $perf -c allreduce -b 1K -e 1M -f 16 -n 2"
    echo "MPI_Iallreduce, gpuring-perf: $perf -c iallreduce -b 1K -e 1M -f 16 -n 2"
    echo "persistent allreduce, gpuring-perf: $perf -c allreduce_init -b 1K -e 1M -f 16 -n 2"
}

# try TEXT WANTED(pass or fail): all cases on two ranks.
try() {
    cases >"$work/cases"
    while IFS= read -r case <&3; do
        # shellcheck disable=SC2086
        run 120 "$MPIRUN" -n 2 --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
            ${case#*: }
        text="$1: ${case%%: *}"
        if [ "$2" = pass ]; then
            check "$text passes" [ "$status" -eq 0 ]
        elif [ "$status" -eq 124 ]; then
            not_ok "$text must fail, not run out of time"
        elif [ "$status" -ne 0 ]; then
            ok "$text fails"
        else
            check "$text must fail" grep -q '^not ok' "$work/out"
        fi
    done 3<"$work/cases"
}

try "no mutation" pass
for mutation in first last beyond; do
    export GPURING_MUTATION=$mutation
    try "wrong element ($mutation)" fail
done
finish
