#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# The inside of verbs.sh, on the first of two machines.
set -u
: "${folder:?run this by verbs.sh}" "${build:?}" "${ROUNDS:?}" "${LARGEST:?}"
perf=$build/tools/gpuring-perf
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=eth0

perftest() { # NAME COMMAND...
    file=$folder/$1.perftest
    shift
    on-host vm1 "$* -d rxe0 -x 1 -u 20" >/dev/null 2>&1 &
    sleep 2
    "$@" -d rxe0 -x 1 -u 20 vm1 >"$file" 2>&1 || echo "$* fails: see $file"
    wait $!
}

# First size, last size, times, times before that: the small ones more often. An emulator has to
# translate the code first, of every process anew.
sizes() {
    echo "8 4096 300 300"
    echo "8192 262144 30 10"
    echo "524288 $((${LARGEST%M} << 20)) 3 1"
}

# The least that an exchange takes by these devices, whatever stands above verbs.
exchange() { # ROUND
    sizes | while read -r first last times warm; do
        bare="$build/test/bench/verbs_exchange rxe0 1 $first $last $times $warm"
        on-host vm1 "$bare --to vm0:7001" >/dev/null 2>&1 &
        $bare --serve 7001 </dev/null || echo "$bare fails" >&2
        wait $!
    done >"$folder/exchange.$1.txt"
}

# measure NAME ROUND OPTIONS-OF-MPIRUN...
measure() {
    name=$1 round=$2
    shift 2
    sizes | while read -r first last times warm; do
        "${MPIRUN:-mpirun}" --host vm0,vm1 -n 2 "$@" "$perf" -b "$first" -e "$last" -n "$times" \
            -w "$warm" -j "$folder/$name.$round.$first.json" >"$folder/log" 2>&1 </dev/null ||
            { echo "$name does not run:" && cat "$folder/log"; }
    done
}

round=1
while [ "$round" -le "$ROUNDS" ]; do
    perftest "write_lat.$round" ib_write_lat -s 8 -n 1000
    perftest "write_bw.$round" ib_write_bw -b -s 65536 -n 400
    # shellcheck disable=SC2086
    OMPI_MCA_mca_base_component_path="$build/.libs:SYSTEM_DEFAULT:USER_DEFAULT" \
        measure gpuring "$round" --mca coll_gpuring_priority 100 --mca coll_gpuring_device host \
        --mca coll_gpuring_net verbs --mca coll_gpuring_verbs_timeout 20 ${EXTRA:-}
    measure tcp "$round"
    exchange "$round"
    perftest "write_bw.$round.b" ib_write_bw -b -s 1048576 -n 25
    perftest "write_lat.$round.b" ib_write_lat -s 8 -n 1000
    echo "round $round of $ROUNDS done"
    round=$((round + 1))
done
