#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# run.sh SECONDS [FOLDER]: fuzz the topology engine with libFuzzer, starting from the inputs in
# test/fuzz/corpus and test/data/topo. New inputs are stored in FOLDER (by default a new folder in /tmp),
# and findings in FOLDER/findings. Exit status: 0 nothing found, 1 a finding, 77 no clang with libFuzzer.
set -u
seconds=${1:?usage: run.sh SECONDS [FOLDER]}
source=$(cd "$(dirname "$0")/../.." && pwd)
folder=${2:-$(mktemp -d /tmp/gpuring-fuzz.XXXXXX)}
clang=${CLANG:-clang}
mkdir -p "$folder/new" "$folder/findings"

# Code that needs hwloc or NVML is not fuzzed, because it does not read files.
sources=$(ls "$source"/mca/topo_pci/xml/*.c "$source"/mca/topo_pci/graph/*.c \
    "$source"/mca/topo_pci/search/*.c "$source"/mca/topo_pci/bounds/*.c)
flags="-std=gnu11 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined"
if ! echo 'int LLVMFuzzerTestOneInput(const char *d, long n) { return !d && n; }' |
    $clang $flags -x c -o "$folder/probe" - 2>/dev/null; then
    echo "fuzzing needs clang with libFuzzer (Debian: apt-get install clang libclang-rt-dev)" >&2
    exit 77
fi
# shellcheck disable=SC2086,SC2046
$clang $flags -I"$source" $(pkg-config --cflags expat) -o "$folder/fuzz_pci" \
    "$source/test/fuzz/fuzz_pci.c" "$source"/test/unit/pci_proof_*.c $sources $(pkg-config --libs expat) -lm || exit 1
"$folder/fuzz_pci" -max_total_time="$seconds" -timeout=300 -rss_limit_mb=2048 -max_len=16384 \
    -dict="$source/test/fuzz/pci.dict" -artifact_prefix="$folder/findings/" \
    -print_final_stats=1 -verbosity=0 \
    "$folder/new" "$source/test/fuzz/corpus" "$source/test/data/topo"
status=$?
if [ $status -ne 0 ]; then
    echo "fuzzing found something: see $folder/findings" >&2
    exit 1
fi
