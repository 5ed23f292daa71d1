#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# quickstart.sh: install missing packages (as root, on Debian), build below build/quickstart, and run
# MPI_Allreduce through coll/gpuring on this machine's CPU, with four processes on two simulated nodes.
# The build itself is not installed. The exit status is 0 if every result was right and coll/gpuring
# served every call.
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=test/setup.sh
. test/setup.sh

install_packages build

build=build/quickstart
mkdir -p "$build"
# run TEXT COMMAND...: run a command with its output in the log. Show the last line of the log every 10
# seconds, and its end if the command fails.
run() {
    say "$1 (log: $build/log)"
    shift
    "$@" >"$build/log" 2>&1 &
    command=$! waited=0
    while kill -0 "$command" 2>/dev/null; do
        sleep 1
        waited=$((waited + 1))
        [ $((waited % 10)) -ne 0 ] || echo "   $waited s: $(tail -n 1 "$build/log")"
    done
    if ! wait "$command"; then
        tail -n 40 "$build/log"
        echo "FAILED: $* (the whole log: $build/log)"
        exit 1
    fi
}

run "./autogen.sh: creating configure" ./autogen.sh
# The demonstration runs on the CPU. Without kernels the build is a minute faster.
[ -f "$build/Makefile" ] || run "../../configure --without-cuda in $build: looking for Open MPI and libraries" \
    sh -c "cd $build && ../../configure --without-cuda"
run "make -j $jobs: compiling, some minutes on two cores" make -C "$build" -j "$jobs"

mpi_anywhere
mpi_components "$PWD/$build/.libs" "$PWD/$build/no-components"
say "4 processes as two nodes: MPI_Allreduce through coll/gpuring (host device)"
output=$build/quickstart.txt
status=0
mpirun -n 4 --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
    test/mpi/as_nodes.sh 2 4 "$build/tools/gpuring-perf" -b 8 -e 4M -f 4 -n 20 "$@" \
    >"$output" || status=$?
cat "$output"
if [ "$status" -ne 0 ]; then
    echo "FAILED: gpuring-perf ended with status $status"
    exit 1
fi
if ! grep -q '^# coll/gpuring served \([0-9]*\) of \1 timed calls' "$output"; then
    echo "FAILED: coll/gpuring did not serve every call (coll_gpuring_verbose=1 prints the reason)"
    exit 1
fi
say "done. To use it without root:
   ./configure --prefix=\$HOME/.local && make && make install
   ~/.local/bin/gpuring-run -n 4 ./your-program                                    GPU buffers
   ~/.local/bin/gpuring-run -n 4 --mca coll_gpuring_device host ./your-program     host buffers"
