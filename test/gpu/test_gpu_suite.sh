#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Run the GPU suite on the stand-in driver with the programs of this build.
set -u
: "${top_srcdir:?}" "${top_builddir:?}"
work=$(mktemp -d "${TMPDIR:-/tmp}/gpuring-suite.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

export PYTHON=/usr/bin/python3 # Debian's, which has Debian's packages
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
grep -q '^- passed: selftest: all paths between 2 ranks on one GPU' "$work/report.md" &&
    grep -Eq '^    # ([0-9]+) of \1 paths are right' "$work/report.md"
verdict $? "the selftest is first, and its table is in the report"
grep -q '^| 8 | 65536 | ' "$work/report.md"
verdict $? "its report has the tables"
if "$PYTHON" -c 'import mpi4py, numba' 2>/dev/null; then
    grep -q '^- passed: Numba .*: mpi4py on its arrays, 2 ranks' "$work/report.md" &&
        grep -q '^ok 42 - ibcast, 1048576 float32, another stream' "$work/log/python-numba"
    verdict $? "MPI calls are made on Numba's arrays"
fi
grep -q "^- not run: torch: .*(ModuleNotFoundError: No module named 'torch')" "$work/report.md" ||
    grep -q 'PyTorch finds no GPU' "$work/report.md"
verdict $? "the report says why PyTorch was not run"
for way in direct chunks staged; do
    grep -q "^| $way | 5000000 | " "$work/report.md"
    verdict $? "messages go so: $way"
done
[ "$(grep -c '^- passed: 8 bytes with default_stream=' "$work/report.md")" -eq 3 ] &&
    [ "$(grep -Ec '^     +8 ' "$work/report.md")" -eq 3 ]
verdict $? "the cost of following the default stream is measured"
# Run one part again without building, and then a part for which there is no time.
sh "$top_srcdir/test/gpu/run.sh" --dry-run --work "$work" --only bench >"$work/again" 2>&1
verdict $? "one part alone ends with 0"
grep -q '^ok 2 - the core is built by .*, earlier' "$work/again" &&
    ! grep -q 'gpu_lanes' "$work/again"
verdict $? "it builds nothing again, and runs no other part"
grep -q '^- passed: kernels: many ranks' "$work/report.md" && grep -q '^| 8 | 65536 | ' "$work/report.md"
verdict $? "the report keeps what the other parts have found"
sh "$top_srcdir/test/gpu/run.sh" --dry-run --work "$work" --only lanes --seconds 5 >"$work/late" 2>&1
grep -q '^ok 4 - kernels: many ranks .* # SKIP the time of --seconds 5 is over' "$work/late" &&
    grep -q '^- not run: kernels: many ranks' "$work/report.md"
verdict $? "without time a part is not run, and the report says so"
sh "$top_srcdir/test/gpu/run.sh" --dry-run --build "$top_builddir" --work "$work" --first \
    >"$work/first.out" 2>&1 && grep -q '^ok .* 2 ranks on one GPU by IPC' "$work/first.out" &&
    ! grep -q '[48] ranks on one GPU' "$work/first.out" && [ -s "$work/report-logs.tar.gz" ]
verdict $? "the first command runs with two ranks, and packs its logs"
mkdir "$work/old"
cat >"$work/old/nvidia-smi" <<'END'
#!/bin/sh
case $1 in -L) echo 'GPU 0: Tesla V100 (UUID: GPU-0)' ;; *compute_cap*) echo 7.0 ;; esac
END
chmod +x "$work/old/nvidia-smi"
PATH="$work/old:$PATH" sh "$top_srcdir/test/gpu/run.sh" --only bench --work "$work/old" >"$work/old/out" 2>&1 &&
    grep -q '^1\.\.0 # SKIP .*7\.0 is not supported' "$work/old/out"
verdict $? "a GPU that the kernels do not support is a reason to skip"
sh "$top_srcdir/test/gpu/run.sh" --frobnicate 2>"$work/usage"
[ $? -eq 2 ] && grep -q -- '--debs' "$work/usage"
verdict $? "an unknown option is answered with what there is"
echo "1..$checks"
