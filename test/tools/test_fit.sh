#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# gpuring-fit from its command line: constants that made up measurements come back, and each mistake has
# its message and exit status.
# shellcheck source=test/tools/lib.sh
. "${top_srcdir:-.}/test/tools/lib.sh"
# shellcheck source=test/bad_files.sh
. "$top_srcdir/test/bad_files.sh"
fit=$top_builddir/tools/gpuring-fit

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
    pattern=$2
    shift 2
    timeout -k 5 60 "$fit" "$@" >"$work/out" 2>&1
    got=$?
    check "status $status and '$pattern'" found
}
found() { [ "$got" -eq "$status" ] && grep -q -e "$pattern" "$work/out"; }

results 2 0.8 > "$work/2.json"
results 4 0.8 > "$work/4.json"
results 8 0.8 > "$work/8.json"

"$fit" --bandwidth 20 -o "$work/fitted" "$work/2.json" "$work/4.json" "$work/8.json" \
    > "$work/out" 2>&1
check "the constants come back from three numbers of ranks" \
    awk '$1 == "base" && $2 == "ring" && $3 == "simple" { good += ($4 > 19.99 && $4 < 20.01) }
         $1 == "hop" && $4 == "pci" { good += ($5 > 1.499 && $5 < 1.501) }
         $1 == "factor" && $4 == "one" { good += ($5 > 0.799 && $5 < 0.801) }
         END { exit good != 3 }' "$work/fitted"
check "calls that fell back are counted" grep -q "3 results left out" "$work/out"

"$fit" --bandwidth 20 --model "$work/fitted" "$work/2.json" > "$work/again" 2> "$work/out"
check "a fitted table is read back and fits" \
    grep -q "error 0.0 % (was 0.0 %); base and hop in proportion" "$work/out"

expect 2 "give either --topo or --bandwidth" "$work/2.json"
expect 2 "no file of results" --bandwidth 20
expect 2 "above 0" --bandwidth 0 "$work/2.json"
expect 2 "1 or more" --bandwidth 1 --nodes 0 "$work/2.json"
expect 1 "$work/none" --bandwidth 20 "$work/none"
echo '[]' > "$work/list.json"
expect 1 "is not what gpuring-perf" --bandwidth 20 "$work/list.json"
sed 's/allreduce/bcast/' "$work/2.json" > "$work/bcast.json"
expect 1 "measured bcast" --bandwidth 20 "$work/bcast.json"
sed 's/allreduce/bcast/' "$work/4.json" > "$work/bcast.json"
expect 0 "ring simple: 9 results" --topo "$top_srcdir/test/data/topo/nvswitch.xml" "$work/bcast.json"
echo 'base ring fast 1' > "$work/table"
expect 1 "line 1: unknown protocol 'fast'" --bandwidth 20 --model "$work/table" "$work/2.json"
printf 'hop\0\n' > "$work/zero"
expect 1 "zero: line 1: word 1 .* null byte" --bandwidth 20 --model "$work/zero" "$work/2.json"
: > "$work/empty"
expect 0 "^factor ring simple one 0.8" --bandwidth 20 --model "$work/empty" "$work/2.json"
expect 1 "$work/empty: topology XML is empty" --topo "$work/empty" "$work/2.json"
for option in "1 --bandwidth 20 --model" "64 --topo"; do
    bad_files "${option%% *}"
    while read -r file message; do
        # shellcheck disable=SC2086
        expect 1 "^gpuring-fit: $work/$message" ${option#* } "$work/bad/$file" "$work/2.json"
    done < "$work/bad/list"
done
expect 1 "nothing fitted" --bandwidth 20 --nodes 3 "$work/2.json"
expect 1 "not written completely" --bandwidth 20 -o /dev/full "$work/2.json"

sed 's/, "calls_simple": 9//g' "$work/2.json" > "$work/mute.json"
expect 1 "nothing fitted" --bandwidth 20 "$work/mute.json"
expect 0 "^factor ring simple one 0.8" --bandwidth 20 --protocol simple "$work/mute.json"
echo "1..$checks"
