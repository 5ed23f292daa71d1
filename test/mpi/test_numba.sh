#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test mpi4py with arrays of Numba on the stand-in driver. No result is from a GPU.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

driver=$top_builddir/test/standin/.libs/libcuda_application.so
if [ ! -e "$driver" ]; then
    skip "built without CUDA: there is no device layer to test" "Numba"
    finish
fi
python=/usr/bin/python3 # Debian's, which has Debian's packages
for module in mpi4py numba; do
    if ! "$python" -c "import $module" 2>/dev/null; then
        skip "no $module: install python3-$module, as test/packages.txt says" "Numba"
        finish
    fi
done
use_gpus 1
programs=
device=auto
export NUMBA_CUDA_DRIVER="$driver" PYTHONDONTWRITEBYTECODE=1
export GPURING_STANDIN_REPORT="$work/report"
for layout in "2 1" "3 2" "3 3"; do
    ranks=${layout% *} gpus=${layout#* }
    export GPURING_STANDIN_GPUS="$gpus"
    mpi 120 "$ranks" "$python" "$top_srcdir/test/mpi/numba_arrays.py"
    check "$ranks ranks, $gpus GPUs: they reach each other" \
        silent '\[peer-silent\]'
    adopt_as_one "$ranks ranks, $gpus GPUs"
done
# Serve calls with a root also between nodes, and stage all messages, also large ones.
OMPI_MCA_coll_gpuring_agree_size=64k OMPI_MCA_coll_gpuring_p2p_rendezvous=0 \
    mpi 120 3 n2 "$python" "$top_srcdir/test/mpi/numba_arrays.py" 300007
adopt_as_one "3 ranks on 2 nodes, 300007 elements"
OMPI_MCA_coll_gpuring_algorithm=previous mpi 120 2 "$python" "$top_srcdir/test/mpi/numba_arrays.py"
check "the counters tell when nothing is served" says '^not ok .* allreduce, device arrays: served'

# The program of the documentation that enqueues a call in a stream.
sed -n '/^## Calls in a stream/,/^## What/s/^    //p' "$top_srcdir/doc/user/python.md" >"$work/stream.py"
GPURING_TEST_DRIVER="$GPURING_TEST_DRIVER:$top_builddir/tools/.libs" \
    mpi 60 3 "$python" "$work/stream.py"
check "the program of doc/user/python.md runs" test "$status" -eq 0
# The lines of different ranks may be mixed.
check "and its results are right" test "$(grep -o '6\.0' "$work/out" | wc -l)" -eq 6
touch "$work/report"
# Each process detects a reset when it first uses an older object, so exactly one such misuse is permitted
# per process.
lost='the kernel was loaded in another context'
lost="$lost|standin_stream_queue: another context is current"
grep misuses "$work/report" | grep -Ev "misuses ($lost)\$" >"$work/out"
check "no misuse of the driver but that by which a reset shows" silent misuses
grep misuses "$work/report" | cut -d ' ' -f 1-2 | sort | uniq -d >"$work/out"
check "nothing of a context that was reset is used again" silent pid
finish
