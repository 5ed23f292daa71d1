#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test calls in streams with libgpuring_stream.so on the stand-in driver. No result is from a GPU.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

if [ ! -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    skip "built without CUDA: there is no device layer to test" "calls in streams"
    finish
fi
export GPURING_STANDIN_REPORT="$work/report" GPURING_STANDIN_PROTECT=0

# enqueued RANKS GPUS CASE: run the program `enqueued` with RANKS ranks on GPUS GPUs.
enqueued() {
    use_gpus "$2"
    mpi 60 "$1" enqueued "$3"
    adopt_as_one "$1 ranks on $2 GPU(s): $3"
}
GPURING_STANDIN_PROTECT=1 enqueued 2 1 results
enqueued 4 2 results
enqueued 8 1 results
enqueued 1 1 results
enqueued 3 3 chain
enqueued 8 2 roots
enqueued 3 1 graph
enqueued 2 2 graph
enqueued 1 1 graph
enqueued 4 1 streams
enqueued 4 2 free
enqueued 2 1 costs
enqueued 2 1 errors
for code in host-buffer datatype operation counts any-source any-tag self messages graph-messages; do
    check "the message has its code: $code" says "\[stream-$code\] MPIX_"
done
check "a message in host memory is refused when it is posted" \
    says '\[stream-host-buffer\] MPIX_Irecv_enqueue'
check "a request that is passed to MPI_Wait is reported" says '\[stream-request\] a request of MPIX_Isend'
# Messages are longer than the slots of a connection.
export OMPI_MCA_coll_gpuring_buffer_size=64K
enqueued 2 1 messages
enqueued 4 2 messages
unset OMPI_MCA_coll_gpuring_buffer_size

# between NET NODES RANKS CASE [threads]: the same between simulated nodes.
between() {
    use_gpus 1
    OMPI_MCA_coll_gpuring_net=$1 mpi 60 "$3" "n$2" enqueued "$4" ${5+"$5"}
    adopt_as_one "$3 ranks on $2 nodes by $1: $4"
}
between mpi 2 4 graph threads
between mpi 3 3 chain threads
between mpi 3 6 free threads
between mpi 2 4 messages threads
if grep -q 'GPURING_HAVE_UCX *1' "$top_builddir/gpuring_config.h"; then
    nets="ucx mpi"
    between ucx 2 4 results
    between ucx 2 4 graph
    between ucx 2 2 streams
    between ucx 3 3 messages
else
    nets=mpi
    skip "built without UCX" "between nodes by ucx"
fi
nothing_held "nothing is leaked or misused"
for net in $nets; do
    OMPI_MCA_coll_gpuring_timeout=1 between "$net" 2 4 late threads
    check "the message names the call" \
        says '\[stalled\] communicator stream of MPI_COMM_WORLD.*queued MPI_Allreduce of 4000 bytes'
    OMPI_MCA_coll_gpuring_timeout=1 between "$net" 3 3 order threads
    check "different calls between nodes: the messages name the call of one rank" \
        says 'rank [01] of 3: .*the last calls here were: .*queued MPI_Allreduce of 4000 bytes.* operation 2'
    check "and the call of the other one" \
        says 'rank 2 of 3: .*the last calls here were: .*queued MPI_Bcast of 4000 bytes, root 0, operation 2'
done
for net in $nets; do
    between "$net" 2 4 nodes_wait threads
    check "different calls of equal size that wait: the message names both" \
        says '\[calls-differ\] this rank has queued MPI_(Bcast|Reduce) of 4000 bytes.*, and rank [0-3] MPI_(Reduce|Bcast) of 4000'
done
between mpi 2 4 nodes_end threads
check "different calls of equal size that end: the message names both" \
    says '\[calls-differ\] this rank has queued MPI_Allreduce of 4000 bytes \((sum|max) of int32\), and rank [0-3] MPI_Allreduce of 4000 bytes \((max|sum) of'
[ "$nets" = mpi ] || between ucx 2 4 nodes_end
between mpi 3 6 nodes_later threads
# On a slow machine, ranks may compare the calls while operation 2 is still one of the last.
check "long before: the message names the ranks" \
    says '\[calls-differ\] this rank (and rank [0-5] made different calls before operation|has queued .*, and rank [0-5] .*, as operation 2)'
OMPI_MCA_coll_gpuring_net=mpi mpi 60 4 n2 enqueued chain
check "MPI messages between nodes without MPI_THREAD_MULTIPLE are refused" says '\[stream-threads\]'
check "and the program goes no further" says 'Bail out! cannot go on without it'
rm -f "$GPURING_STANDIN_REPORT"

enqueued 3 1 message_tag
check "another message than expected: the error names both" \
    says '\[messages-differ\] MPIX_Recv_enqueue receives 4000 bytes with tag 6 from rank 2, which has sent 4000 bytes with tag 5'
enqueued 2 1 message_any
check "MPI_ANY_TAG for messages that were sent in another order than they were posted" \
    says '\[messages-differ\] MPIX_Recv_enqueue receives 4000 bytes with tag any from rank 1, which has sent 4000 bytes with tag 5 \(ordered by tags\)'
enqueued 2 1 message_count
check "another size than expected: the error names both" \
    says '\[messages-differ\] MPIX_Recv_enqueue receives 8000 bytes with tag 5 from rank 1, which has sent 4000 bytes'
enqueued 2 2 message_order
check "another order of messages and collectives is found" says '\[messages-differ\].* after 1 .* after 0'
between mpi 2 2 message_order threads
check "also between nodes" says '\[messages-differ\].* after 1 .* after 0'
OMPI_MCA_coll_gpuring_timeout=1 enqueued 3 1 late_message
check "a message that is not sent: the message names it and the rank" \
    says '\[stalled\].*queued MPIX_Recv_enqueue of 4000 bytes with tag 5 from rank 2.*: rank 2 may not have made'
enqueued 3 1 order
check "ranks that make different calls: the message names both" \
    says '\[calls-differ\].*'
check "and they are calls in a stream" says 'stream of MPI_COMM_WORLD'
OMPI_MCA_coll_gpuring_timeout=1 enqueued 3 1 late_graph
check "a rank that does not launch a graph: the message names the call" \
    says '\[stalled\] communicator stream of MPI_COMM_WORLD.*queued MPI_Allreduce of 4000 bytes.* in a CUDA graph'
OMPI_MCA_coll_gpuring_timeout=5 enqueued 12 1 late_roots
OMPI_MCA_coll_gpuring_timeout=1 enqueued 3 1 late
check "a rank that does not make a call: the message names the call and the rank" \
    says '\[stalled\] communicator stream of MPI_COMM_WORLD.*queued MPI_Allreduce of 4000 bytes.*: rank 2 has not made this call'

OMPI_MCA_coll_gpuring_net=mpi mpi 60 4 n2 enqueued abort threads
check "MPI_Abort while calls wait on two nodes: the job ends" test "$status" -eq 42
check "and nothing crashes" silent 'Segmentation|Signal:|assert'
killed() { # NODES CODE [OPTIONS]: the last rank, which is alone on its node if there are two, is killed.
    # shellcheck disable=SC2086
    run 60 "$MPIRUN" -n 3 ${3-} --enable-recovery --mca coll_gpuring_priority 90 --mca coll_gpuring_device cuda \
        "$top_srcdir/test/mpi/as_nodes.sh" "$1" 3 "$programs/enqueued" killed threads
    check "a rank is killed, $1 node(s): the streams of the others end, with an error" \
        test "$(grep -c '^ok - rank [01]: its stream ends' "$work/out")" -eq 2
    check "the message names the rank" says "\\[$2\\].*rank 2|rank 2.*\\[$2\\]"
}
killed 1 peer-died
[ "$nets" = mpi ] || OMPI_MCA_coll_gpuring_net=ucx killed 2 peer-gone
if "$OMPI_INFO" | grep -q 'FT MPI support: yes'; then
    OMPI_MCA_coll_gpuring_net=mpi killed 2 mpi-failed "--with-ft ulfm --mca mpi_ft_enable 1"
else
    skip "Open MPI without fault tolerance" "a rank is killed, 2 nodes by mpi"
fi
rm -f "$GPURING_STANDIN_REPORT"

programs=$top_builddir/tools mpi 60 4 gpuring-perf -m cuda --enqueue -e 64K -f 64 -n 20 --settle 0
check "gpuring-perf --enqueue: right results" says 'wrong elements: 0'
check "and all of its calls are counted" says '^# coll/gpuring served 60 of 60 timed calls'
programs=$top_builddir/tools mpi 60 4 gpuring-perf -m cuda --graph -b 64K -e 64K -n 20 --settle 0
check "gpuring-perf --graph: right results" says 'wrong elements: 0'
check "and all of its calls are counted" says '^# coll/gpuring served 20 of 20 timed calls'
programs=$top_builddir/tools mpi 60 2 gpuring-perf -m cuda --enqueue -c scan
check "gpuring-perf --enqueue: not for other collectives" says '\[option-conflict\] --enqueue'

# Calls that cannot work are refused on all ranks.
use_gpus 1
GPURING_STANDIN_FAULTS=cuStreamGetCtx=1:400 mpi 60 2 enqueued chain
check "a stream that the driver does not know is refused" says '\[stream-invalid\]'
GPURING_STANDIN_MPS=0 mpi 60 2 enqueued chain
check "ranks that take turns on a GPU are refused" says '\[stream-shared-gpu\]'
run 60 "$MPIRUN" -n 2 "$top_srcdir/test/mpi/as_nodes.sh" 1 2 "$programs/enqueued" chain
check "the component is not turned on: what to do" says '\[stream-not-served\].*gpuring-run'
OMPI_MCA_coll=^gpuring mpi 60 2 enqueued chain
check "there is no component: what to do" says '\[no-component\].*gpuring-run'

# The kernels that nvcc has compiled.
if [ -e "$top_builddir/test/ptx/kernels.ptx" ]; then
    use_gpus 1
    GPURING_STANDIN_PTX="$top_builddir/test/ptx/kernels.ptx" mpi 120 2 enqueued free
    adopt_as_one "interpreted kernels: free"
    GPURING_STANDIN_PTX="$top_builddir/test/ptx/kernels.ptx" mpi 120 2 enqueued few
    adopt_as_one "interpreted kernels: messages"
else
    skip "there is no PTX" "interpreted kernels"
fi
finish
