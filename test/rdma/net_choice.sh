# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
# shellcheck shell=sh disable=SC2154
#
# Test coll_gpuring_net=auto between two hosts of one emulated machine; sourced by one_machine.sh.

auto() { # TEXT ARGUMENTS-OF-MPIRUN...
    auto_text=$1
    shift
    run 200 env OMPI_MCA_coll_gpuring_net=auto "$MPIRUN" "$@"
    adopt_as_one "net=auto, $auto_text"
}
matrix="$programs/matrix -n 1,1000 -f 40 -s"
# by RANK COMMAND PROGRAM...: run a program, on rank RANK through COMMAND. (Not with ":" on the command
# line of mpirun, because Debian's mpirun 5.0.7 crashes on that.)
cat >"$work/by" <<'END'
#!/bin/sh
rank=$1 command=$2
shift 2
[ "$OMPI_COMM_WORLD_RANK" = "$rank" ] || exec "$@"
exec $command "$@"
END
chmod +x "$work/by"

# shellcheck disable=SC2086
auto "both hosts have an active port" --host a,b -n 2 $matrix
check "net=auto: verbs, and the log says why" \
    says '\[network\] verbs .*\[rdma-ports\]'
check "net=auto: devices made by software are told, and what to do about them" \
    says '\[rdma-software\]'

# shellcheck disable=SC2086
auto "one host has no active port" --host a,b -n 2 \
    "$work/by" 1 "env OMPI_MCA_coll_gpuring_verbs_hca=^rxe0" $matrix
check "net=auto: mpi, and the log names the host without a port" \
    says '\[network\] mpi .*\[no-rdma-port\] b '

# One host has a port, but may not register memory, so all ranks must start the wire-up again.
cat >"$work/locked" <<'END'
#!/bin/sh
ulimit -l 64
exec setpriv --bounding-set=-ipc_lock "$@"
END
chmod +x "$work/locked"
# shellcheck disable=SC2086
auto "one host cannot register memory" --host a,b -n 2 "$work/by" 1 "$work/locked" $matrix
check "net=auto: verbs is tried first" says '\[network\] verbs '
check "net=auto: the host says what is wrong" says '\[no-registration\] b .* 64 KiB'
check "net=auto: then mpi on all ranks" \
    says '\[network\] mpi .*\[rdma-failed\] .*rank 1 on b'

# A container may have /sys without the nodes of the devices.
mv /dev/infiniband /dev/infiniband.away
# shellcheck disable=SC2086
auto "hosts without /dev/infiniband" --host a,b -n 2 $matrix
mv /dev/infiniband.away /dev/infiniband
check "net=auto: the log says what is missing" says '\[rdma-unusable\] .*/dev/infiniband'
check "net=auto: mpi, without an attempt to connect" says '\[network\] mpi .*\[no-rdma-port\]'

# The NICs of this node are faster than the path between its sockets, so verbs connects the parts of the
# node. If verbs fails, the node is used as a whole and needs no network.
export OMPI_MCA_coll_gpuring_topo_file="$top_srcdir/test/data/topo/two-sockets-fast-nics.xml"
# shellcheck disable=SC2086
auto "NICs join the parts of a node" --host a:4 -n 4 $matrix
check "net=auto: the node is in parts" says '\[node-in-parts\]'
check "net=auto: which verbs joins" says '\[serves\] .*transport shm\+verbs'
# shellcheck disable=SC2086
auto "a rank of the node cannot register memory" --host a:4 -n 4 \
    "$work/by" 3 "$work/locked" $matrix
check "net=auto: verbs is tried between the parts" says '\[network\] verbs '
check "net=auto: then the node is whole" says '\[serves\] .*transport shm[^+]'
unset OMPI_MCA_coll_gpuring_topo_file
