#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test gpuring-perf through its command line: every collective, type and operation with and without
# coll/gpuring, the table, the JSON, and wrong usage. test/mutation.sh tests that it finds wrong elements.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"
perf=$top_builddir/tools/gpuring-perf
quick="--settle 0 -w 0 -n 2"
ours="--mca coll_gpuring_priority 90 --mca coll_gpuring_device host"

perf() { # RANKS MPIRUN-OPTIONS ARGS...: options of mpirun by words
    ranks=$1 options=$2
    shift 2
    # shellcheck disable=SC2086
    run 100 "$MPIRUN" -n "$ranks" $options "$perf" "$@"
}
rows() { grep -c '^ *[0-9]' "$work/out"; }
all_right() { [ "$status" -eq 0 ] && says '; wrong elements: 0$' && [ "$(rows)" -ge "$1" ]; }

# Every collective that --help names, and every type and operation, with any component and with ours.
perf 2 "" --help
check "--help: status 0, printed once" \
    test "$status" -eq 0 -a "$(grep -c '^Usage: ' "$work/out")" -eq 1
collectives=$(sed -n '/^Collectives, /,/^and/s/^  \([a-z_]*\) .*/\1/p' "$work/out")
check "--help names the collectives" test "$(echo "$collectives" | wc -w)" -eq 16
measured() { # RANKS ROWS COLLECTIVE ARGS...
    ranks=$1 wanted=$2
    shift 2
    # shellcheck disable=SC2086
    perf "$ranks" "$ours" $quick -c "$@"
    check "$*: sizes from 0 on" all_right "$wanted"
}
swap=
for collective in $collectives; do # in place: one of the other forms
    first=i$collective second=${collective}_init rows=36
    [ -n "$swap" ] && swap= || swap=yes
    [ -n "$swap" ] || { first=$second && second=i$collective; }
    size='-b 0 -e 3000 -f 200' some='-d int8,double,complex_double' root='' place=-p all='-d all'
    case $collective in
    barrier) rows=1 place='' size='' some='' all='' ;;
    bcast) root='-r 1' place='' ;;
    gather* | scatter*) root='-r 1' ;;
    reduce) root='-r 1' all='-d all -o all' ;;
    allreduce | scan | exscan | reduce_*) all='-d all -o all' ;;
    esac
    # shellcheck disable=SC2086
    measured 3 "$rows" "$collective" $size $all $root
    # shellcheck disable=SC2086
    measured 2 $((rows / 7 + 1)) "$first" $size $some $root $place
    # shellcheck disable=SC2086
    [ -n "$place" ] || measured 2 $((rows / 7 + 1)) "$second" $size $some $root
done
# shellcheck disable=SC2086
perf 2 "" -c allreduce -d all -o all -b 64 -e 64 $quick
check "without coll/gpuring: right, and it says who served" \
    sh -c "grep -q '; wrong elements: 0$' '$work/out' &&
        grep -Eq '^# (served by other components|coll/gpuring served none)' '$work/out'"

# Check the rows and columns of the table.
# shellcheck disable=SC2086
perf 2 "$ours" -b 0 -e 64 $quick -c alltoall -d double
check "each size once, from 0 on" \
    test "$(awk '/^ *[0-9]/ { printf "%s ", $1 }' "$work/out")" = "0 16 32 64 "
# shellcheck disable=SC2086
perf 2 "$ours" -b 1K -e 4K -i 1K --percentiles --barrier $quick
check "columns of nccl-tests" \
    says '^# +size +count +type +redop +time +algbw +busbw +#wrong +min +p50 +p90 +p99 +max +served by$'
check "sizes by steps" test "$(awk '/^ *[0-9]/ { printf "%s ", $1 }' "$work/out")" = "1024 2048 3072 4096 "
check "coll/gpuring served every timed call" says '^# coll/gpuring served 8 of 8 timed calls: gpuring '
# shellcheck disable=SC2086
perf 2 "$ours" -b 1K -e 1K --no-check $quick
check "without checks #wrong is N/A" says '^ *1024 .* N/A '
perf 2 "" --version
check "--version: status 0, printed once" \
    test "$status" -eq 0 -a "$(grep -c '^gpuring-perf (coll/gpuring) [0-9]' "$work/out")" -eq 1

# The JSON must have the figures of the table, and be consistent.
# shellcheck disable=SC2086
perf 2 "$ours" -b 8 -e 64K -f 8 -d float,int32 -o sum,max -j "$work/perf.json" $quick
cat >"$work/check.py" <<'END'
import json, sys

document = json.load(open(sys.argv[1]))
assert document["collective"] == "allreduce" and document["ranks"] == 2, document
assert document["gpuring_loaded"] and not document["in_place"], document
assert len(document["results"]) == 2 * 2 * 5, len(document["results"])
for row in document["results"]:
    times = [row[key] for key in ("min_us", "p50_us", "p90_us", "p99_us", "max_us")]
    assert times == sorted(times) and row["time_us"] > 0, row
    assert row["wrong"] == 0 and row["size_bytes"] == 4 * row["count"], row
    assert abs(row["algbw_GB_per_s"] - row["size_bytes"] / row["time_us"] / 1e3) <= 1e-6 * row["algbw_GB_per_s"], row
    assert abs(row["busbw_GB_per_s"] - row["algbw_GB_per_s"]) <= 1e-6 * row["algbw_GB_per_s"], row  # 2 (n - 1) / n = 1
    assert row["counters"]["calls"] == 2 and row["served_by"].startswith("gpuring "), row
END
if command -v python3 >/dev/null 2>&1; then
    check "--json: complete and consistent" \
        sh -c "python3 '$work/check.py' '$work/perf.json' >>'$work/out' 2>&1"
    # shellcheck disable=SC2086
    perf 2 "$ours" -b 8 -e 64K -f 8 -d float,int32 -o sum,max -j - $quick
    check "--json -: on standard output, and nothing else" \
        sh -c "python3 '$work/check.py' '$work/out'"
else
    skip "python3 is not installed" "--json: complete and consistent"
fi

# Wrong usage: status 2 and one message that quotes it. One process is enough for most of these checks.
refused() { # PATTERN ARGS...
    pattern=$1
    shift
    run 60 "$perf" -e 1K "$@"
    check "refused: $* ($pattern)" \
        test "$status" -eq 2 -a "$(grep -Ec -- "^gpuring-perf: $pattern" "$work/out")" -eq 1
}
refused "\[bad-option\] --collective: 'gathers' .* did you mean 'gather'" -c gathers
refused '\[bad-option\] --begin 1T: .*K, M or G' -b 1T
refused '\[bad-option\] --end -4:' -e -4
refused '\[bad-option\] --begin is above --end' -b 1M
refused '\[bad-option\] --factor 1:' -f 1
refused '\[bad-option\] --step x:' -i x
refused "\[bad-option\] --type: 'doubel' .* did you mean 'double'" -d float,doubel
refused "\[bad-option\] --type: 'quaternion' is not known \(see" -d float,quaternion
refused "\[bad-option\] --op: '' is not known" -o sum,
refused '\[option-conflict\] --rounds' --rounds 3
refused '\[option-conflict\] --factor and --step' -f 2 -i 8
refused '\[option-conflict\] --barrier does nothing with --compare' --compare --barrier
refused '\[bad-option\] --percentil3 .*did you mean --percentiles' --percentil3
refused '\[bad-option\] --json needs a value' --json
refused '\[option-conflict\] MPI' -d float -o band
refused '\[bad-option\] --root 1:' -c bcast -r 1
refused '\[bad-option\] --iterations 0:' -n 0
refused '\[bad-option\] --warmup many:' -w many
refused '\[bad-option\] --memory disk:' -m disk
refused '\[option-conflict\] --in-place does nothing with bcast' -c bcast -p
refused '\[option-conflict\] --end does nothing with barrier' -c barrier
refused '\[option-conflict\] --op does nothing with ialltoall' -c ialltoall -o max
refused '\[option-conflict\] --root does nothing with allreduce' -r 0
refused '\[option-conflict\] --root does nothing with --selftest' --selftest -r 0
refused "\[bad-option\] '64'" 64
refused '\[bad-option\] --nonsense .*--help' --nonsense
refused '\[cannot-write\] .*/nowhere/x.json: No such file' -j "$work/nowhere/x.json"
check "a file that cannot be written is told before anything is measured" silent '^ *[0-9]'
run 60 timeout -s KILL 3 "$perf" -b 8 -e 8 --settle 60000 -j "$work/interrupted.json"
check "a measurement that is interrupted leaves no file" test ! -e "$work/interrupted.json"
refused '\[no-memory\] rank 0: .*--end' -e 900000G
perf 2 "" -c bcast -r 2
check "a root that is no rank: told once, status 2" \
    test "$status" -eq 2 -a "$(grep -c '\[bad-option\] --root 2:' "$work/out")" -eq 1
if [ -c /dev/full ]; then
    # shellcheck disable=SC2086
    run 60 sh -c "'$perf' -b 8 -e 8 $quick >/dev/full"
    check "a full disk is told" sh -c "[ $status -eq 2 ] && grep -q '\[cannot-write\]' '$work/out'"
fi
finish
