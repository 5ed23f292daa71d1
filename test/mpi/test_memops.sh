#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test MPI calls immediately after work of the program on a default stream: copies that are synchronous only in
# name, and kernels that still run. Uses the stand-in driver (test/standin), so no result is from a GPU.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

application="$top_builddir/test/standin/.libs/libcuda_application.so"
if [ ! -e "$application" ]; then
    skip "built without CUDA: there is no device layer to test" "copies before MPI calls"
    finish
fi

use_gpus 2
export GPURING_STANDIN_PROTECT=0 OMPI_MCA_coll_gpuring_buffer_size=64k
export OMPI_MCA_coll_gpuring_default_stream=none # so that copies end by other means
for sort in device managed pool vmm context; do
    mpi 120 2 memops "$application" $sort copies
    adopt_as_one "2 ranks: $sort memory"
    # Drivers that do not support this attribute.
    GPURING_STANDIN_FAULTS=nomemops=1 mpi 120 2 memops "$application" $sort copies
    adopt_as_one "2 ranks, without the driver's help: $sort memory"
done

unset OMPI_MCA_coll_gpuring_default_stream
for sort in device managed pool vmm context; do
    mpi 120 2 memops "$application" $sort legacy
    adopt_as_one "2 ranks: $sort memory after a kernel on the legacy stream"
done
mpi 120 2 memops "$application" device thread
adopt_as_one "2 ranks: after a kernel on the thread's default stream"
mpi 120 2 memops "$application" device captured
adopt_as_one "2 ranks: while a blocking stream is captured"

export OMPI_MCA_coll_gpuring_default_stream=warn
mpi 120 2 memops "$application" device legacy
check "default_stream=warn: results show that calls do not wait" says '^not ok .* after legacy'
check "and each rank says why, once" test "$(grep -c '\[default-stream\]' "$work/out")" -eq 2
mpi 120 2 memops "$application" device captured
adopt_as_one "default_stream=warn: while a blocking stream is captured"
export OMPI_MCA_coll_gpuring_default_stream=none
mpi 120 2 memops "$application" device legacy
check "default_stream=none: no message" silent '\[default-stream\]'
finish
