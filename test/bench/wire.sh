#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# wire.sh BUILD RANKS COLLECTIVE...: measure calls between two simulated nodes over the modelled wire of
# test/wire (wire.h has its variables, such as GPURING_WIRE_GBPS and GPURING_WIRE_SLOWER), and a bare exchange
# over it (verbs_exchange.c). Needs the right to raise the priority of its processes above other load. Prints
# for each size the columns of wire.c, then the time of the wire divided by that of the fastest and of the
# median call.
#
#   SMALLEST, LARGEST, FACTOR   sizes in bytes (default: 8 to 16 MiB, times 8)
#   EACH                        seconds for each size (default: 0.5)
#   EXCHANGES                   of each size (default: 200)
set -eu
usage='usage: wire.sh BUILD RANKS COLLECTIVE...'
build=$(cd "${1:?$usage}" && pwd)
ranks=${2:?$usage}
shift 2
here=$(cd "$(dirname "$0")" && pwd)
: "${SMALLEST:=8}" "${LARGEST:=16777216}" "${FACTOR:=8}" "${EACH:=0.5}" "${EXCHANGES:=200}" "${MPIRUN:=mpirun}"
make -C "$build" test/bench/verbs_exchange test/bench/wire test/wire/libibverbs.la >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=test/setup.sh
. "$here/../setup.sh"
mpi_anywhere
mpi_components "$build/.libs" "$work/none"
export OMPI_MCA_mca_base_component_show_load_errors=0
[ "$ranks" -gt "$(nproc)" ] || export OMPI_MCA_mpi_yield_when_idle=0
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self,vader OMPI_MCA_coll_gpuring_priority=90
export OMPI_MCA_coll_gpuring_device=host OMPI_MCA_coll_gpuring_net=verbs
export OMPI_MCA_coll_gpuring_connect_after=0 GPURING_WIRE_FILE="$work/wire"
wire=$build/test/wire/.libs/libibverbs.so.1

# The kernel shares the processors between sessions (autogroups), so raise the priority of this one.
above() { setsid -w sh -c 'echo -18 >/proc/self/autogroup; exec "$@"' sh "$@"; }

for collective; do
    rm -f "$work/wire"
    echo "# $collective, $ranks ranks, ${GPURING_WIRE_GBPS:=100} Gb/s, times ${GPURING_WIRE_SLOWER:=1}"
    above "$MPIRUN" -n "$ranks" -x LD_PRELOAD="$wire" "$here/../mpi/as_nodes.sh" 2 "$ranks" \
        "$build/test/bench/wire" "$collective" "$SMALLEST" "$LARGEST" "$FACTOR" "$EACH" |
        awk '{ printf "%s %.3f %.3f\n", $0, $2 / $3, $2 / $4 }'
done
echo "# bare exchange: bytes, us"
rm -f "$work/wire"
# shellcheck disable=SC2016
above sh -c 'LD_PRELOAD=$1
    export LD_PRELOAD GPURING_WIRE_DATA=0
    GPURING_WIRE_HOST=b taskset -c 1 "$2" wire0 0 "$3" "$4" "$5" 9 --to localhost:18515 &
    GPURING_WIRE_HOST=a taskset -c 0 "$2" wire0 0 "$3" "$4" "$5" 9 --serve 18515; wait' sh "$wire" \
    "$build/test/bench/verbs_exchange" "$SMALLEST" "$LARGEST" "$EXCHANGES" 2>"$work/warnings"
