#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test the counts of kernels/machine_code.py on machine code with known instructions, which the nvcc of
# this build compiles. Then test that the kernels of this build do not spill registers.
set -u
: "${top_srcdir:?}" "${top_builddir:?}" "${NVCC:?}"
work=$(mktemp -d "${TMPDIR:-/tmp}/gpuring-code.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
tool=$top_srcdir/kernels/machine_code.py
verdict() { # STATUS NUMBER TEXT
    if [ "$1" -eq 0 ]; then
        echo "ok $2 - $3"
    else
        echo "not ok $2 - $3"
        sed 's/^/# /' "$work/out"
    fi
}

if ! command -v python3 >/dev/null 2>&1; then
    printf 'ok 1 - machine code # SKIP python3 is not installed\n1..1\n'
    exit 0
fi
architecture=$("$NVCC" --list-gpu-code | sed -n 's/^sm_\([0-9]*\)$/\1/p' | sort -n |
    awk '$1 >= 80 { print; exit }')
python3 "$tool" --prove "$NVCC" "$architecture" >"$work/out" 2>&1
verdict $? 1 "known instructions of sm_$architecture are counted"
# Check that the test can fail: use another opcode for stores.
sed 's/0x986: .store./0x187: "store"/' "$tool" >"$work/wrong.py"
! python3 "$work/wrong.py" --prove "$NVCC" "$architecture" >"$work/out" 2>&1 &&
    grep -q "store128: found {}" "$work/out"
verdict $? 2 "a wrong table is noticed"
python3 "$tool" "$tool" >"$work/out" 2>&1
[ $? -eq 1 ] && grep -q 'not a cubin' "$work/out"
verdict $? 3 "a file that is no cubin is refused"

# On 12.x, the kernels that fold any type spill a few registers (doc/results/kernels.md).
number=3
for cubin in "$top_builddir"/kernels/kernels.sm_*.cubin; do
    number=$((number + 1))
    name=${cubin##*/kernels.}
    case $name in sm_12*) may=_any_ ;; *) may=none ;; esac
    python3 "$tool" "$cubin" >"$work/all"
    awk -v may=$may '$7 > 0 && $1 !~ may' "$work/all" >"$work/out"
    [ -s "$work/all" ] && [ ! -s "$work/out" ]
    verdict $? $number "no kernel in $name accesses local memory"
done
echo "1..$number"
