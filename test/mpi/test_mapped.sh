#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test persistent allreduces on mapped buffers, on the stand-in driver (test/standin). No result is from a GPU.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

if [ ! -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    skip "built without CUDA: there is no device layer to test" "mapped buffers"
    finish
fi

export OMPI_MCA_coll_gpuring_buffer_size=64k GPURING_STANDIN_PROTECT=0 OMPI_MCA_coll_gpuring_verbose=1
export GPURING_STANDIN_REPORT="$work/report"
# With fewer multiprocessors, and between two GPUs, mapped buffers are not faster in the model.
export GPURING_STANDIN_SMS=24
use_gpus 3
nvlink_topology 3
guarded mpi 120 3 mapped yes
adopt "3 ranks"
check "3 ranks: the log reports mapped buffers" says '\[serves\] .* algorithm two-shot, protocol simple, on mapped buffers'
OMPI_MCA_coll_gpuring_deterministic=1 mpi 120 3 mapped yes
adopt_as_one "3 ranks, deterministic"
mpi 120 3 mapped odd
check "3 ranks: the log says why buffers are not mapped" says '\[unmapped\].*those of this rank cannot be mapped'
check "3 ranks: the other ranks say it, too" says '\[unmapped\].*not all ranks'
adopt "3 ranks"
use_gpus 1
nvlink_topology 1
mpi 120 4 mapped yes
adopt_as_one "4 ranks on one GPU"
use_gpus 3
nvlink_topology 3
nothing_held "mappings: nothing is held"

OMPI_MCA_coll_gpuring_timeout=2 mpi 60 3 mapped late
adopt "3 ranks"
for when in before after; do
    run 60 "$MPIRUN" -n 3 --enable-recovery --mca coll_gpuring_priority 90 --mca coll_gpuring_device cuda \
        "$top_srcdir/test/mpi/as_nodes.sh" 1 3 "$programs/mapped" $when
    [ $when = before ] && result=error || result='(error|success)' # its kernel may have ended
    check "a rank is killed $when it has started: the others end" \
        test "$(grep -Ec "^rank [01]: $result\$" "$work/out")" -eq 2
    check "a rank is killed $when it has started: in time" test "$status" -ne 124
    check "a rank is killed $when it has started: the message" says '\[peer-died\]|\[peer-gone\]'
done
rm -f "$GPURING_STANDIN_REPORT" # killed processes release nothing

mpi 120 3 mapped faults
adopt "3 ranks"
nothing_held "faults: nothing is held"

OMPI_MCA_coll_gpuring_map_buffers=0 mpi 120 3 mapped no
adopt_as_one "coll_gpuring_map_buffers=0"
OMPI_MCA_coll_gpuring_p2p_level=LOC mpi 120 3 mapped no
adopt_as_one "p2p_level=LOC"
OMPI_MCA_coll_gpuring_algorithm=ring mpi 120 3 mapped no
adopt_as_one "a selected algorithm"
for sort in pool vmm managed; do
    GPURING_TEST_SORT=$sort mpi 120 2 mapped no
    adopt_as_one "memory of sort $sort"
done
mpi 120 2 n2 mapped no
adopt_as_one "2 nodes"
unset OMPI_MCA_coll_gpuring_topo_file
mpi 120 2 mapped no
adopt_as_one "an unknown topology"
finish
