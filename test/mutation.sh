#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# mutation.sh BUILD: are the tests strong? Builds the component from copies of the sources in which
# the host executor spoils one element of every result, and runs the correctness tests of BUILD
# against them: each must fail. The control, an unspoiled copy, must pass. Prints TAP.
set -u
cd "$(dirname "$0")/.." || exit 1
top_srcdir=$PWD
top_builddir=$(cd "${1:?mutation.sh BUILD}" && pwd) || exit 1
copy=$top_builddir/mutation
rm -rf "$copy"
mkdir -p "$copy/source" "$copy/build" || exit 1
# shellcheck source=test/mpi/lib.sh
. test/mpi/lib.sh
export OMPI_MCA_mca_base_component_path="$copy/build/.libs:SYSTEM_DEFAULT:USER_DEFAULT"

target=kernels/exec_host.c
line='return lanes_run(&x, work);'
perf=$top_builddir/tools/gpuring-perf

# The component alone, from the copy.
build() {
    make -C "$copy/build" -j "$(nproc)" mca_coll_gpuring.la >"$work/out" 2>&1
}

# spoil CONDITION PLACE: after a finished work, change the lowest bit of the byte at PLACE of the
# output if CONDITION; `end` is the number of bytes.
spoil() {
    awk -v line="$line" -v condition="$1" -v place="$2" '
        index($0, line) {
            print "    int result = lanes_run(&x, work);"
            print "    uint64_t end = 0;"
            print "    for (uint32_t i = 0; i < work->nlanes; i++) {"
            print "        uint64_t e = (work->lanes[i].first + work->lanes[i].count) * type->size;"
            print "        end = e > end ? e : end;"
            print "    }"
            print "    if (result == GPURING_OK && (" condition ")) {"
            print "        ((uint8_t *) work->output)[" place "] ^= 1;"
            print "    }"
            print "    return result;"
            next
        }
        { print }' "$top_srcdir/$target" >"$copy/source/$target"
    ! cmp -s "$top_srcdir/$target" "$copy/source/$target"
}

# A test of each served collective, as "NAME: COMMAND": seconds long, and past 64 KiB. None of them may
# create a communicator: that takes an allreduce, and a spoiled one makes Open MPI itself hang.
cases() {
    echo "MPI_Allreduce, test/mpi/matrix: $programs/matrix -n 1025,40000 -t MPI_INT -s"
    echo "MPI_Allreduce, gpuring-perf: $perf -c allreduce -b 1K -e 1M -f 16 -n 2"
    echo "MPI_Iallreduce, gpuring-perf: $perf -c iallreduce -b 1K -e 1M -f 16 -n 2"
    echo "persistent allreduce, gpuring-perf: $perf -c allreduce_init -b 1K -e 1M -f 16 -n 2"
}

# try VARIANT WANTED(0: must pass, 1: must fail): all cases on two ranks.
try() {
    cases >"$work/cases"
    while IFS= read -r case <&3; do
        # shellcheck disable=SC2086
        run 120 "$MPIRUN" -n 2 --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
            ${case#*: }
        text="$1: ${case%%: *}"
        if [ "$2" -eq 0 ]; then
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

if ! grep -qF "$line" "$target"; then
    echo "Bail out! $target has no line '$line': mend this script"
    exit 1
fi
tar -cf - --exclude=./build --exclude=./.git . | tar -xf - -C "$copy/source" || exit 1
(cd "$copy/build" && ../source/configure -q CFLAGS='-O1' --without-cuda --without-verbs) \
    >"$work/out" 2>&1 || { cat "$work/out" && exit 1; }

build || { tail "$work/out" && exit 1; }
try "unspoiled" 0
for variant in first last beyond; do
    case $variant in
    first) condition='end > 0' place=0 ;;
    last) condition='end > 0' place='end - type->size' ;;
    *) condition='end > 65536 + 64' place=65544 ;;
    esac
    spoil "$condition" "$place" && build || { tail "$work/out" && exit 1; }
    try "wrong element ($variant)" 1
done
rm -rf "$copy"
finish
