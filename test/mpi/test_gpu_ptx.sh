#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test MPI_Allreduce on device memory with the compiled kernels in the PTX interpreter of the stand-in driver.
# No result is from a GPU.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

ptx=$top_builddir/test/ptx/kernels.ptx
target=$(sed -n 's/^\.target sm_\([0-9]*\).*/\1/p' "$ptx" 2>/dev/null)
if [ -z "$target" ]; then
    skip "built without CUDA: there are no compiled kernels" "compiled kernels, interpreted"
    finish
elif [ "$target" -lt 90 ]; then
    skip "this nvcc makes no PTX of compute capability 9.0 and later: it is of $target" \
        "compiled kernels, interpreted"
    finish
fi
: "${GPURING_STANDIN_PTX_SEED:=1}"
echo "# the kernels' PTX for sm_$target, GPURING_STANDIN_PTX_SEED=$GPURING_STANDIN_PTX_SEED"
export GPURING_STANDIN_PTX="$ptx" GPURING_STANDIN_PTX_SEED GPURING_STANDIN_PROTECT=0
export OMPI_MCA_coll_gpuring_buffer_size=64k GPURING_STANDIN_REPORT="$work/report"

small=0,1,2,3,1023,1024,1025
for layout in "2 1" "3 1" "2 2" "3 3"; do
    ranks=${layout% *} gpus=${layout#* }
    use_gpus "$gpus"
    mpi 120 "$ranks" matrix -n $small,20000 -f 97 -s auto-simple auto-ll
    adopt_as_one "simple and ll, $ranks ranks on $gpus GPUs: every 97th combination"
    [ "$gpus" = 1 ] || nvlink_topology "$gpus"
    mpi 120 "$ranks" matrix -n $small,20000 -f 97 -s auto-ll128
    adopt_as_one "ll128, $ranks ranks on $gpus GPUs: every 97th combination"
    unset OMPI_MCA_coll_gpuring_topo_file
done

# Sizes around lines, slots and windows, from and to every offset.
edges=15,17,119,121,127,129,511,513,8191,8193,15359,15361,46081
mpi 120 3 matrix -m -n $edges -t MPI_UINT8_T -f 5 -s ring-auto tree-auto direct-auto
adopt_as_one "misaligned buffers of counts around all bounds"
mpi 120 3 n3 matrix -n 1,1000,30001 -f 61 -s
adopt_as_one "3 ranks on 3 nodes: every 61st combination"
use_gpus 2
OMPI_MCA_coll_gpuring_algorithm=two-shot OMPI_MCA_coll_gpuring_verbose=1 mpi 120 4 n2 native -l 1204 -f 101
adopt_as_one "4 ranks on 2 nodes: alltoall by node"
check "it is" says '\[serves\] .*first MPI_Alltoall .* algorithm two-shot'

# Persistent allreduces on mapped buffers.
use_gpus 3
nvlink_topology 3
GPURING_STANDIN_SMS=24 mpi 120 3 mapped few # with fewer multiprocessors, they are not faster in the model
adopt "3 ranks on mapped buffers"
unset OMPI_MCA_coll_gpuring_topo_file

# Kernels that linger. The seed also determines the speed of their clocks. On busy cores, a short time may
# always be over before the next call.
use_gpus 1
OMPI_MCA_coll_gpuring_linger=20 mpi 120 2 linger 200 any
adopt "kernels that linger for 20 us"
OMPI_MCA_coll_gpuring_linger=200 mpi 120 2 linger 200 some
adopt "kernels that linger for 200 us"

# Kernels of different processes cannot run concurrently. Small calls are served if an algorithm is
# selected.
export OMPI_MCA_coll_gpuring_algorithm=direct
GPURING_STANDIN_EXCLUSIVE="$work/gpu" mpi 120 3 matrix -n 1,1000,20001 -f 97 -s
adopt_as_one "3 ranks on one GPU that runs one kernel at a time"

# The same when the first clock stops, which may happen on a GPU. The second clock ends kernels.
sed 's/\(mov\.u64.*\), %globaltimer;/\1, 0;/' "$ptx" >"$work/still.ptx"
if cmp -s "$ptx" "$work/still.ptx"; then not_ok "kernels that read no clock"; fi
GPURING_STANDIN_PTX="$work/still.ptx" GPURING_STANDIN_EXCLUSIVE="$work/gpu" \
    mpi 60 3 matrix -n 1,1000,20001 -f 97 -s
adopt_as_one "the same where the GPU's timer stands still"
unset OMPI_MCA_coll_gpuring_algorithm
nothing_held "all ranks give back what they took, and do nothing that a GPU would not let pass"

# Check that faults are detected: the run must fail and name the kernel.
awk '/st\.global\.v2\.u64/ { sub(/\],/, "+8],"); sub(/\+[0-9]+\+8\]/, "+8]") }
    { print }' "$ptx" >"$work/mutant.ptx"
GPURING_STANDIN_PTX="$work/mutant.ptx" OMPI_MCA_coll_gpuring_timeout=10 \
    OMPI_MCA_coll_gpuring_protocol=simple mpi 120 2 matrix -n 20000 -f 97 -s
check "kernels that are wrong: the run fails" [ "$status" -ne 0 ]
check "kernels that are wrong: the message names kernel, line and thread" says \
    'kernel gpuring_[a-z0-9_]*, PTX line [0-9]* .*: block [0-9]*, thread [0-9]* writes 16 bytes'
finish
