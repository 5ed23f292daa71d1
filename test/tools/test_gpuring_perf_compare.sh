#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test gpuring-perf --compare, which compares calls with the given parameters and calls without
# coll/gpuring in one job.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"
perf=$top_builddir/tools/gpuring-perf
quick="--settle 0 -n 20" sizes="-b 4 -e 64K -f 16"

# compare RANKS "MPIRUN-OPTIONS" ARGS...: run gpuring-perf --compare on the device $device.
compare() {
    ranks=$1 options=$2
    shift 2
    # shellcheck disable=SC2086
    run 100 "$MPIRUN" -n "$ranks" --mca coll_gpuring_priority 90 \
        --mca coll_gpuring_device "$device" $options "$perf" --compare $quick $sizes "$@"
}
# Count the rows of the table that satisfy an expression of awk, and whose ratio (column 4) is within its
# confidence interval (columns 5 and 6).
rows() { awk "\$1 + 0 > 0 && NF >= 7 && \$5 <= \$4 && \$4 <= \$6 && ($1)" "$work/out" | wc -l; }

compare 2 "" --rounds 6
check "status 0" test "$status" -eq 0
check "a row for each size, with a ratio within its range" test "$(rows 1)" -eq 4
check "the component that would serve otherwise is named" says '^# +size +as set +(tuned|basic|han) +ratio'
check "served by coll/gpuring as set" test "$(rows '$7 == "gpuring" && $8 ~ /\/.*/')" -eq 4
check "six rounds say where the ratio lies" says "with 95 % confidence"
# Each number has three decimals, so a small ratio is rounded most.
check "the geometric mean is that of the ratios" awk '
    $1 + 0 > 0 && NF >= 7 { sum += log($4); rounding += 0.0006 / $4; n++ }
    /^# geometric mean of the ratios:/ { told = $NF }
    END { mean = exp(sum / n); d = told - mean; most = 0.0006 + mean * rounding / n
          exit !(n == 4 && d < most && d > -most) }' "$work/out"

compare 3 "--mca coll_gpuring_algorithm ring --mca coll_gpuring_protocol ll" --rounds 2
check "with the parameters as they are" test "$(rows '$8 == "ring/ll"')" -eq 4
check "two rounds are too few for a confidence" says "which are too few to say more"

compare 2 "" --rounds 1
check "the ratio of a round is previous / as set: above 1, as set is faster" \
    test "$(rows '($4 - $3 / $2) ^ 2 < (0.002 + 0.05 * $4) ^ 2')" -eq 4

if command -v python3 >/dev/null 2>&1; then
    cat >"$work/check.py" <<'END'
import json, math, sys

document = json.load(open(sys.argv[1]))
assert document["collective"] == "allreduce" and document["ranks"] == 2 and document["rounds"] == 2
assert document["without"] in ("tuned", "basic", "han") and document["confidence"] is None, document
rows = document["results"]
assert [row["size_bytes"] for row in rows] == [4, 64, 1024, 16384], rows
for row in rows:
    assert row["as_set_us"] > 0 and row["without_us"] > 0 and row["served_by"].startswith("gpuring ")
    assert row["ratio_low"] <= row["ratio"] <= row["ratio_high"], row
mean = math.exp(sum(math.log(row["ratio"]) for row in rows) / len(rows))
assert abs(document["geometric_mean_ratio"] - mean) < 1e-6 * mean, (document, mean)
END
    compare 2 "" --rounds 2 -j "$work/json"
    check "--json: status 0, and the table as well" test "$status" -eq 0 -a "$(rows 1)" -eq 4
    check "--json: complete and consistent" python3 "$work/check.py" "$work/json"
    compare 2 "" --rounds 2 -j -
    check "--json -: on standard output, and nothing else" python3 "$work/check.py" "$work/out"
else
    skip "python3 is not installed" "--json: complete and consistent"
fi

# A non-blocking broadcast of 4 bytes is not served, because Open MPI makes such calls internally. The
# compared sizes are larger.
compare 2 "" -c ibcast -b 64 --rounds 1
check "non-blocking broadcasts" test "$(rows '$7 == "gpuring"')" -eq 3
swept=$sizes sizes=
compare 2 "" -c barrier --rounds 1
sizes=$swept
check "barriers, between ranks that are connected" says '^ +0 .* gpuring direct/'

compare 2 "--mca coll_gpuring_algorithm previous" --rounds 3
check "left to the previous component: it is compared with itself" \
    test "$(rows '$7 == "other" && $8 == "(fallback)"')" -eq 4

compare 2 "" -d float,double
refused '\[option-conflict\] --compare' "several types"
compare 2 "" --tuning "$work/tuning"
refused '\[option-conflict\] --tuning and --compare' "--tuning, too"
compare 1 ""
refused '\[cannot-compare\]' "one rank"
# shellcheck disable=SC2086
run 60 "$MPIRUN" -n 2 --mca coll '^gpuring' "$perf" --compare $quick
refused '\[cannot-compare\] .*mca_base_component_path.*gpuring-run' "without the component"
finish
