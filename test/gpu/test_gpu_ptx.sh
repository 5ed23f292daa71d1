#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Run the kernels that nvcc has compiled in the PTX interpreter of the stand-in driver (test/ptx/ptx.h). No
# result here is from a GPU. To run it by hand with another order of threads:
#
#   GPURING_STANDIN_PTX_SEED=N top_srcdir=.. top_builddir=. sh ../test/gpu/test_gpu_ptx.sh
set -u
: "${top_srcdir:?}" "${top_builddir:?}"
ptx=$top_builddir/test/ptx/kernels.ptx
work=$(mktemp -d "${TMPDIR:-/tmp}/gpuring-ptx.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
checks=0

verdict() { # STATUS TEXT
    checks=$((checks + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $checks - $2"
    else
        echo "not ok $checks - $2"
        grep -v '^ok ' "$work/out" | head -n 40 | sed 's/^/# /'
    fi
}

# lanes PTX SECONDS PART [--collectives]: run a part of gpu_lanes with its output in $work/out.
lanes() {
    ptx_used=$1 seconds=$2 lanes_part=$3
    shift 3
    LD_LIBRARY_PATH="$top_builddir/test/standin/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
        GPURING_STANDIN_PTX=$ptx_used GPURING_STANDIN_PROTECT=0 \
        timeout -k 10 "$seconds" "$top_builddir/test/gpu/gpu_lanes" --part "$lanes_part" "$@" \
        >"$work/out" 2>&1
}

# mutant TEXT PATTERN AWK [PART [--collectives]]: change the kernels with an awk program, and check that
# they fail with output that matches PATTERN.
mutant() {
    awk "$3" "$ptx" >"$work/mutant.ptx"
    if cmp -s "$ptx" "$work/mutant.ptx"; then
        echo "nothing was changed" >"$work/out"
        verdict 1 "$1"
        return
    fi
    mutant_text=$1 mutant_says=$2
    shift 3
    [ $# -gt 0 ] || set -- 5/997
    if lanes "$work/mutant.ptx" 120 "$@"; then
        verdict 1 "$mutant_text: is noticed"
    else
        grep -Eq -- "$mutant_says" "$work/out"
        verdict $? "$mutant_text: is noticed ($mutant_says)"
    fi
}

target=$(sed -n 's/^\.target sm_\([0-9]*\).*/\1/p' "$ptx")
if [ "${target:-0}" -lt 90 ]; then
    echo "1..0 # SKIP this nvcc makes no PTX of compute capability 9.0 and later: it is of ${target:-?}"
    exit 0
fi
: "${GPURING_STANDIN_PTX_SEED:=1}"
export GPURING_STANDIN_PTX_SEED
echo "# the kernels' PTX for sm_$target, GPURING_STANDIN_PTX_SEED=$GPURING_STANDIN_PTX_SEED"

# lanes_verdicts STATUS TEXT: print the verdict of each line of gpu_lanes that made a call, and of the exit
# status.
lanes_verdicts() {
    sed -n 's/^\(ok\|not ok\) [0-9]* - //p' "$work/out" >"$work/lines"
    while IFS= read -r line; do
        case $line in
        *': 0 calls '*) ;;
        *)
            grep -q "^ok [0-9]* - $line\$" "$work/out"
            verdict $? "$line"
            ;;
        esac
    done <"$work/lines"
    [ "$1" -eq 0 ]
    verdict $? "$2"
}

# With 47 parts, each part has all kinds of calls and all misalignments.
lanes "$ptx" 600 "$((GPURING_STANDIN_PTX_SEED % 47))/47"
lanes_verdicts $? "all calls, every 47th of the suite's, ended well"

# Run one of the four calls of every other collective over each protocol and algorithm.
lanes "$ptx" 600 "$((GPURING_STANDIN_PTX_SEED % 4))/4" --collectives
lanes_verdicts $? "a call of each other collective ended well"
[ "$(wc -l <"$work/lines")" -ge 39 ]
verdict $? "of each pair of collective and algorithm, over three protocols"

# Check that faults in the kernels are detected.
mutant "a barrier less in each kernel" 'has accessed since the last barrier' '
    /^\.visible \.entry/ { n = 0 }
    /bar\.sync/ && ++n == 3 { print "\t// " $0; next }
    { print }'
mutant "no barrier of a warp after its connections are posted" 'has accessed since the last barrier' '
    { sub(/bar\.warp\.sync/, "// bar.warp.sync"); print }' 1/4 --collectives
mutant "vectors that begin 8 bytes later" 'CUDA_ERROR_MISALIGNED_ADDRESS' '
    /st\.global\.v2\.u64/ { sub(/\],/, "+8],"); sub(/\+[0-9]+\+8\]/, "+8]") }
    { print }'
mutant "vectors that are read 16 bytes farther on" 'is wrong|does not reach|since the last' '
    /ld\.global\.v2\.u64/ { sub(/\];/, "+16];"); sub(/\+[0-9]+\+16\]/, "+16]") }
    { print }'
mutant "vectors beyond all memory" 'CUDA_ERROR_ILLEGAL_ADDRESS' '
    /st\.global\.v2\.u64/ { sub(/\],/, "+4294967296],"); sub(/\+[0-9]+\+/, "+") }
    { print }'
mutant "a difference in place of a sum" 'element [0-9]* is wrong' '
    { sub(/add\.rn\.f32/, "sub.rn.f32"); print }'
mutant "an unknown word" 'PTX line [0-9]*: "frobnicate\.s64"' '
    { sub(/add\.s64/, "frobnicate.s64"); print }'
echo "1..$checks"
