#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# gpuring-fit from its command line: constants that made up measurements come back, and each mistake has
# its message and exit status.
set -u
: "${top_srcdir:?run this by make check}" "${top_builddir:?run this by make check}"
fit=$top_builddir/tools/gpuring-fit
work=$(mktemp -d "${TMPDIR:-/tmp}/gpuring-fit.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
checks=0

check() { # STATUS TEXT; details from $work/out as comments
    checks=$((checks + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $checks - $2"
    else
        echo "not ok $checks - $2"
        sed 's/^/# /' "$work/out"
    fi
}

# Times of a ring with Simple over RANKS, with a base of 20 us, 1.5 us a hop and FACTOR of 20 GB/s, as
# gpuring-perf --json writes them.
results() { # RANKS FACTOR
    awk -v n="$1" -v factor="$2" 'BEGIN {
        printf "{\"collective\": \"allreduce\", \"ranks\": %d, \"results\": [", n
        for (k = 10; k <= 26; k += 2) {
            bytes = 2 ^ k
            us = 20 + 2 * (n - 1) * 1.5 + bytes * 2 * (n - 1) / n / (20000 * factor)
            printf "%s{\"size\": %d, \"p50_us\": %.9g, \"counters\": {\"fallbacks\": 0, " \
                   "\"calls_ring\": 9, \"calls_simple\": 9}}", (k == 10 ? "" : ", "), bytes, us
        }
        print ", {\"size\": 8, \"p50_us\": 1, \"counters\": {\"fallbacks\": 9}}]}"
    }'
}

# Run gpuring-fit with these arguments: its status must be STATUS and its output hold TEXT.
expect() { # STATUS TEXT ARGUMENT...
    status=$1
    text=$2
    shift 2
    "$fit" "$@" > "$work/out" 2>&1
    got=$?
    grep -q -e "$text" "$work/out" && [ "$got" -eq "$status" ]
    check $? "status $status and '$text'"
}

echo 1..16
results 2 0.8 > "$work/2.json"
results 4 0.8 > "$work/4.json"
results 8 0.8 > "$work/8.json"

"$fit" --bandwidth 20 -o "$work/fitted" "$work/2.json" "$work/4.json" "$work/8.json" \
    > "$work/out" 2>&1 &&
    awk '$1 == "base" && $2 == "ring" && $3 == "simple" { good += ($4 > 19.99 && $4 < 20.01) }
         $1 == "hop" && $4 == "pci" { good += ($5 > 1.499 && $5 < 1.501) }
         $1 == "factor" && $4 == "one" { good += ($5 > 0.799 && $5 < 0.801) }
         END { exit good != 3 }' "$work/fitted"
check $? "the constants come back from three numbers of ranks"
grep -q "3 results left out" "$work/out"
check $? "calls that fell back are counted"

"$fit" --bandwidth 20 --model "$work/fitted" "$work/2.json" > "$work/again" 2> "$work/out" &&
    grep -q "error 0.0 % (was 0.0 %); base and hop in proportion" "$work/out"
check $? "a fitted table is read back and fits"

expect 2 "give either --topo or --bandwidth" "$work/2.json"
expect 2 "no file of results" --bandwidth 20
expect 2 "above 0" --bandwidth 0 "$work/2.json"
expect 2 "1 or more" --bandwidth 1 --nodes 0 "$work/2.json"
expect 1 "$work/none" --bandwidth 20 "$work/none"
echo '[]' > "$work/list.json"
expect 1 "is not what gpuring-perf" --bandwidth 20 "$work/list.json"
sed 's/allreduce/bcast/' "$work/2.json" > "$work/bcast.json"
expect 1 "measured bcast" --bandwidth 20 "$work/bcast.json"
echo 'base ring fast 1' > "$work/table"
expect 1 "line 1: unknown protocol 'fast'" --bandwidth 20 --model "$work/table" "$work/2.json"
expect 1 "$work/none.xml" --topo "$work/none.xml" "$work/2.json"
expect 1 "nothing fitted" --bandwidth 20 --nodes 3 "$work/2.json"
expect 1 "not written completely" --bandwidth 20 -o /dev/full "$work/2.json"

sed 's/, "calls_simple": 9//g' "$work/2.json" > "$work/mute.json"
expect 1 "nothing fitted" --bandwidth 20 "$work/mute.json"
expect 0 "^factor ring simple one 0.8" --bandwidth 20 --protocol simple "$work/mute.json"
