#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test the net verbs between simulated nodes on the stand-in for libibverbs (test/wire/wire.h): data over
# RoCE and InfiniBand with several ports, slots in GPU memory, ports that fail, bad choices of ports, missing
# devices, ranks that are late or take no messages, and many communicators. No result is from a device.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

wire=$top_builddir/test/wire/.libs/libibverbs.so.1
if [ ! -e "$wire" ]; then
    skip "built without verbs" "verbs over the stand-in for libibverbs"
    finish
fi
wire=$(cd "$(dirname "$wire")" && pwd)/libibverbs.so.1
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self,vader OMPI_MCA_coll_gpuring_net=verbs
export OMPI_MCA_coll_gpuring_verbose=1 GPURING_WIRE_FILE="$work/wire"
# Components that depend on the real library do not load. They are not used here.
export OMPI_MCA_mca_base_component_show_load_errors=0

over_wire() { # SECONDS RANKS nNODES [NAME=VALUE...] PROGRAM ARGS...
    seconds=$1 ranks=$2 nodes=${3#n}
    shift 3
    rm -f "$work/wire"
    run "$seconds" "$MPIRUN" -n "$ranks" --mca coll_gpuring_priority 90 \
        --mca coll_gpuring_device "$device" "$top_srcdir/test/mpi/as_nodes.sh" "$nodes" "$ranks" \
        env LD_PRELOAD="$wire" "$@"
}

over_wire 60 4 n2 GPURING_WIRE_DEVICES=2 OMPI_MCA_coll_gpuring_check=plans "$programs/matrix" \
    -n 0,1,1023,1025,65537 -f 60 -s
if says 'Operation not permitted|status 11'; then
    skip "processes may not write to each other's memory (process_vm_writev)" "the stand-in"
    finish
fi
adopt_as_one "4 ranks on 2 nodes with 2 ports of RoCE each"
check "the plan of doubling has a stripe for each rank of a node" \
    says 'check of plans: direct over 4 ranks in 2 lanes is proven'
check "shared memory inside, verbs outside" says '\[serves\] .*transport shm\+verbs'
over_wire 60 3 n3 GPURING_WIRE_LINK=ib "$programs/matrix" -n 1,4097,300001 -f 90 -s
adopt_as_one "3 nodes with a port of InfiniBand each, slots in two operations"
over_wire 60 2 n2 GPURING_WIRE_DEVICES=3 "$programs/nonblocking"
adopt_as_one "2 nodes with 3 ports each, non-blocking and persistent"

# Port wire0 of one node fails after some messages.
over_wire 60 2 n2 GPURING_WIRE_DEVICES=2 GPURING_WIRE_FAULT=down GPURING_WIRE_FAULT_AFTER=150 \
    "$programs/matrix" -n 1,1025,65537 -f 20 -s
adopt_as_one "a port of two fails: data are right"
check "which port failed, and which one serves now" \
    says '\[verbs-failover\] .* device wire0 port 1 failed.* device wire1 port 1'
check "the device reports its port" says '\[port-down\] .*: device wire0 port 1 '
over_wire 60 2 n2 GPURING_WIRE_FAULT=down GPURING_WIRE_FAULT_AFTER=150 \
    "$top_builddir/test/rdma/steady" 60
check "the only port fails: an MPI error on both ranks" \
    test "$(grep -Ec '^ok - rank [01]: an error after [1-9][0-9]* operations' "$work/out")" -eq 2
check "the text names hosts, device, port and status" \
    says '\[verbs-failed\] .* to rank [01] on .*, device wire0 port 1.*\(status (5|12), '

# 20 communicators share the port that fails: all of them continue on the other port, or report an error.
over_wire 60 2 n2 GPURING_WIRE_DEVICES=2 GPURING_WIRE_FAULT=down GPURING_WIRE_FAULT_AFTER=500 \
    OMPI_MCA_coll_gpuring_connect_after=0 "$top_builddir/test/rdma/steady" 3 1000 0 20
check "20 communicators, a port of two fails: all go on, data are right" \
    test "$(grep -Ec '^ok - rank [01]: [1-9][0-9]* operations right' "$work/out")" -eq 2
check "each process has one warning, with the number of connections" \
    test "$(grep -c '\[verbs-failover\] .*; [1-9][0-9]* other connections use' "$work/out")" -eq 2
over_wire 60 2 n2 GPURING_WIRE_FAULT=down GPURING_WIRE_FAULT_AFTER=500 \
    OMPI_MCA_coll_gpuring_connect_after=0 "$top_builddir/test/rdma/steady" 60 1000 0 20
check "20 communicators, the only port fails: an MPI error of each on both ranks" \
    test "$(grep -Ec '^ok - rank [01]: an error after [1-9][0-9]* operations' "$work/out")" -eq 2

# Choices and devices.
over_wire 60 2 n2 OMPI_MCA_coll_gpuring_verbs_hca=mlx5_7 "$programs/matrix" -n 1 -t MPI_INT
check "a device that does not exist: no host has a port" says '\[no-rdma-port\]'
over_wire 60 2 n2 GPURING_WIRE_DEVICES=2 OMPI_MCA_coll_gpuring_verbs_hca=^wire0 \
    OMPI_MCA_coll_gpuring_verbose=2 "$programs/matrix" -n 1 -t MPI_INT
check "a device that is excluded is not used" says 'does not use wire0:1 not selected'
over_wire 60 2 n2 OMPI_MCA_coll_gpuring_net=auto OMPI_MCA_coll_gpuring_algorithm=direct \
    "$top_srcdir/test/mpi/first_rank.sh" \
    GPURING_WIRE_FAULT no-open none "$programs/matrix" -n 1,1000 -f 40 -s
adopt_as_one "net=auto, one host cannot open its device"
check "net=auto: the log says what is missing" says '\[rdma-unusable\] .*/dev/infiniband'
check "net=auto: mpi, and the log names the host" says '\[network\] mpi .*\[(no-rdma-port|rdma-failed)\]'
over_wire 60 2 n2 GPURING_WIRE_DEVICES=2 OMPI_MCA_coll_gpuring_net=auto OMPI_MCA_coll_gpuring_algorithm=direct \
    "$top_srcdir/test/mpi/first_rank.sh" GPURING_WIRE_FAULT few-pairs none "$programs/matrix" -n 1,1000 -f 40 -s
adopt_as_one "net=auto, one host has no queue pair for the spare"
check "net=auto: the log names the device without queue pairs" \
    says '\[no-queue-pair\] .* device wire1 port 1: Cannot allocate memory'
check "net=auto: mpi, because RDMA did not connect" says '\[network\] mpi .*\[rdma-failed\]'

# A rank may leave MPI for longer than the first chunks may take, 2 s with this time limit. On a busy machine, the
# other rank may need longer for a stage of the wire-up.
attempt=1
while [ $attempt -le 3 ]; do
    over_wire 60 2 n2 OMPI_MCA_coll_gpuring_net=auto OMPI_MCA_coll_gpuring_timeout=4 \
        OMPI_MCA_coll_gpuring_pool_size=0 OMPI_MCA_coll_gpuring_connect_after=0 "$top_builddir/test/wire/late" 3 \
        $((50 * attempt * attempt))
    ! says '\[first-chunk\]' || break
    attempt=$((attempt + 1))
done
adopt_as_one "net=auto, a rank leaves MPI during its first call"
check "net=auto: the ranks connect again through verbs" says '\[first-chunk\] all ranks connect again'
check "net=auto: they then use verbs" silent '\[network\] mpi'

# A call must not wait until the peer takes its credits, because the peer may have ended it. It does wait until
# the network has taken its data.
over_wire 60 2 n2 OMPI_MCA_coll_gpuring_connect_after=0 "$top_builddir/test/wire/owed" credits 60
adopt "the peer cannot take a credit, and needs none"
over_wire 60 2 n2 OMPI_MCA_coll_gpuring_connect_after=0 "$top_builddir/test/wire/owed" data 60
adopt "a port fails at the end of a call"

# Small calls register short slots. Longer slots replace them, and the number of queue pairs stays the same.
over_wire 60 2 n2 "$top_builddir/test/wire/grow"
adopt "2 nodes: memory and queue pairs of small and large calls"
over_wire 60 3 n3 OMPI_MCA_coll_gpuring_algorithm=direct OMPI_MCA_coll_gpuring_check=plans \
    "$top_builddir/test/wire/grow"
adopt "3 nodes: memory and queue pairs of small and large calls"
over_wire 100 2 n2 LD_PRELOAD="$wire:$top_builddir/test/mpi/.libs/memory_faults.so" \
    OMPI_MCA_coll_gpuring_pool_size=0 OMPI_MCA_coll_gpuring_timeout=60 "$programs/wireup_memory" 1 longer
adopt "rank 1 runs out of memory while longer slots replace short ones"
check "other components then run calls that need longer slots" \
    says 'other components run the calls that need more connections'
# A port fails with small calls only, and with longer slots.
for after in 10 24 38; do
    over_wire 60 2 n2 GPURING_WIRE_DEVICES=2 GPURING_WIRE_FAULT=down GPURING_WIRE_FAULT_AFTER=$after \
        "$top_builddir/test/wire/grow" any
    adopt_as_one "a port of two fails after $after messages of small and large calls: data are right"
    check "the port failed after $after messages" says '\[verbs-failover\] .* device wire0 port 1 failed'
done

# All communicators of two processes use the same queue pairs.
over_wire 120 2 n2 OMPI_MCA_coll_gpuring_connect_after=0 "$top_builddir/test/wire/crowd" 100
adopt "many communicators"

# Slots in GPU memory. The stand-in driver provides the GPUs. Reads of the stand-in device flush.
if [ -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    use_gpus 2
    export GPURING_STANDIN_PROTECT=0 GPURING_STANDIN_GDR=3
    over_wire 60 2 n2 OMPI_MCA_coll_gpuring_gdr_level=SYS OMPI_MCA_coll_gpuring_buffer_size=256k \
        "$programs/matrix" -n 1,1025,30001 -f 29 -s
    adopt_as_one "slots in GPU memory"
    check "the log says how" says '\[gdr\] .*: [1-9][0-9]* of.*flushed by reading'
fi
finish
