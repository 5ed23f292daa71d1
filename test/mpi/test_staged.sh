#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Collectives on device memory that do not run on the GPU, on the stand-in driver (test/standin):
# every one of them, against the same call on host memory.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

# The test itself: on host memory, with the stock components alone.
run 120 "$MPIRUN" -n 3 --mca coll_gpuring_priority 0 "$programs/staged" -f 7
adopt_as_one "3 ranks without the component, on host memory"

if [ ! -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    skip "built without CUDA: there is no device layer to test" "collectives on device memory"
    finish
fi
finish
