#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# mutation.sh BUILD: check that the tests detect wrong results. Runs the correctness tests of BUILD on a
# component whose host executor flips one bit of every result (a wrapper, test/mutation.c): each test
# must fail. The control, the same component without a mutation, must pass. With
# coll_gpuring_check=plans, wrong plans must be refused. Prints TAP.
set -u
cd "$(dirname "$0")/.." || exit 1
top_srcdir=$PWD
top_builddir=$(cd "${1:?mutation.sh BUILD}" && pwd) || exit 1
# shellcheck source=test/mpi/lib.sh
. test/mpi/lib.sh
mutated=$top_builddir/test/mutation/.libs
perf=$top_builddir/tools/gpuring-perf
make -C "$top_builddir" -j "$(nproc)" test/mutation/mca_coll_gpuring.la tools/gpuring-perf \
    test/mpi/matrix test/mpi/native >"$work/out" 2>&1 || { tail "$work/out" && exit 1; }
export OMPI_MCA_mca_base_component_path="$mutated:SYSTEM_DEFAULT:USER_DEFAULT"

# Print tests of each served collective as "NAME: COMMAND". They take seconds and have results beyond
# 64 KiB. None of them may create a communicator, because that uses an allreduce, and Open MPI itself
# hangs if its result is wrong.
served="bcast reduce scan exscan reduce_scatter_block reduce_scatter allgather allgatherv gather gatherv
    scatter scatterv alltoall alltoallv"
cases() {
    echo "MPI_Allreduce, test/mpi/matrix: $programs/matrix -n 1025,40000 -t MPI_INT -s"
    for collective in allreduce iallreduce allreduce_init; do
        echo "$collective, gpuring-perf: $perf -c $collective -b 1K -e 1M -f 16 -n 2"
    done
    [ "${GPURING_MUTATION:-first}" = first ] || return
    for collective in $served; do
        case $collective in bcast | reduce | gather* | scatter*) root='-r 1' ;; *) root='' ;; esac
        echo "$collective, gpuring-perf: $perf -c $collective -b 1K -e 4K -n 2 $root --settle 0"
    done
}

# try TEXT WANTED: run all cases on two ranks; WANTED is pass or fail.
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

# Run test/mpi/native, which tests each form of each collective: every line must fail. Not used for
# "beyond", because single calls may be too small. Rank 0 prints the lines. The output of each rank is
# kept in a separate file, so that lines of other ranks cannot be mixed in. An algorithm is selected, because
# persistent calls with a root are otherwise left to another component.
try_forms() { # TEXT
    rm -rf "$work/forms"
    run 120 "$MPIRUN" -n 2 --output-filename "$work/forms" --mca coll_gpuring_priority 90 \
        --mca coll_gpuring_device host --mca coll_gpuring_algorithm direct "$programs/native"
    find "$work/forms" -path '*rank.0/stdout' -exec cat {} + >"$work/out"
    for collective in allreduce $served; do
        for form in blocking non-blocking persistent; do
            check "$1: $form $collective, test/mpi/native, must fail" \
                grep -q "not ok [0-9]* - $form $collective: [0-9]* combinations" "$work/out"
        done
    done
}

try "no mutation" pass
for mutation in first last beyond; do
    export GPURING_MUTATION=$mutation
    try "wrong element ($mutation)" fail
    try_forms "wrong element ($mutation)"
done

# Wrong plans are refused before they run.
export GPURING_MUTATION=plan
for collective in $served; do
    run 120 "$MPIRUN" -n 2 --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
        --mca coll_gpuring_check plans "$perf" -c "$collective" -b 1K -e 1K -n 2 --settle 0
    check "a wrong plan of $collective is refused" says '\[bad-plan\] .*MPI_'
    check "and its calls fail" test "$status" -ne 0 -a "$status" -ne 124
done
finish
