#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# If a rank is late, killed or stopped, the other ranks get an MPI error and a text that names that rank,
# and they can continue without it.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

lost_rank() { # HOW RANKS NODES [COUNT THEN]
    how=$1 ranks=$2 nodes=$3
    shift 3
    recovery= # else mpirun ends the job when a process is killed
    [ "$how" != killed ] || recovery=--enable-recovery
    # shellcheck disable=SC2086
    run 60 "$MPIRUN" -n "$ranks" $recovery --mca coll_gpuring_priority 90 \
        --mca coll_gpuring_device host --mca coll_gpuring_timeout 3 \
        "$top_srcdir/test/mpi/as_nodes.sh" "$nodes" "$ranks" "$programs/lost_rank" "$how" "$@"
    text="a $how rank, $ranks ranks on $nodes nodes${1:+, $1 elements, then $2}"
    others=$((ranks - 1))
    others_go_on "$text" "$others"
    check "$text: the message names the communicator" says 'the tested one'
    check "$text: the message names the missing rank" says "rank $others"
    check "$text: MPI_Abort ends the job in time" test "$status" -ne 124
}

lost_rank late 2 1
check "a late rank: the error has a cause, and a class of MPI" \
    says 'code [0-9]+ class 16 after .*: coll/gpuring: '
check "a late rank: it says what that rank was last seen doing" says 'last operation was 5|is outside'
lost_rank late 4 1
lost_rank late 4 2
lost_rank killed 3 1
export OMPI_MCA_coll_gpuring_algorithm=direct # without it, small blocking calls are delegated
lost_rank killed 3 3
unset OMPI_MCA_coll_gpuring_algorithm
lost_rank stopped 3 1
# The rank is lost while connections of direct exchanges are made, which small vectors need.
export OMPI_MCA_coll_gpuring_direct_ranks=2
lost_rank late 4 1 100000 1000
lost_rank killed 4 2 100000 1000
check "a killed rank is found before the time is over" says '\[peer-died\]|\[peer-gone\]'
unset OMPI_MCA_coll_gpuring_direct_ranks

# Without a timeout, only the watchdog ends the creation of persistent calls.
for microseconds in 500 1500 3000 4500 6000; do
    run 60 "$MPIRUN" -n 3 --enable-recovery --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
        --mca coll_gpuring_pool_size 0 "$programs/lost_rank" creating $microseconds
    check "a rank is killed $microseconds us after it began to create persistent calls" \
        test "$(grep -c '^ok' "$work/out")" -eq 6
done

OMPI_MCA_coll_gpuring_timeout=2 mpi 60 3 lost_rank start
check "a late start: the message says what is awaited" \
    says 'persistent call 1, rank .* MPI_Allreduce, operation 2 .* for data from rank 2'
adopt "a rank that starts a persistent call late"

# Without a timeout a late rank is no error.
cat >"$work/slow.sh" <<'END'
#!/bin/sh
[ "$OMPI_COMM_WORLD_RANK" != 1 ] || sleep 3
exec "$@"
END
chmod +x "$work/slow.sh"
run 60 "$MPIRUN" -n 2 --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
    "$work/slow.sh" "$programs/matrix" -n 1,1000 -f 50 -s
adopt_as_one "a rank that comes 3 seconds late without a timeout"

# differs HOW RANKS CODE TEXT: check that ranks detect different calls without a timeout.
differs() {
    mpi 60 "$2" lost_rank differ "$1"
    adopt "$device memory, $4"
    check "$device memory, $4: the message" says "gpuring \[$3\]"
}
differs call 2 calls-differ "another call"
check "another call: both are named" sh -c "grep -q 'rank 0: MPI_Allreduce of 400 bytes' '$work/out' &&
    grep -q 'rank 1: MPI_Bcast of 400 bytes, root 0' '$work/out'"
differs count 3 counts-differ "a smaller count"

mpi 60 4 n2 lost_rank nodes
adopt "another call on another node"
check "and both are named" sh -c "grep -q 'rank [01]: MPI_Bcast of 4000 bytes, root 3' '$work/out' &&
    grep -q 'rank [23]: MPI_Reduce of 4000 bytes' '$work/out'"

if [ ! -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    skip "built without CUDA: there is no device layer to test" "a vote that a rank comes late to"
    finish
fi
use_gpus 2
export GPURING_STANDIN_PROTECT=0
differs call 2 calls-differ "another call"
differs count 2 counts-differ "a smaller count"
differs large 2 counts-differ "a count for which only one rank makes connections"
differs sets 2 counts-differ "counts for which the ranks make different connections"
differs bcast 2 counts-differ "a smaller count in a broadcast"
for how in call count; do
    OMPI_MCA_coll_gpuring_check=data differs $how 2 "$how"s-differ "$how, with check=data"
done
OMPI_MCA_coll_gpuring_timeout=2 mpi 60 2 lost_rank vote
check "a late vote: the message says what is awaited" says 'MPI_Bcast, before it starts.* for rank 1 to make the call'
check "a late vote: one report" test "$(grep -c 'WARN \[stalled\]' "$work/out")" -eq 1
adopt "a rank that comes late to a vote"
finish
