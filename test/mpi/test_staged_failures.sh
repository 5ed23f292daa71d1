#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test staged collectives on the stand-in driver (test/standin) while copies or allocations of one rank
# fail. That rank must return an error. The calls of the other ranks must end, with bytes of 0xff instead
# of that rank's data.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

if [ ! -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    skip "built without CUDA: there is no device layer to test" "staged calls that fail"
    finish
fi
use_gpus 2
export GPURING_STANDIN_REPORT="$work/report"
export OMPI_MCA_coll_gpuring_algorithm=previous # everything is staged

for ranks in 2 3; do
    mpi 120 "$ranks" staged_failures copies
    adopt "$ranks ranks"
    check "$ranks ranks: the log says what failed, and what follows" \
        says 'gpuring ERROR \[stage-copy\] .*0xff'
done
nothing_held "calls that fail leave nothing behind"

mpi 120 3 staged_failures memory
adopt "3 ranks"
check "the log says that memory lacks, and what to do" \
    says 'gpuring ERROR \[stage-no-memory\] .*MPI_Gatherv.*ulimit -v'
nothing_held "calls without memory leave nothing behind"

OMPI_MCA_coll_gpuring_timeout=1 mpi 120 3 staged_failures late
adopt "3 ranks"
for rank in 0 1; do
    check "rank $rank reports both calls in which it waits" \
        test "$(grep -c ":$rank .*WARN \[stage-stalled\] .*MPI_I*[Aa]llgather" "$work/out")" -eq 2
done
check "the late rank has nothing to report" silent ':2 .*\[stage-stalled\]'
finish
