#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test verbs on emulated machines (test/rdma/run). The other tests of this folder source this script. The
# name of the test selects the script for the emulated machines and their number. If the machines cannot
# be started, the test is skipped with a reason.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"
top_srcdir=$(cd "$top_srcdir" && pwd)
top_builddir=$(cd "$top_builddir" && pwd)
export top_srcdir top_builddir MPIRUN

machines() { # NAME RUN-OPTIONS...: run NAME.sh inside and take over its checks
    name=$1
    shift
    # This takes two or three minutes, or longer if the real machine is busy.
    run 1220 "$top_srcdir/test/rdma/run" -t 1200 -e top_srcdir -e top_builddir -e MPIRUN "$@" -- \
        sh "$top_srcdir/test/rdma/$name.sh"
    if [ "$status" -eq 77 ]; then
        skip "$(grep -m 1 SKIPPED "$work/out" | sed 's/.*SKIPPED, //')" "$name"
        return
    fi
    adopt "$name"
}

if ! grep -q 'GPURING_HAVE_VERBS 1' "$top_builddir/gpuring_config.h"; then
    skip "built without verbs" "verbs on emulated machines"
    finish
fi
case $0 in
*two*) machines two_machines -n 2 ;;
*) machines one_machine -n 1 -d 1 -x dummy0 ;;
esac
finish
