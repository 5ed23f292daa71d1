#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# two_hosts.sh MPIRUN-ARGUMENTS...: run mpirun over two hosts on this machine. Each host is a network namespace
# with a separate address, host name and /dev/shm. A veth pair is the cable. Specify ranks with --host
# gpra:N,gprb:N. The exit status is 77 with a reason if namespaces cannot be created.
#
#   TWO_HOSTS_SETUP     a command that is called with the names of both namespaces and of the two interfaces
#                       when they are up, for example to add delay and loss
set -u
: "${MPIRUN:=mpirun}"
tag=gpr$$
a=${tag}a b=${tag}b

cannot() {
    echo "two_hosts: $*"
    exit 77
}
[ "$(id -u)" -eq 0 ] || cannot "network namespaces need root"
command -v ip >/dev/null || cannot "the command ip is missing (package iproute2)"
command -v unshare >/dev/null || cannot "the command unshare is missing (package util-linux)"

folder=$(mktemp -d "${TMPDIR:-/tmp}/gpuring-hosts.XXXXXX") || exit 1
cleanup() {
    ip netns pids "$a" 2>/dev/null | xargs -r kill -9 2>/dev/null
    ip netns pids "$b" 2>/dev/null | xargs -r kill -9 2>/dev/null
    ip netns del "$a" 2>/dev/null
    ip netns del "$b" 2>/dev/null
    rm -rf "$folder"
}
trap cleanup EXIT
trap 'exit 1' HUP INT TERM

ip netns add "$a" 2>"$folder/err" || cannot "$(cat "$folder/err")"
ip netns add "$b" || exit 1
ip link add "e$tag" netns "$a" type veth peer name "e$tag" netns "$b" 2>"$folder/err" ||
    cannot "$(cat "$folder/err")"
number=1
for host in "$a" "$b"; do
    ip -n "$host" link set lo up
    ip -n "$host" addr add "10.213.7.$number/24" dev "e$tag"
    ip -n "$host" link set "e$tag" up
    number=$((number + 1))
done
# The kernel reports a new cable up to a second late; UCX and Open MPI ignore interfaces until then.
for host in "$a" "$b"; do
    tries=0
    until ip -n "$host" link show dev "e$tag" | grep -q 'state UP'; do
        tries=$((tries + 1))
        [ "$tries" -lt 100 ] || cannot "the interface e$tag does not come up"
        sleep 0.1
    done
done
[ -z "${TWO_HOSTS_SETUP:-}" ] || $TWO_HOSTS_SETUP "$a" "$b" "e$tag" || exit 1

# A script that runs a command on a host, with a separate host name and /dev/shm.
cat >"$folder/enter" <<END
#!/bin/sh
name=\$1
shift
case \$name in gpra) space=$a ;; gprb) space=$b ;; *) echo "no host \$name" >&2; exit 1 ;; esac
exec ip netns exec \$space unshare --uts --mount --ipc sh -c '
    hostname "\$1" && mount -t tmpfs -o size=64m shm /dev/shm || exit 1
    shift
    exec sh -c "\$*"' enter "\$name" "\$@"
END
chmod +x "$folder/enter"

quoted=
for argument in "$@"; do
    quoted="$quoted '$(printf %s "$argument" | sed "s/'/'\\\\''/g")'"
done
# The same for PRRTE, which is part of Open MPI 5.0 and later.
export PRTE_MCA_plm_ssh_agent="$folder/enter" PRTE_MCA_plm_ssh_no_tree_spawn=1
export PRTE_MCA_prte_if_include="e$tag" PMIX_MCA_ptl_tcp_if_include=lo
"$folder/enter" gpra "$MPIRUN --mca plm_rsh_agent '$folder/enter' --mca plm_rsh_no_tree_spawn 1 \
    --mca oob_tcp_if_include e$tag --mca btl_tcp_if_include e$tag $quoted"
