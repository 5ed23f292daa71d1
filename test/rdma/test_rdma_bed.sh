#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test the test bed itself: it passes on output and status, obeys its time limit, names missing tools, and
# always removes its files and processes.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"
bed=$(cd "$top_srcdir" && pwd)/test/rdma/run
mkdir "$work/left"
export TMPDIR="$work/left"

nothing_left() {
    [ -z "$(ls -A "$work/left")" ] && ! pgrep -f "$work/left" >"$work/out"
}

run 250 "$bed" -t 240 sh -c 'echo on "$(hostname)"; echo complaint >&2; ls /sys/class/infiniband; exit 7'
if [ "$status" -eq 77 ]; then
    skip "$(grep -m 1 SKIPPED "$work/out" | sed 's/.*SKIPPED, //')" "emulated machines"
    finish
fi
check "the exit status is the command's" test "$status" -eq 7
check "standard output comes through" says '^on vm0$'
check "the error output comes through" says '^complaint$'
check "the machine has an RDMA device" says '^rxe0$'
check "nothing is left behind" nothing_left

run 60 "$bed" -t 3 sleep 100
check "a command that takes too long: status 124" test "$status" -eq 124
check "it says so" says 'out of time \(3 s\)'
check "nothing is left behind after that" nothing_left

run 60 timeout -s INT 3 "$bed" -t 50 sleep 100
check "an interrupt ends it" test "$status" -eq 124
check "nothing is left behind after an interrupt" nothing_left
for moment in 0.1 0.3 0.6 1.0 1.5 2.1; do # and again, while it is leaving
    timeout -s INT -k 30 "$moment" "$bed" -t 50 sleep 100 >"$work/out" 2>&1 &
    sleep "$moment"
    for _ in 1 2 3 4 5 6 7 8; do
        pkill -INT -f "$bed -t 50" || true
        sleep 0.02
    done
    wait $! || true
done
check "nor after several at other moments" nothing_left

# Make a folder with all programs of this machine except QEMU.
mkdir "$work/bin"
for program in /usr/sbin/* /usr/bin/* /sbin/* /bin/*; do
    case $program in
    *qemu*) ;;
    *) ln -sf "$program" "$work/bin/" ;;
    esac
done
run 60 env PATH="$work/bin" bash -c 'sed "s|^PATH=.*|:|" "$1" >"$2/run" && exec bash "$2/run" true' \
    bash "$bed" "$work"
check "without QEMU: status 77" test "$status" -eq 77
check "it names what is missing and where it comes from" \
    says 'SKIPPED, missing: qemu-system-x86_64 \(apt-get install qemu-system-x86\)'
run 60 env GPURING_RDMA_KERNEL=/none.deb GPURING_RDMA_CACHE="$work/cache" "$bed" true
check "a kernel that is not there is named" says 'cannot read /none.deb'
check "that is a failure, no skip" test "$status" -eq 125
check "nothing is left behind after both" nothing_left
finish
