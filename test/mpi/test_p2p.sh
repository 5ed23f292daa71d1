#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test point-to-point calls on device memory of the stand-in driver (test/standin), with every installed PML.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

# GPURING_SOAK_SEED selects other random messages, and GPURING_SOAK_COUNT the number of rounds.
seed=${GPURING_SOAK_SEED:-4001}
count=${GPURING_SOAK_COUNT:-10}
echo "# GPURING_SOAK_SEED=$seed GPURING_SOAK_COUNT=$count repeats this run"

# Test the programs themselves on host memory with only the stock components.
run 120 "$MPIRUN" -n 3 --mca coll_gpuring_priority 0 "$programs/p2p" -f 4999
adopt_as_one "3 ranks without the component, on host memory"
run 120 "$MPIRUN" -n 3 --mca coll_gpuring_priority 0 "$programs/p2p_cases"
adopt_as_one "3 ranks without the component, on host memory: cases"
run 120 "$MPIRUN" -n 3 --mca coll_gpuring_priority 0 "$programs/p2p_soak" -s "$seed" -r "$count"
adopt_as_one "3 ranks without the component, on host memory: mixture, seed $seed"

if [ ! -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    skip "built without CUDA: there is no device layer to test" "messages on device memory"
    finish
fi

use_gpus 2
export GPURING_STANDIN_REPORT="$work/report" GPURING_STANDIN_PROTECT=0

lines_only() { # PATTERN: of the report of half of the processes
    ! grep -v "$1" "$work/half" && rm -f "$work/half"
}

over() { # NAME=VALUE...: the PML and its way, as parameters of Open MPI; to "pml"
    unset OMPI_MCA_pml OMPI_MCA_btl OMPI_MCA_pml_ucx_tls OMPI_MCA_pml_ucx_devices UCX_TLS
    for setting in "$@"; do
        # shellcheck disable=SC2163 # the value is NAME=VALUE
        export "$setting"
    done
    pml=$*
}

each_pml() { # COMMAND...: for shared memory, TCP and UCX
    over OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader
    $1
    over OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,tcp
    $2
    if "$OMPI_INFO" --parsable | grep -q '^mca:pml:ucx:version'; then
        over OMPI_MCA_pml=ucx OMPI_MCA_pml_ucx_tls=any OMPI_MCA_pml_ucx_devices=any \
            UCX_TLS=posix,cma,self
        $3
    else
        skip "this Open MPI is without UCX" "over UCX"
    fi
}

# The forms of calls depend on the PML less than on the place of the buffers, so each PML gets other combinations.
forms() {
    mpi 240 "$1" p2p -f "$2"
    adopt_as_one "forms of sends and receives, $1 ranks, $pml"
}
each_pml "guarded forms 3 1499" "forms 2 2999" "forms 3 1997"
nothing_held "all memory of messages is given back"

cases() {
    mpi 120 3 p2p_cases
    adopt_as_one "cases, 3 ranks, $pml"
    mpi 120 2 p2p_cases -t
    adopt_as_one "threads, $pml"
    mpi 120 3 p2p_soak -s "$seed" -r "$count"
    adopt_as_one "a mixture of messages and collectives, 3 ranks, seed $seed, $pml"
    mpi 60 2 p2p_offers direct
    adopt_as_one "offers: direct, $pml"
    for what in probe mprobe threads; do
        mpi 120 2 p2p_consent "$what"
        adopt_as_one "consent: $what, $pml"
    done
    mpi 60 2 n2 p2p_offers chunks
    adopt_as_one "offers: between nodes, $pml"
}
by_offers() {
    OMPI_MCA_coll_gpuring_p2p_rendezvous=1 mpi 120 4 p2p_soak -s "$((seed + 1))" -r "$count"
    adopt_as_one "a mixture of messages and collectives, 4 ranks, seed $((seed + 1)), by offers, $pml"
    mpi 60 4 n2 p2p_offers direct
    adopt_as_one "offers: 4 ranks on 2 nodes, $pml"
    mpi 60 2 p2p_offers first
    adopt_as_one "offers: first, $pml"
}
each_pml "guarded cases" cases cases
# TCP differs from shared memory only below ob1, which has received its offers above.
each_pml by_offers true by_offers
over OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader
mpi 120 1 p2p_cases
adopt_as_one "cases, 1 rank"
mpi 60 2 p2p_offers self
adopt_as_one "offers: self"
over
nothing_held "nor does any of the cases keep memory"

# Large messages that cannot be sent directly, or not with offers.
for fault in corrupt=1 nopeer=1; do
    GPURING_STANDIN_FAULTS=$fault mpi 60 2 p2p_offers chunks
    adopt_as_one "offers: $fault"
done
GPURING_STANDIN_GPUS=1 GPURING_STANDIN_MPS=0 mpi 60 2 p2p_offers chunks
adopt_as_one "offers: a GPU that is shared without MPS"
GPURING_STANDIN_FAULTS=late-reads=3000 mpi 60 2 p2p_offers direct
adopt_as_one "offers: the receiver's copies begin late"
# Faults of the sender and of the receiver, which the other rank does not reach.
for fault in cuIpcGetMemHandle=1:801 cuIpcOpenMemHandle_v2=1:217; do
    GPURING_STANDIN_REPORT="$work/half" OMPI_MCA_coll_gpuring_verbose=1 \
        GPURING_STANDIN_FAULTS=$fault mpi 60 2 p2p_offers chunks
    adopt_as_one "offers: $fault"
    check "$fault: the log says so" says '\[p2p-by-host\] '
    check "$fault: and nothing is kept" lines_only 'never calls'
done

# Messages that kernels copy. The stand-in's threads may need longer than the default patience.
kernels() { # RANKS MODE TEXT
    mpi 120 "$1" p2p_kernels "$2"
    adopt_as_one "kernels: $3"
}
export OMPI_MCA_coll_gpuring_patience=1000000
kernels 2 all "all messages"
kernels 4 all "all messages, 4 ranks"
GPURING_STANDIN_GPUS=1 kernels 2 all "on one GPU with MPS"
GPURING_STANDIN_GPUS=1 GPURING_STANDIN_MPS=0 kernels 2 none "on one GPU without MPS"
GPURING_STANDIN_CONCURRENT=0 kernels 2 none "the driver must report the end of kernels"
OMPI_MCA_coll_gpuring_p2p_level=PHB kernels 2 none "coll_gpuring_p2p_level"
OMPI_MCA_coll_gpuring_p2p_kernels=0 kernels 2 none "coll_gpuring_p2p_kernels"
for fault in corrupt=1 nopeer=1; do
    GPURING_STANDIN_FAULTS=$fault kernels 2 none "$fault"
done
GPURING_STANDIN_FAULTS=late-reads=3000 kernels 2 all "the receiver's kernels begin late"
for fault in cuModuleLoadData=1:218 cuFuncLoad=1:500; do
    GPURING_STANDIN_FAULTS=$fault kernels 2 none "$fault"
done
unset OMPI_MCA_coll_gpuring_patience
GPURING_STANDIN_GPUS=1 kernels 2 late "the sender's kernel waits for the default stream"
for fault in cuLaunchKernel=3:719 cuGraphLaunch=2:719; do
    : >"$work/half"
    GPURING_STANDIN_REPORT="$work/half" GPURING_STANDIN_FAULTS=$fault kernels 2 fails "$fault"
    check "$fault: nothing is kept" lines_only 'never calls'
done
mpi 120 11 p2p_offers crowd
adopt_as_one "offers: from one process to 10"
OMPI_MCA_coll_gpuring_p2p_level=PHB mpi 60 2 p2p_offers chunks
adopt_as_one "offers: coll_gpuring_p2p_level"
OMPI_MCA_coll_gpuring_p2p_rendezvous=0 mpi 60 2 p2p_offers staged
adopt_as_one "offers: none with coll_gpuring_p2p_rendezvous=0"
for what in question reply; do
    OMPI_MCA_mpi_param_check=0 mpi 60 2 p2p_offers staged "$what"
    adopt_as_one "offers: none after a $what of another version"
    [ "$what" = reply ] || check "which the log says" says '\[versions-differ\]'
done
GPURING_TEST_MEMORY=host OMPI_MCA_coll_gpuring_verbose=1 mpi 60 2 p2p_offers early
adopt_as_one "offers: none to a process that has given receives to the PML before"
check "which the log says" says '\[p2p-unseen\]'
GPURING_TEST_MEMORY=host mpi 60 2 p2p_consent early
adopt_as_one "consent: a blocking receive is there before the driver"
for fault in cuMemcpyAsync=12 cuStreamQuery=9; do
    GPURING_STANDIN_FAULTS=$fault:700 mpi 60 2 p2p_offers fails
    adopt_as_one "offers: $fault"
    check "$fault: the log says what follows from it" says 'gpuring ERROR \[p2p-c[a-z]*\] '
done
nothing_held "offers keep no memory"
under_way() {
    mpi 120 3 p2p_cases -l
    adopt_as_one "MPI_Finalize, $pml"
}
each_pml under_way under_way under_way
rm -f "$GPURING_STANDIN_REPORT" # a receive that never ends keeps its memory
over

# Test with another component that wraps the functions of the PML. (p2p_cases is not run, because Open MPI
# 4.1.4 itself crashes with that component when communicators are freed.)
export OMPI_MCA_pml_monitoring_enable=1
run 60 "$MPIRUN" -n 2 --mca coll_gpuring_priority 0 env GPURING_TEST_MEMORY=host "$programs/p2p" -f 9999
if [ "$status" -eq 0 ]; then
    mpi 120 2 p2p -f 9973
    adopt_as_one "with pml/monitoring"
else
    skip "this Open MPI crashes with it by itself" "with pml/monitoring"
fi
unset OMPI_MCA_pml_monitoring_enable

# A component that writes its functions into the table when the PML is enabled.
export OMPI_MCA_vprotocol=pessimist OMPI_MCA_pml=ob1
run 60 "$MPIRUN" -n 2 --mca coll_gpuring_priority 0 env GPURING_TEST_MEMORY=host "$programs/p2p" -f 9999
if ! "$OMPI_INFO" --parsable | grep -q '^mca:vprotocol:pessimist:version'; then
    skip "this Open MPI is without vprotocol/pessimist" "with pml/v"
elif [ "$status" -ne 0 ]; then
    skip "this Open MPI crashes with it by itself" "with pml/v"
else
    mpi 120 2 p2p -f 9973
    adopt_as_one "with pml/v"
fi
unset OMPI_MCA_vprotocol OMPI_MCA_pml

# Faults of copies to the host and to the GPU, and of polls for their end.
for fault in cuMemcpy2DAsync_v2=1 cuMemcpy2DAsync_v2=2 cuMemcpy2DAsync_v2=13 cuMemcpy2DAsync_v2=15 \
    cuMemcpy2DAsync_v2=16 cuStreamQuery=1 cuStreamQuery=5; do
    GPURING_STANDIN_FAULTS=$fault:700 guarded mpi 60 1 p2p_cases -e
    adopt "$fault"
    check "$fault: the log says what follows from it" says 'gpuring ERROR \[p2p-copy\] '
done
nothing_held "copies that fail leave nothing behind"
GPURING_STANDIN_FAULTS=cuMemHostRegister_v2=1:2 mpi 120 2 p2p_cases
adopt_as_one "no pinned memory"
check "no pinned memory: the log warns" says 'gpuring WARN \[pin-limit\] '
nothing_held "nor does pageable memory"

# Each memory allocation fails in turn; a rank is killed; processes are spawned.
for what in offered memory; do
    LD_PRELOAD="$top_builddir/test/mpi/.libs/memory_faults.so" mpi 120 1 p2p_faults "$what"
    adopt_as_one "one rank runs out of memory: $what"
    export OMPI_MCA_coll_gpuring_p2p_rendezvous=0
done
unset OMPI_MCA_coll_gpuring_p2p_rendezvous
check "the log says that memory lacks" says 'gpuring ERROR \[p2p-no-memory\] '
nothing_held "calls without memory leave nothing behind"
OMPI_MCA_coll_gpuring_priority=90 OMPI_MCA_coll_gpuring_device=cuda \
    LD_LIBRARY_PATH="$GPURING_TEST_DRIVER${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
    run 60 "$MPIRUN" -n 2 "$programs/p2p_faults" spawn
adopt "spawned processes"
nothing_held "spawned processes give all memory back"
run 60 "$MPIRUN" -n 3 --enable-recovery --mca coll_gpuring_priority 90 \
    --mca coll_gpuring_device cuda "$top_srcdir/test/mpi/as_nodes.sh" 1 3 "$programs/p2p_faults" killed
check "a killed rank: the 2 others get errors and go on" test "$(grep -c '^ok - rank [01] ' "$work/out")" -eq 6
check "a killed rank: the log says so" says '\[p2p-ended\]'
check "a killed rank: MPI_Abort ends the job in time" test "$status" -ne 124
if "$OMPI_INFO" | grep -q 'FT MPI support: yes'; then
    over OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader
    run 60 "$MPIRUN" -n 6 --with-ft ulfm --mca mpi_ft_enable 1 --mca coll_gpuring_priority 90 \
        --mca coll_gpuring_device cuda "$top_srcdir/test/mpi/as_nodes.sh" 1 6 \
        "$programs/p2p_faults" failed
    check "fault tolerance: 5 ranks that wait for a killed one get its error" \
        test "$(grep -c '^ok - rank [0-4] gets' "$work/out")" -eq 5
    check "fault tolerance: they exchange messages after MPIX_Comm_revoke" \
        test "$(grep -c '^ok - rank [0-4] exchanges' "$work/out")" -eq 5
    over
else
    skip "this Open MPI is without fault tolerance" "ranks that wait for a killed one, and go on"
fi
rm -f "$GPURING_STANDIN_REPORT" # the killed rank kept its memory
# A message of 3907 bytes may be an offer, so a probe has to read it. It arrives late if it is not sent eagerly.
over OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,tcp
OMPI_MCA_btl_tcp_eager_limit=2048 mpi 60 2 p2p_faults probe "$work/go"
adopt "a probe"
over

# Without coll_gpuring_p2p, this Open MPI does not support GPU buffers in messages.
OMPI_MCA_coll_gpuring_p2p=off guarded mpi 60 1 p2p_cases
check "coll_gpuring_p2p=off: the PML gets GPU memory" test "$status" -ne 0
rm -f "$GPURING_STANDIN_REPORT"
finish
