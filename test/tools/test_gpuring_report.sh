#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test gpuring-report: the information that it collects, the names that it replaces, and the fault that it
# reports.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"
tool=$top_builddir/tools/gpuring-report
host=$(uname -n)
export GPURING_AWARE="$top_builddir/tools/.libs/libgpuring_aware.so" MPIRUN
report() { # ARGS...: to $work/report
    run 200 "$tool" -s 1 -e 32K -o "$work/report" "$@"
}
has() { grep -Eq -- "$1" "$work/report"; }
# in_section NAME PATTERN: succeed if the section NAME of the report has a line that matches PATTERN.
in_section() { sed -n "/^== $1 ==\$/,/^== /p" "$work/report" | grep -Eq -- "$2"; }
without() { ! grep -Fqw -- "$1" "$work/report"; }

cat >"$work/job.err" <<'END'
node17:4711:3 [cuda] gpuring WARN rank 2 (host node18.cluster, pid 4712) is silent
started by j.doe-4 in /home/j.doe-4/run (j.doe-4)
END
USER=j.doe-4 HOME=/home/j.doe-4 OMPI_MCA_coll_gpuring_agree=always report -n 2 -l "$work/job.err"
check "status 0" test "$status" -eq 0
check "the component" in_section versions '^coll/gpuring: [0-9.]+'
check "Open MPI" in_section versions '^ompi:version:full:'
check "the kernel" in_section versions '^Linux '
check "Open MPI finds the component" in_section versions '^mca:coll:gpuring:version'
check "limits" in_section limits 'locked memory'
check "shared memory" in_section limits '/dev/shm'
check "the topology" in_section topology '<system version='
check "parameters that differ" in_section "parameters that differ from their defaults" \
    '^coll_gpuring_agree = always \(environment\)'
check "and no others of the component" sh -c '! grep -q "^coll_gpuring_chunk_size" "$1"' sh "$work/report"
check "the selftest" in_section selftest '^# ([0-9]+) of \1 paths are right'
check "and its log" in_section selftest '\[serves\]'
check "the end of the log" in_section "the last 2000 lines of a log" 'gpuring WARN rank 2'
for name in "$host" node17 node18.cluster; do
    check "the host $name is not named" without "$name"
done
check "the user and the home folder are not named" has '^started by <user> in <home>/run \(<user>\)$'
report -n 2 --no-selftest --names -l "$work/job.err"
check "with --names hosts are named" has 'node17:4711:3 .*host node18\.cluster'
echo 'the log of a job' >"$work/log.node17.4711"
OMPI_MCA_coll_gpuring_log_file="$work/log.%h.%p" report --no-selftest
check "the newest log of coll_gpuring_log_file" in_section "the last 2000 lines of a log" '^the log of a job$'
report --no-selftest
check "no log" sh -c '! grep -q "2000 lines of a log" "$1"' sh "$work/report"
check "the selftest is left out" has '\(left out: --no-selftest\)'

LD_PRELOAD="$top_builddir/test/tools/.libs/selftest_faults.so" GPURING_FAULT=MPI_Bcast:2 report -n 2
check "a fault: status 1" test "$status" -eq 1
check "the report names its path" has '\[selftest-wrong\] bcast'
OMPI_MCA_mca_base_component_path="$work/no-components:SYSTEM_DEFAULT" report --no-selftest
check "without the component it says so" has '^\[report-no-component\]'

{
    echo '#!/bin/sh'
    echo "MPIRUN='$MPIRUN' exec '$top_srcdir/test/mpi/two_hosts.sh' \"\$@\""
} >"$work/two_hosts"
chmod +x "$work/two_hosts"
run 200 env MPIRUN="$work/two_hosts" "$tool" -s 1 -e 32K -n 4 -o "$work/report" -- \
    --host gpra:2,gprb:2 --map-by slot --mca pml ob1 --mca btl self,vader,tcp \
    -x OMPI_MCA_mca_base_component_path
if grep -q '^selftest: status 77' "$work/report"; then
    skip "there are no network namespaces here" "two hosts"
else
    check "two hosts: status 0" test "$status" -eq 0
    check "pairs are connected by network" in_section selftest '^ +0 - +2 .* network$'
    check "no host is named" sh -c '! grep -Eqw "gpr[ab]:[0-9]+:[0-9]+" "$1"' sh "$work/report"
fi
if [ -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    run 200 env LD_LIBRARY_PATH="$top_builddir/test/standin/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
        GPURING_STANDIN_GPUS=2 GPURING_STANDIN_PROTECT=0 "$tool" -s 1 -e 32K -o "$work/report"
    check "GPUs: status 0" test "$status" -eq 0
    check "their memory is tested" in_section selftest '^# gpuring-perf .* 2 ranks, .* cuda memory'
else
    skip "built without CUDA: there is no device layer to test" "GPUs"
fi

run 60 "$tool" --frobnicate
refused '\[bad-option\]' "an unknown option"
run 60 "$tool" -n 0
refused '\[bad-option\]' "no ranks"
run 60 "$tool" -o /nonexistent/report --no-selftest
refused '\[no-report\]' "a folder that does not exist"
finish
