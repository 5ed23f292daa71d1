#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# The GPU suite, tried on the stand-in driver with the programs of this build.
set -u
: "${top_srcdir:?}" "${top_builddir:?}"
work=$(mktemp -d "${TMPDIR:-/tmp}/gpuring-suite.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

sh "$top_srcdir/test/gpu/run.sh" --dry-run --build "$top_builddir" --work "$work" >"$work/out" 2>&1
status=$?
checks=$(grep -c '^\(not \)\{0,1\}ok ' "$work/out")
grep -v '^1\.\.' "$work/out"
verdict() { # STATUS TEXT
    checks=$((checks + 1))
    if [ "$1" -eq 0 ]; then echo "ok $checks - $2"; else echo "not ok $checks - $2"; fi
}
[ "$status" -eq 0 ]
verdict $? "the dry run ends with 0"
grep -q '^# DRY RUN ON THE STAND-IN DRIVER: NO RESULTS OF A GPU' "$work/report.md"
verdict $? "its report says that it holds no results"
grep -q '^| 8 | 65536 | ' "$work/report.md"
verdict $? "its report has the tables"
sh "$top_srcdir/test/gpu/run.sh" --frobnicate 2>"$work/usage"
[ $? -eq 2 ] && grep -q -- '--debs' "$work/usage"
verdict $? "an unknown option is answered with what there is"
echo "1..$checks"
