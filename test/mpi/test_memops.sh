#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# MPI at once after copies that are synchronous by their name alone, on the stand-in driver
# (test/standin): nothing here is a result of a GPU.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

application="$top_builddir/test/standin/.libs/libcuda_application.so"
if [ ! -e "$application" ]; then
    skip "built without CUDA: there is no device layer to test" "copies before MPI calls"
    finish
fi

use_gpus 2
export GPURING_STANDIN_PROTECT=0 OMPI_MCA_coll_gpuring_buffer_size=64k
for sort in device managed pool vmm context; do
    mpi 120 2 memops "$application" $sort
    adopt_as_one "2 ranks: $sort memory"
    # Older drivers, and memory that the newest do not know either.
    GPURING_STANDIN_FAULTS=nomemops=1 mpi 120 2 memops "$application" $sort
    adopt_as_one "2 ranks, without the driver's help: $sort memory"
done
finish
