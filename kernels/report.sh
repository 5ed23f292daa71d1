#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Print the cost of the CUDA kernels as Markdown: registers, spills and size on each architecture, and
# instruction counts (kernels/machine_code.py) for the first architecture of 8.x, 9.x and 10.x. Fails if a
# kernel spills registers.
#
#   kernels/report.sh [NVCC [ARCHITECTURE ...]]     the first part of doc/results/kernels.md
#
# The default architectures are those of configure: the first of each major version from 7.5 on.
set -eu
cd "$(dirname "$0")/.."
nvcc=${1:-nvcc}
[ $# -gt 0 ] && shift
if [ $# -eq 0 ]; then
    # shellcheck disable=SC2046 # a list of numbers
    set -- $("$nvcc" --list-gpu-code | sed -n 's/^sm_\([0-9]*\)$/\1/p' | sort -n |
        awk '$1 >= 75 && int($1 / 10) != major { major = int($1 / 10); print }')
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat <<END
# CUDA kernels: registers, spills, size

Made by \`kernels/report.sh\` with $("$nvcc" --version | sed -n 's/.*\(release [0-9.]*\).*/nvcc \1/p');
at most 128 registers a thread: one block of 512 threads (Simple, LL128) or at least four of 128 (LL) fit a
multiprocessor. "bytes" is machine code of the kernel.

| kernel | $(printf 'sm_%s registers | bytes | spills | ' "$@" | sed 's, *$,,')
|---|$(printf -- '--:|--:|--:|%.0s' "$@")
END
for arch in "$@"; do
    "$nvcc" -std=c++17 -O3 -fmad=false -I. -arch="sm_$arch" -Xptxas -v -cubin \
        -o "$work/$arch.cubin" kernels/kernels.cu > "$work/log" 2>&1 || {
        cat "$work/log" >&2
        exit 1
    }
    python3 kernels/machine_code.py "$work/$arch.cubin" > "$work/$arch.counts"
    sed 's/ .* / /' "$work/$arch.counts" > "$work/sizes"
    awk 'FILENAME == ARGV[1] { size[$1] = $2; next }
        /Compiling entry function/ { gsub("\047", "", $7); kernel = $7 }
        /spill stores/ && kernel != "" && !(kernel in spills) {
            spills[kernel] = $5 + $9
        }
        /Used [0-9]+ registers/ {
            for (i = 1; i < NF; i++) if ($i == "Used") registers = $(i + 1)
            print kernel, registers, size[kernel], spills[kernel] + 0
            kernel = ""
        }' "$work/sizes" "$work/log" | sort > "$work/$arch"
done
cut -d' ' -f1 "$work/$1" | while read -r kernel; do
    printf '| %s |' "$kernel"
    for arch in "$@"; do
        awk -v kernel="$kernel" '$1 == kernel { printf " %s | %s | %s |", $2, $3, $4 }' "$work/$arch"
    done
    echo
done
echo
echo "gpuring_*_any_* call one function with a switch over all reductions."
counted=''
for major in 8 9 10; do
    for arch in "$@"; do
        [ $((arch / 10)) -ne $major ] || { counted="$counted $arch"; break; }
    done
done
if [ -n "$counted" ]; then
    cat <<END

## Instructions

Of the machine code, read by \`kernels/machine_code.py\`: loads and stores of 128 bits in global memory, generic
accesses (whose address may be shared or global memory), barriers of memory and how many of them are of the
system, accesses of local memory (spills, and arrays that are no registers).

| kernel |$(for arch in $counted; do
        printf ' sm_%s loads | stores | generic | fences | system | local |' "$arch"; done)
|---|$(for arch in $counted; do printf -- '--:|--:|--:|--:|--:|--:|'; done)
END
    cut -d' ' -f1 "$work/$1" | while read -r kernel; do
        printf '| %s |' "$kernel"
        for arch in $counted; do
            awk -v kernel="$kernel" '$1 == kernel {
                printf " %s | %s | %s | %s | %s | %s |", $2, $3, $4, $5, $6, $7 }' "$work/$arch.counts"
        done
        echo
    done
fi
for arch in "$@"; do
    awk -v arch="$arch" '$4 > 0 { print "sm_" arch ": " $1 " spills " $4 " bytes"; bad = 1 }
        END { exit bad }' "$work/$arch" >&2
done
