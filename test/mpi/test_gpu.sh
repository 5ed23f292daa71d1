#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test MPI_Allreduce on device memory of the stand-in driver (test/standin). No result is from a GPU. The
# programs are those of the host device.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

if [ ! -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    skip "built without CUDA: there is no device layer to test" "device memory"
    finish
fi

small=0,1,2,3,1023,1024,1025
# Use small FIFOs, so that vectors need many chunks, and the stand-in driver has less memory to protect.
export OMPI_MCA_coll_gpuring_buffer_size=64k GPURING_STANDIN_PROTECT=0

use_gpus 1
guarded mpi 120 2 matrix -n $small -f 17 -s
adopt_as_one "2 ranks on one GPU: every 17th combination, counts $small"
use_gpus 2
guarded mpi 120 2 n2 matrix -n 1,1000,30001 -f 20 -s
adopt_as_one "2 ranks on 2 nodes: every 20th combination"
guarded mpi 120 3 nonblocking few
adopt_as_one "3 ranks on 2 GPUs: non-blocking and persistent"

use_gpus 1
for sample in "2 3" "5 17"; do
    ranks=${sample% *} every=${sample#* }
    mpi 120 "$ranks" matrix -n $small -f "$every" -s
    adopt_as_one "$ranks ranks on one GPU: one of $every types and operations, counts $small"
done
# A communicator takes GPU memory by use.
at_most() { # MIB: all communicators of the last run were served, with at most this amount of memory
    sed -n 's/.*\[serves\].* \([0-9.]*\) MiB for connections.*/\1/p' "$work/out" |
        awk -v most="$1" '$1 > most { over = 1 } END { exit NR == 0 || over }'
}
use_gpus 8
OMPI_MCA_coll_gpuring_buffer_size=1m OMPI_MCA_coll_gpuring_verbose=1 mpi 120 8 matrix -n 0,1,500 -f 61 -s
check "8 ranks, small calls: at most 2 MiB of GPU memory" at_most 2
adopt_as_one "8 ranks, small calls"
use_gpus 4
for layout in "4 1" "4 2" "5 3"; do
    ranks=${layout% *} nodes=${layout#* }
    mpi 120 "$ranks" "n$nodes" matrix -n $small -f 13 -s
    adopt_as_one "$ranks ranks on $nodes nodes and 4 GPUs: every 13th combination, counts $small"
done
use_gpus 2
# Each algorithm with each protocol that needs no topology, between nodes or with many ranks on a GPU.
mpi 120 5 n2 matrix -n $small,20000,70001 -f 97 -s ring-simple tree-ll direct-simple
adopt_as_one "algorithms and protocols, 5 ranks on 2 nodes and 2 GPUs"
mpi 120 8 matrix -n $small,20000,70001 -f 97 -s ring-ll tree-simple direct-ll
adopt_as_one "algorithms and protocols, 8 ranks on 2 GPUs"
# LL128 is used only if a topology guarantees that lines are not split.
export OMPI_MCA_coll_gpuring_protocol=ll128 OMPI_MCA_coll_gpuring_verbose=1
OMPI_MCA_coll_gpuring_algorithm=ring mpi 120 2 matrix -n 1,20000 -f 97 -s
check "ll128 without a topology: the message" says '\[no-ll128\]'
check "ll128 without a topology: another protocol" silent '\[serves\] .*protocol ll128'
use_gpus 3
nvlink_topology 3
mpi 120 3 matrix -n $small,20000,70001 -f 97 -s ring-ll128 tree-ll128 direct-ll128 two-shot-ll128
for algorithm in ring tree direct two-shot; do
    check "$algorithm, ll128 over NVLink: obeyed" says "\[serves\] .* $algorithm, protocol ll128"
done
adopt_as_one "ll128, 3 ranks on 3 GPUs"
unset OMPI_MCA_coll_gpuring_protocol

# Ranks that share GPUs still use the topology. In a ring, ranks of the same GPU are neighbours.
OMPI_MCA_coll_gpuring_graph_dump_file="$work/graphs" mpi 120 6 matrix -n $small,20000,70001 -f 97 -s
check "6 ranks on 3 GPUs: by the topology" grep -q 'source="topology"' "$work/graphs"
check "6 ranks on 3 GPUs: neighbours share a GPU" \
    grep -Eq 'ring="0 3 (1 4 2 5|2 5 1 4)"|ring="0 (1 4 2 5|2 5 1 4) 3"' "$work/graphs"
check "6 ranks on 3 GPUs: several lanes" says '\[serves\] .* ([2-9]|[1-9][0-9]) channel'
adopt_as_one "6 ranks on 3 GPUs"
# coll_gpuring_p2p_level limits the distance of peers.
OMPI_MCA_coll_gpuring_p2p_level=NVL mpi 120 3 matrix -n 1,20000 -f 97 -s
check "p2p_level=NVL over NVLink: peers" says '\[serves\] .*transport peer,'
OMPI_MCA_coll_gpuring_p2p_level=LOC mpi 120 3 matrix -n $small,20000 -f 97 -s
check "p2p_level=LOC: through host memory" says '\[serves\] .*transport staged'
check "p2p_level=LOC: the message" says '\[far-peer\]'
adopt_as_one "p2p_level=LOC"
unset OMPI_MCA_coll_gpuring_topo_file OMPI_MCA_coll_gpuring_verbose
use_gpus 2

# Sizes of lines of LL and LL128, of slots (8 KiB here, 15 KiB of data with LL128) and of windows, and one byte
# less and more, from and to every offset.
edges=15,16,17,119,120,121,127,128,129,239,241,255,257,511,513
edges=$edges,8191,8192,8193,15359,15360,15361,16383,16385,24575,24577,46079,46081,65535,65537
mpi 120 3 matrix -m -n $edges -t MPI_UINT8_T -f 2 -s ring-simple direct-simple tree-ll direct-ll
adopt_as_one "misaligned buffers of counts around all bounds"
use_gpus 3
nvlink_topology 3
mpi 120 3 matrix -m -n $edges -t MPI_UINT8_T -f 2 -s ring-ll128 tree-ll128
adopt_as_one "ll128: misaligned buffers of counts around all bounds"
unset OMPI_MCA_coll_gpuring_topo_file
use_gpus 2
OMPI_MCA_coll_gpuring_buffer_size=1m mpi 120 4 matrix -n 1048579 -f 100 -s
adopt_as_one "4 ranks on 2 GPUs: every 100th combination, 1 Mi + 3 elements"

mpi 120 4 n2 nonblocking
adopt_as_one "4 ranks on 2 nodes: non-blocking and persistent"
for layout in "2 1" "4 2"; do
    ranks=${layout% *} nodes=${layout#* }
    mpi 120 "$ranks" "n$nodes" threads
    adopt_as_one "$ranks ranks on $nodes nodes: threads"
done
OMPI_MCA_coll_gpuring_check=data mpi 120 3 matrix -n 1,30000 -f 11 -s
adopt_as_one "3 ranks, check=data"

# Kernels of different processes cannot run concurrently, so a kernel must not spin while it waits for
# another one. Small calls are staged unless an algorithm is selected.
export GPURING_STANDIN_EXCLUSIVE="$work/gpu" GPURING_STANDIN_TURN_US=100
use_gpus 1
OMPI_MCA_coll_gpuring_verbose=1 mpi 120 4 matrix -n 1,1000,70001 -f 61
check "4 ranks that take turns on one GPU: the message" says '\[shared-gpu\] .*share .*take turns'
check "4 ranks that take turns on one GPU: small calls are staged" says 'delegated .*\[shared-gpu\]'
check "4 ranks that take turns on one GPU: small copies are made in rows" says '\[takes-turns\]'
adopt_as_one "4 ranks that take turns on one GPU"
export OMPI_MCA_coll_gpuring_algorithm=ring
mpi 120 4 matrix -n 1,1000,70001 -f 61 -s
adopt_as_one "4 ranks on one GPU that runs one kernel at a time"
mpi 120 3 nonblocking
adopt_as_one "3 ranks on one GPU that runs one kernel at a time: non-blocking and persistent"
unset GPURING_STANDIN_EXCLUSIVE GPURING_STANDIN_TURN_US OMPI_MCA_coll_gpuring_algorithm

use_gpus 2
guarded mpi 120 3 mixed
adopt "3 ranks on 2 GPUs"
OMPI_MCA_coll_gpuring_agree=always guarded mpi 120 3 mixed -a
adopt_as_one "3 ranks, agree=always: any mixture of host and GPU buffers"
OMPI_MCA_coll_gpuring_agree=always mpi 120 3 nonblocking
adopt_as_one "3 ranks, agree=always: non-blocking and persistent"
mpi 120 3 mixed -e
adopt "3 ranks, a mixture without agree=always"
check "a mixture without agree=always: the message" says '\[mixed-memory\]'
check "a mixture without agree=always: it names the ranks" says 'rank 2: '

# Each rank may see different GPUs, in any order.
use_gpus 4
name=73000000-0000-0000-0000-0000000000
export OMPI_MCA_coll_gpuring_verbose=1
for seen in "1,0 2,0 3,1,2 3" "GPU-${name}03 GPU-${name}02 1 0"; do
    GPURING_TEST_VISIBLE=$seen mpi 120 4 matrix -n 1,1000,70001 -f 61 -s
    check "ranks that see the GPUs $seen: none shares one" silent '\[shared-gpu\]'
    check "ranks that see the GPUs $seen: they reach each other" says '\[serves\] .*transport peer'
    adopt_as_one "ranks that see the GPUs $seen"
done
GPURING_TEST_VISIBLE="3 GPU-${name}03 1 0" mpi 120 4 matrix -n 1,1000,70001 -f 61 -s
check "ranks that see one GPU by two names: they share it" says '\[shared-gpu\]'
adopt_as_one "ranks that see one GPU by two names"

# Two GPUs are divided. Instances have no path to each other, not even within a GPU.
use_gpus 2
export GPURING_STANDIN_MIG=2
GPURING_TEST_VISIBLE="MIG-${name}00 MIG-${name}01 MIG-${name}02 MIG-${name}03" \
    guarded mpi 120 4 matrix -n 1,1000,70001 -f 61 -s
check "instances of divided GPUs: connected through host memory" says '\[serves\] .*transport staged'
check "instances of divided GPUs: the message says why" says '\[no-peer\]'
check "instances of divided GPUs: no error is reported" silent 'gpuring ERROR'
adopt_as_one "ranks on instances of divided GPUs"
unset GPURING_STANDIN_MIG

# The driver fails if ranks see different GPUs (Slurm, cgroups), or if it does not support IPC.
for fault in cuIpcOpenMemHandle_v2=1:1 cuIpcOpenMemHandle_v2=1:400 cuIpcGetMemHandle=1:801; do
    GPURING_STANDIN_FAULTS=$fault mpi 120 2 matrix -n 1,1000,70001 -f 97 -s
    check "$fault: connected through host memory" says '\[serves\] .*transport staged'
    check "$fault: the message says why" says '\[no-peer\]'
    check "$fault: that is no error" silent 'gpuring ERROR'
    adopt_as_one "$fault"
done
unset OMPI_MCA_coll_gpuring_verbose

# Memory of other sorts. No other process can map memory of pools or virtual memory calls, or needs to.
for sort in managed pool vmm; do
    export GPURING_TEST_SORT=$sort
    mpi 120 3 matrix -n 1,1000,70001 -f 61 -s
    adopt_as_one "3 ranks on 2 GPUs: $sort memory"
    guarded mpi 120 2 staged -f 167
    adopt_as_one "2 ranks: collectives that are staged, on $sort memory"
done
GPURING_TEST_SORT=registered mpi 120 2 matrix -n 1,1000,70001 -f 61
adopt_as_one "2 ranks: registered memory of the host"
unset GPURING_TEST_SORT
export OMPI_MCA_coll_gpuring_linger=0
OMPI_MCA_coll_gpuring_buffer_size=1m mpi 120 2 driver_calls
adopt "2 ranks: questions to the driver"
GPURING_STANDIN_CONCURRENT=0 OMPI_MCA_coll_gpuring_buffer_size=1m mpi 120 2 driver_calls
adopt "2 ranks, the host must know that kernels have ended: questions to the driver"
unset OMPI_MCA_coll_gpuring_linger

# Kernels that linger for the next call. Without MPS they must not, because they keep the GPU from other ranks.
use_gpus 1
export OMPI_MCA_coll_gpuring_linger=400
for ranks in 2 3; do
    mpi 120 $ranks linger 1000 any
    adopt "$ranks ranks, kernels that linger for 400 us"
    GPURING_STANDIN_LINGER=250 mpi 120 $ranks linger 100 some
    adopt "$ranks ranks, kernels that linger for 100 ms"
done
mpi 120 4 n2 linger 100 none
adopt "kernels do not linger between nodes"
GPURING_STANDIN_MPS=0 OMPI_MCA_coll_gpuring_algorithm=direct mpi 120 2 linger 100 none
adopt "kernels do not linger where ranks take turns on a GPU"
OMPI_MCA_coll_gpuring_linger=0 mpi 120 2 linger 100 none
adopt "kernels do not linger if that is turned off"
OMPI_MCA_coll_gpuring_linger=1000 mpi 120 3 matrix -n $small -f 11 -s
adopt_as_one "3 ranks, kernels that linger"
unset OMPI_MCA_coll_gpuring_linger
use_gpus 2

# Kernels are launched without a graph if the driver refuses one.
for fault in cuStreamGetPriority=1:400 cuGraphCreate=1:2 cuGraphAddKernelNode=1:1 \
    cuGraphKernelNodeSetAttribute=1:1 cuGraphInstantiateWithFlags=1:2 cuGraphExecKernelNodeSetParams=3:1; do
    GPURING_STANDIN_FAULTS=$fault OMPI_MCA_coll_gpuring_verbose=1 mpi 120 2 matrix -n 1,1000 -f 61 -s
    check "$fault: the message" says 'launched without a CUDA graph'
    adopt_as_one "$fault"
done

# A driver that is too old for the kernels is detected at wire-up, also with one rank per node.
for layout in "2 1" "2 2"; do
    ranks=${layout% *} nodes=${layout#* }
    GPURING_STANDIN_FAULTS=cuModuleLoadData=1:222 guarded mpi 120 "$ranks" "n$nodes" matrix -n 1,1000 -f 97
    check "$ranks ranks on $nodes nodes, kernels that the driver refuses: the message" \
        says '\[kernels-refused\] .*driver of version [0-9]'
    adopt_as_one "$ranks ranks on $nodes nodes, kernels that the driver refuses: staged"
done

# The stock components serve calls without buffers on a GPU, and all calls if there is no driver.
OMPI_MCA_coll_gpuring_timeout=8 mpi 120 2 mixed -u
check "the same at the first call of a communicator: the message names the reason and the remedy" \
    says '\[no-answer\]'
check "the same at the first call of a communicator: an MPI error when the time is over" \
    says 'rank 0: an MPI error after all'
unset OMPI_MCA_coll_gpuring_buffer_size
mpi 120 3 semantics
adopt_as_one "3 ranks: communicators, operations and types around it"
device=auto
for ranks in 2 3; do
    GPURING_TEST_MEMORY=host OMPI_MCA_coll_gpuring_verbose=3 \
        mpi 120 "$ranks" late_driver 16384
    adopt "$ranks ranks, device auto"
    # On one communicator before calls 7 and 15, on the other before 1, 3 and 7.
    check "without a driver the ranks agree ever more rarely" \
        test "$(grep -c 'agreed: no ranks have a buffer on a GPU' "$work/out")" -eq $((5 * ranks))
done
check "without a driver: the log gives the reason" \
    says 'calls are delegated .*\[no-driver\]'
GPURING_TEST_MEMORY=host mpi 120 3 semantics
adopt_as_one "3 ranks, device auto with a driver, host buffers"

# More than 2^31 and 2^32 bytes. The buffers of both ranks are in host memory here.
gib_free=$(awk '/^MemAvailable:/ { print int($2 / 1048576) }' /proc/meminfo)
bytes=4294967296
[ "$gib_free" -ge 12 ] || bytes=2147483648
use_gpus 1
if [ "$gib_free" -ge 6 ]; then
    OMPI_MCA_coll_gpuring_buffer_size=1m mpi 600 2 large_vectors $bytes
    adopt "2 ranks, more than $bytes bytes"
else
    skip "only $gib_free GiB of memory are free: 6 are needed" "more than 2^31 bytes"
fi

finish
