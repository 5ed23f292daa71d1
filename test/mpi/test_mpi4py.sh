#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test mpi4py with device memory, like that of CuPy and PyTorch, on the stand-in driver.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

if [ ! -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    skip "built without CUDA: there is no device layer to test" "mpi4py"
    finish
fi
python=/usr/bin/python3 # Debian's, which has Debian's mpi4py
if ! "$python" -c 'import mpi4py' 2>/dev/null; then
    skip "no mpi4py: install python3-mpi4py, as test/packages.txt says" "mpi4py"
    finish
fi
use_gpus 2
programs=
export LD_LIBRARY_PATH="$GPURING_TEST_DRIVER${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export GPURING_STANDIN_REPORT="$work/report"
: >"$work/report"
for ranks in 2 3; do
    OMPI_MCA_coll_gpuring_verbose=1 mpi 120 "$ranks" "$python" "$top_srcdir/test/mpi/cuda_array.py"
    adopt "$ranks ranks"
    check "$ranks ranks: coll/gpuring serves" says '\[serves\] .*MPI_Allreduce'
done
check "no misuse of the driver" sh -c '! grep -q misuses "$1"' sh "$work/report"
finish
