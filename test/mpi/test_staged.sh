#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test every collective in every form, served or staged, on device memory of the stand-in driver
# (test/standin). Results are compared with the same calls on host memory.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

# Test the programs themselves on host memory with only the stock components.
run 240 "$MPIRUN" -n 3 --mca coll_gpuring_priority 0 "$programs/staged" -f 29
adopt_as_one "3 ranks without the component, on host memory"
run 240 "$MPIRUN" -n 3 --mca coll_gpuring_priority 0 "$programs/staged_cases"
adopt_as_one "3 ranks without the component, on host memory: cases"

if [ ! -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    skip "built without CUDA: there is no device layer to test" "collectives on device memory"
    finish
fi

use_gpus 2
export OMPI_MCA_coll_gpuring_buffer_size=64k
export GPURING_STANDIN_REPORT="$work/report" GPURING_STANDIN_PROTECT=0

guarded mpi 240 1 staged -f 3
adopt_as_one "1 rank: every 3rd combination"
for ranks in 2 3 4; do
    mpi 240 "$ranks" staged -f $((ranks * ranks * 3 - 1))
    adopt_as_one "$ranks ranks: combinations of collectives, forms, types, buffers, in place, roots"
    OMPI_MCA_coll_gpuring_agree=always guarded mpi 240 "$ranks" staged -f $((ranks * ranks * 7 - 1))
    adopt_as_one "$ranks ranks: the same with agree=always, any mixture of buffers"
done
nothing_held "all memory of staging is given back"

for ranks in 1 2 4; do
    OMPI_MCA_coll_gpuring_verbose=1 guarded mpi 240 "$ranks" staged_cases
    adopt "$ranks ranks"
done
check "the log names what is staged" \
    says 'gpuring INFO \[staged\] .*: MPI_Bcast'
nothing_held "all memory of the cases is given back"
OMPI_MCA_coll_gpuring_algorithm=previous mpi 240 3 staged_cases
adopt_as_one "3 ranks, nothing is served"
mpi 240 2 staged_cases -t
adopt "2 ranks"
nothing_held "all memory of threads is given back"

# Faults. Only staging copies rows: the first copy is before a call, and the second one after it.
export OMPI_MCA_coll_gpuring_algorithm=previous
for fault in cuMemcpy2DAsync_v2=1 cuMemcpy2DAsync_v2=2 cuMemcpy2DAsync_v2=3 cuMemcpy2DAsync_v2=4; do
    GPURING_STANDIN_FAULTS=$fault:700 guarded mpi 240 1 staged_cases -e
    adopt "$fault"
    check "$fault: the log says what failed" says 'gpuring ERROR \[stage-copy\] '
done
GPURING_STANDIN_FAULTS=cuStreamQuery=1:700 mpi 240 1 staged_cases -e
adopt "cuStreamQuery"
nothing_held "copies that fail leave nothing behind"
GPURING_STANDIN_FAULTS=cuMemHostRegister_v2=1:2 mpi 240 2 staged_cases
adopt_as_one "no pinned memory"
check "no pinned memory: the log warns" says 'gpuring WARN \[pin-limit\] '
check "no pinned memory: the limit on locked memory is the cause, not GPU memory" \
    sh -c "grep -q 'gpuring ERROR .lock-limit. ' '$work/out' && ! grep -q 'gpu-memory' '$work/out'"
nothing_held "nor does pageable memory"
finish
