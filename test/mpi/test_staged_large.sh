#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Large blocking collectives on device memory that do not run on the GPU, in chunks, on the stand-in
# driver (test/standin): against the same calls on host memory; and while copies fail at one rank.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

# The test itself: on host memory, with the stock components alone.
run 240 "$MPIRUN" -n 3 --mca coll_gpuring_priority 0 "$programs/staged_large" -f 7
adopt_as_one "3 ranks without the component, on host memory"

if [ ! -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    skip "built without CUDA: there is no device layer to test" "large collectives on device memory"
    finish
fi

use_gpus 2
export OMPI_MCA_coll_gpuring_stage_size=4096 OMPI_MCA_coll_gpuring_timeout=60
export GPURING_STANDIN_REPORT="$work/report"

mpi 240 1 staged_large -f 11
adopt_as_one "1 rank: nothing is cut"
for sample in "2 1" "3 2" "4 5"; do
    mpi 300 "${sample% *}" staged_large -f "${sample#* }"
    adopt "${sample% *} ranks"
done
nothing_held "all memory of chunks is given back"

mpi 300 3 staged_large -e
adopt "3 ranks, faults at the last"
check "the log says what follows from a fault" says 'gpuring ERROR \[stage-copy\] '
nothing_held "copies that fail leave nothing behind"
finish
