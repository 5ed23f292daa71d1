#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Tests on one emulated machine with a verbs device and several hosts (run by test_rdma.sh): the net alone,
# the correctness matrix, the choice of a network, slots in GPU memory, and faults. A fault must give the
# right result, or an MPI error with a helpful text on every rank; never a hang and never wrong data. The
# device rxe0 has a separate interface, dummy0, so that it can fail while mpirun and MPI's own messages still
# work. doc/results/faults.md lists the tested faults. Prints TAP.
# shellcheck source=test/rdma/lib.sh
. "${top_srcdir:?run this by test_rdma.sh}/test/rdma/lib.sh"

run 100 "$pair" --net verbs --links 2 --slot-bytes 16384 check 30
check "chunks of all sizes over two links each way" says '^check: 12 lanes of 30 chunks right'

# over_verbs TEXT HOSTS PROGRAM...: check the results and the packets of the device.
over_verbs() {
    text=$1 hosts=$2
    shift 2
    before=$(packets)
    run 250 "$MPIRUN" --host "$hosts" "$@"
    adopt_as_one "$text, hosts $hosts"
    sent=$(($(packets) - before))
    check "$text: the device has sent $sent packets" test "$sent" -gt 100
}

# The device receives the same slots from all algorithms. test/mpi/test_matrix.sh tests the combinations.
over_verbs "matrix" a:3,b:2 "$programs/matrix" -n 0,1,2,3,1023,1024,1025,65537 -f 149 -s
check "shared memory inside, verbs outside" says '\[serves\] .*transport shm\+verbs'
export OMPI_MCA_coll_gpuring_algorithm=ring OMPI_MCA_coll_gpuring_protocol=ll128
export OMPI_MCA_coll_gpuring_min_channels=4 OMPI_MCA_coll_gpuring_max_channels=4
over_verbs "ring, ll128, 4 channels" a:2,b:2 "$programs/matrix" -n 1,1000,20003 -f 97 -s
unset OMPI_MCA_coll_gpuring_min_channels OMPI_MCA_coll_gpuring_max_channels
export OMPI_MCA_coll_gpuring_algorithm=direct OMPI_MCA_coll_gpuring_protocol=simple
export OMPI_MCA_coll_gpuring_buffer_size=8192 OMPI_MCA_coll_gpuring_chunk_size=200
over_verbs "direct, chunks of 200 bytes" a,b,c "$programs/matrix" -n 1,49,50,51,1000,5011 -f 193 -s
unset OMPI_MCA_coll_gpuring_buffer_size OMPI_MCA_coll_gpuring_chunk_size
unset OMPI_MCA_coll_gpuring_algorithm OMPI_MCA_coll_gpuring_protocol
over_verbs "threads" a,b "$programs/threads"
run 200 "$MPIRUN" --host a,b -n 2 "$programs/churn" -d 30
adopt "a communicator that is made again and again"

# by RANK COMMAND PROGRAM...: run a program, on rank RANK through COMMAND. (Not with ":" on the command
# line of mpirun, because Debian's mpirun 5.0.7 crashes on that.)
cat >"$work/by" <<'END'
#!/bin/sh
rank=$1 command=$2
shift 2
[ "$OMPI_COMM_WORLD_RANK" = "$rank" ] || exec "$@"
exec $command "$@"
END
# It has a port, but may not register memory.
cat >"$work/locked" <<'END'
#!/bin/sh
ulimit -l 64
exec setpriv --bounding-set=-ipc_lock "$@"
END
# A container may have /sys without the nodes of the devices.
cat >"$work/nodeless" <<'END'
#!/bin/sh
exec unshare --mount sh -c 'mount -t tmpfs none /dev/infiniband && exec "$@"' sh "$@"
END
chmod +x "$work/by" "$work/locked" "$work/nodeless"

# Over messages of MPI, short allreduces of two ranks are served only if the algorithm is named.
auto() { # TEXT HOSTS RANK COMMAND: with the network of choice, and this rank through a command
    auto_text=$1 hosts=$2
    shift 2
    run 200 "$MPIRUN" --mca coll_gpuring_net auto --mca coll_gpuring_algorithm direct \
        --host "$hosts" "$work/by" "$@" "$programs/matrix" -n 1,1000 -f 40 -s
    adopt_as_one "net=auto, $auto_text"
}
auto "one host cannot register memory" a,b 1 "$work/locked"
check "net=auto: verbs is tried, and the log says why" says '\[network\] verbs .*\[rdma-ports\]'
check "net=auto: devices made by software are told" says '\[rdma-software\]'
check "net=auto: the host says what is wrong" says '\[no-registration\] b .*rxe0: .* 64 KiB'
check "net=auto: then mpi on all ranks" says '\[network\] mpi .*\[rdma-failed\] .*rank 1 on b'
auto "a host without /dev/infiniband" a,b 1 "$work/nodeless"
check "net=auto: the log says what is missing" says '\[rdma-unusable\] .*/dev/infiniband'
check "net=auto: mpi, and the log names the host without a port" \
    says '\[network\] mpi .*\[no-rdma-port\] b '
# The NICs of this node are faster than the path between its sockets, so verbs connects the parts of the
# node. If verbs fails, the node is used as a whole and needs no network.
export OMPI_MCA_coll_gpuring_topo_file="$top_srcdir/test/data/topo/two-sockets-fast-nics.xml"
auto "a rank of the node cannot register memory" a:4 3 "$work/locked"
check "net=auto: the node is in parts" says '\[node-in-parts\]'
check "net=auto: verbs is tried between the parts" says '\[network\] verbs '
check "net=auto: then the node is whole" says '\[serves\] .*transport shm[^+]'
unset OMPI_MCA_coll_gpuring_topo_file

# Slots in GPU memory. The stand-in driver provides the GPUs, and their memory is host memory, so Soft-RoCE
# can register it like peer memory. It refuses the descriptor (dma-buf). Everything from ibv_reg_mr on is
# real, also the reads that flush. No result is from a GPU. A kernel cannot pin what is protected.
standin=$top_builddir/test/standin/.libs
if [ -e "$standin/libcuda.so.1" ]; then
    over_verbs "slots in GPU memory" a,b --mca coll_gpuring_device cuda \
        --mca coll_gpuring_gdr_level SYS --mca coll_gpuring_buffer_size 256k \
        -x GPURING_STANDIN_PROTECT=0 -x GPURING_STANDIN_GDR=3 -x GPURING_STANDIN_GPUS=2 \
        -x GPURING_TEST_MEMORY=cuda -x LD_LIBRARY_PATH="$standin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
        "$programs/matrix" -n 1,1025,30001 -f 29 -s
    check "the log says how" says '\[gdr\] .*: [1-9][0-9]* of.*flushed by reading'
else
    skip "built without CUDA: there is no device layer to test" "slots in GPU memory"
fi

# The device gives up a dead connection after 4 attempts of a tenth of a second each.
export OMPI_MCA_coll_gpuring_verbs_timeout=14 OMPI_MCA_coll_gpuring_verbs_retry_count=3
names='\[verbs-failed\] .* from [abc] to rank [0-9] on [abc], device rxe0 port 1'

# A port that 20 communicators share dies. All of them report an error. There is only one round per second, so
# that the event of the device is reported before a failed send ends the job.
under_way '60 5000 1000 20' a,b 'ip link set dummy0 down'
each 2 "a port of 20 communicators goes down: an MPI error of each on both ranks" "$broken"
# Newer kernels report a flush instead of the error.
check "a port goes down: the text names hosts, device, port, status and remedy" \
    says "$names.*\\(status [25], .*the port .* is down"
check "a port goes down: another message names host, device and port" \
    says '\[port-down\] [ab]: device rxe0 port 1 '
ip link set dummy0 up

# The port is up again and serves a new job. Its receiver is slow.
stand_still() { # RANK SECONDS
    for pid in $(pgrep -x steady); do
        ! grep -qz "^OMPI_COMM_WORLD_RANK=$1\$" "/proc/$pid/environ" || break
    done
    kill -STOP "$pid" && sleep "$2" && kill -CONT "$pid" && echo "# $pid stood still" >"$work/stood"
}
before=$(packets)
for seconds in 6 15 40; do # on a slow machine, the job may be over before it is stopped
    [ -s "$work/stood" ] || under_way "$seconds 5000 50" a,b 'stand_still 1 4'
done
check "a slow receiver was stopped and went on" test -s "$work/stood"
each 2 "a slow receiver stands still for 4 seconds: data are right" '[1-9][0-9]* operations right$'
check "a port that is up again serves the job" test $(($(packets) - before)) -gt 100

preload="-x LD_PRELOAD=$rdma_programs/.libs/libfault_verbs.so"
# A queue pair that refuses a write is in error as well, and its error may be reported first.
export GPURING_FAULT_RANK=1 GPURING_FAULT=no-access GPURING_FAULT_FILE="$work/fault"
# shellcheck disable=SC2086
under_way 60 a,b,c 'touch "$GPURING_FAULT_FILE"' $preload
each 3 "one of 3 ranks refuses to be written to: an MPI error on each" "$broken"
check "no access: the text names hosts, device, port, status and remedy" \
    says "$names.*\\(status [59], vendor 0x[0-9a-f]+\\)"
# If one rank lacks a resource when it connects its ports, all ranks delegate and report a reason.
export GPURING_FAULT=no-qp
# shellcheck disable=SC2086
run 100 "$MPIRUN" --host a,b $preload "$rdma_programs/steady" 1
each 2 "no queue pair on one rank: served otherwise, data are right" '[1-9][0-9]* operations right$'
check "no queue pair: the text names host, device and cause" \
    says 'b cannot .* device rxe0.*: Cannot allocate memory|\[rdma-unusable\] .* b: rxe0:1 has no memory'
unset GPURING_FAULT GPURING_FAULT_RANK GPURING_FAULT_FILE

# One of two processes that send exits. The kernel takes down its memory (status 10) and its queue pair
# (status 12).
run 100 "$pair" --net verbs --timeout 14 --retry 3 --die-after 2 both 100000000
check "a killed peer: hosts, device, status and remedy" \
    says '\[verbs-failed\] .*host0 to rank 1 on the second host, device rxe0 port 1.*status (10|12), '
# mpirun would end the job when a process is killed, and the btl/tcp of Open MPI 5.0 when a connection
# closes, so enable recovery and fault tolerance.
run 100 "$MPIRUN" --host a,b,c --enable-recovery --mca mpi_ft_enable 1 --mca coll_gpuring_timeout 5 \
    "$programs/lost_rank" killed
others_go_on "a killed rank on a host of its own" 2
check "a killed rank: the text names it" says 'rank 2'

run 100 "$MPIRUN" --host a:2,b "$rdma_programs/idle_threads"
check "idle: the component's threads take no time on any of 3 ranks" \
    test "$(grep -c '^ok - rank [0-9]: [1-9][0-9]* threads' "$work/out")" -eq 3
sed -n 's/^ok - /# /p' "$work/out"

# All connections of two processes share one queue pair at each end. Removing the device blocks while
# processes use it, if the kernel keeps it for them.
qps=99 removal=''
under_way '5 2' a,b 'qps=$(rdma resource show qp | grep -c "type RC"); rdma link delete rxe0 & removal=$!'
echo "# $qps queue pairs of 2 processes" >>"$work/out"
check "two processes have one queue pair each" test "$qps" -eq 2
each 2 "a device that is to be removed, in use: data are right" '[1-9][0-9]* operations right$'
wait "$removal"
check "it is removed afterwards" test ! -e /sys/class/infiniband/rxe0
finish
