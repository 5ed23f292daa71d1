#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Staged collectives while one rank alone has no host memory, on the stand-in driver (test/standin):
# no rank waits for it, and nothing that looks like a result is made of what it lacks.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

if [ ! -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    skip "built without CUDA: there is no device layer to test" "staged calls without memory"
    finish
fi
use_gpus 2
export OMPI_MCA_coll_gpuring_buffer_size=64k

# shortage RANKS RANK MODE; the log goes to $work/log
shortage() {
    rm -f "$work/log"
    GPURING_STANDIN_FAULTS=cuMemHostRegister_v2=1:2 LD_PRELOAD="$top_builddir/test/mpi/.libs/scarce.so" \
        mpi 60 "$1" shortage "$2" "$3" "$work/log"
    adopt "$1 ranks, rank $2 has no memory${OMPI_MCA_coll_gpuring_agree:+, agreed}"
}

logged() { grep -Eq "$1" "$work/log"; }

shortage 3 1 each
check "the log says what happens and what to do" \
    logged 'gpuring ERROR no host memory .* takes part without its data.* free host memory'
shortage 2 0 each
shortage 3 2 order
shortage 2 1 early
shortage 2 1 addresses
check "the log says who will wait" \
    logged 'gpuring ERROR neither .* wait for it for ever.*max_map_count'
OMPI_MCA_coll_gpuring_stage_size=1m shortage 2 1 beyond
OMPI_MCA_coll_gpuring_stage_size=1m shortage 3 0 beyond
check "the log of the others says who took no part" \
    logged "gpuring ERROR .*MPI_Alltoallv \(.*\) failed at rank 0 on host $(uname -n): out of .* took no part"
OMPI_MCA_coll_gpuring_stage_size=1m shortage 2 0 lent
check "the log of who waits on says why" \
    logged "gpuring ERROR .* waits for rank 0 on host $(uname -n), which takes no part .*buffer in host memory"
OMPI_MCA_coll_gpuring_stage_size=64k shortage 3 0 overcommit

export OMPI_MCA_coll_gpuring_agree=always
shortage 3 1 each
shortage 2 0 each
shortage 3 2 order
shortage 2 1 addresses
OMPI_MCA_coll_gpuring_stage_size=1m shortage 3 1 beyond
check "the log of the others says who lacks memory" \
    logged "gpuring ERROR .*MPI_Alltoallv was not begun on any rank: rank 1 on host $(uname -n): out of"
finish
