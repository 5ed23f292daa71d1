#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test faults over verbs between hosts of one emulated machine (run by test_rdma_faults.sh). Each must
# give the right result, or an MPI error with a helpful text on every rank; never a hang and never wrong
# data. The device rxe0 has a separate interface, dummy0, so that it can fail while mpirun and MPI's own
# messages still work. doc/results/faults.md lists the tested faults. Prints TAP.
# shellcheck source=test/rdma/lib.sh
. "${top_srcdir:?run this by test_rdma_faults.sh}/test/rdma/lib.sh"

# The device gives up a dead connection after 4 attempts of a tenth of a second each.
export OMPI_MCA_coll_gpuring_verbs_timeout=14 OMPI_MCA_coll_gpuring_verbs_retry_count=3
names='\[verbs-failed\] .* from [abc] to rank [0-9] on [abc], device rxe0 port 1'

# Print the process id of a rank.
rank_pid() {
    for pid in $(pgrep -x steady); do
        ! grep -qz "^OMPI_COMM_WORLD_RANK=$1\$" "/proc/$pid/environ" || echo "$pid"
    done
}
stand_still() { # RANK SECONDS
    pid=$(rank_pid "$1")
    kill -STOP "$pid" && sleep "$2" && kill -CONT "$pid" && echo "# $pid stood still" >>"$work/stood"
}

run 100 "$MPIRUN" --host a,b "$rdma_programs/steady" 5 5000 50
each 2 "a slow receiver: data are right" '[1-9][0-9]* operations right$'

under_way 12 a,b 'stand_still 1 4'
check "a peer was stopped and went on" test -s "$work/stood"
each 2 "a peer that stands still for 4 seconds: data are right" '[1-9][0-9]* operations right$'

preload="-x LD_PRELOAD=$rdma_programs/.libs/libfault_verbs.so"
# A queue pair that refuses a write is in error as well, and its error may be reported first.
for fault in qp-error:5 'no-access:[59]'; do
    status_of=${fault#*:} fault=${fault%:*}
    export GPURING_FAULT="$fault" GPURING_FAULT_RANK=1 GPURING_FAULT_FILE="$work/$fault"
    # shellcheck disable=SC2086
    under_way 60 a,b,c 'touch "$GPURING_FAULT_FILE"' $preload
    each 3 "$fault on one of 3 ranks: an MPI error on each" "$broken"
    check "$fault: the text names hosts, device, port, status and remedy" \
        says "$names.*\\(status $status_of, vendor 0x[0-9a-f]+\\)"
done

# A port that 20 communicators share dies. All of them report an error. There is only one round per second, so
# that the event of the device is reported before a failed send ends the job.
under_way '60 5000 1000 20' a,b,c 'ip link set dummy0 down'
each 3 "a port of 20 communicators goes down: an MPI error of each on each of 3 ranks" "$broken"
# Newer kernels report a flush instead of the error.
check "a port goes down: the text names hosts, device, port, status and remedy" \
    says "$names.*\\(status [25], .*the port .* is down"
check "a port goes down: another message names host, device and port" \
    says '\[port-down\] [abc]: device rxe0 port 1 '
ip link set dummy0 up
run 100 "$MPIRUN" --host a,b "$programs/matrix" -n 1,20000 -f 97 -s
adopt_as_one "a port that is up again serves a new job"

# If one rank lacks a resource when it proves its ports or connects them, all ranks delegate and report a
# reason.
for fault in no-memory no-qp; do
    export GPURING_FAULT=$fault GPURING_FAULT_RANK=1
    # shellcheck disable=SC2086
    run 100 "$MPIRUN" --host a,b $preload "$rdma_programs/steady" 2
    each 2 "$fault on one rank: served otherwise, data are right" '[1-9][0-9]* operations right$'
    check "$fault: the text names host, device and cause" \
        says 'b cannot .* device rxe0.*: Cannot allocate memory|\[rdma-unusable\] .* b: rxe0:1 has no memory'
done
# Slots that are wrong on the way.
unset GPURING_FAULT_RANK
export GPURING_FAULT=wrong-data
# shellcheck disable=SC2086
run 300 "$MPIRUN" --host a,b $preload "$top_builddir/tools/gpuring-perf" --selftest -m host --seconds 1 -e 32K
check "wrong-data: the selftest finds it, with status 1" test "$status" -eq 1
check "between the ranks" says '\[selftest-wrong\] ranks 0 and 1, allreduce simple'
check "and not in messages" silent '\[selftest-[a-z]*\] ranks 0 and 1, messages'
unset GPURING_FAULT GPURING_FAULT_RANK
cat >"$work/limited.sh" <<'END'
#!/bin/sh
[ "$OMPI_COMM_WORLD_RANK" != 1 ] || ulimit -l 64
exec setpriv --bounding-set=-ipc_lock "$@"
END
chmod 755 "$work/limited.sh"
run 100 "$MPIRUN" --host a,b "$work/limited.sh" "$rdma_programs/steady" 2
each 2 "a low limit of locked memory on one rank: data are right" '[1-9][0-9]* operations right$'
check "a low limit of locked memory: the text names host, device and remedy" \
    says '\[no-registration\] b .*rxe0: .* 64 KiB'

# Peers that are killed, or stopped forever. mpirun would end the job when a process is killed, and the
# btl/tcp of Open MPI 5.0 when a connection closes, so enable recovery and fault tolerance.
for how in killed stopped; do
    recovery=
    [ $how != killed ] || recovery='--enable-recovery --mca mpi_ft_enable 1'
    # shellcheck disable=SC2086
    run 100 "$MPIRUN" --host a,b,c $recovery --mca coll_gpuring_timeout 5 \
        "$programs/lost_rank" $how
    others_go_on "a $how rank on a host of its own" 2
    check "a $how rank: the text names it" says 'rank 2'
done

run 100 "$MPIRUN" --host a:2,b "$rdma_programs/idle_threads"
check "idle: the component's threads take no time on any of 3 ranks" \
    test "$(grep -c '^ok - rank [0-9]: [1-9][0-9]* threads' "$work/out")" -eq 3
sed -n 's/^ok - /# /p' "$work/out"

# Removing the device blocks while processes use it, if the kernel keeps it for them.
removal=''
under_way 5 a,b 'rdma link delete rxe0 & removal=$!'
each 2 "a device that is to be removed, in use: data are right" '[1-9][0-9]* operations right$'
wait "$removal"
check "it is removed afterwards" test ! -e /sys/class/infiniband/rxe0
finish
