#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# The part of verbs.sh that runs on the first of the two machines.
set -u
: "${folder:?run this by verbs.sh}" "${build:?}" "${ROUNDS:?}" "${COMPARE:?}" "${LARGEST:?}"
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

# Print lines of first size, last size, number of timed calls and number of calls before them. Small sizes
# need many calls before the timed ones, because the emulator translates the code of each process first.
sizes() {
    echo "8 4096 300 300"
    echo "8192 262144 30 10"
    echo "524288 $((${LARGEST%M} << 20)) 3 1"
}

# Measure the time of an exchange on these devices without any software above verbs.
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

verbs="--mca coll_gpuring_priority 100 --mca coll_gpuring_device host --mca coll_gpuring_net verbs \
    --mca coll_gpuring_verbs_timeout 20 ${EXTRA:-}"
ours="$build/.libs:SYSTEM_DEFAULT:USER_DEFAULT"

# within FILE ARGUMENTS-OF-MPIRUN...: run gpuring-perf in a job that compares two components.
within() {
    file=$folder/$1
    shift
    # shellcheck disable=SC2086
    OMPI_MCA_mca_base_component_path=$ours "${MPIRUN:-mpirun}" --host vm0,vm1 -n 2 $verbs "$@" \
        --settle 3000 >"$file" 2>&1 </dev/null || { echo "$* does not run:" && cat "$file"; }
}

if [ "$COMPARE" -gt 0 ]; then
    # Write the tuning file of these machines. Sizes above 4 MiB use the rule of the last size.
    rm -f "$folder/tuning"
    largest=${LARGEST%M}
    [ "$largest" -lt 4 ] || largest=4
    within tuning.log "$perf" --tuning "$folder/tuning" --rounds 9 -e "${largest}M"
    echo "tuned"
    within compare.tuned --mca coll_gpuring_tuning_file "$folder/tuning" \
        "$perf" --compare --rounds "$COMPARE" -e "$LARGEST"
    echo "compared: with the tuning file"
    within compare.verbs "$perf" --compare --rounds "$COMPARE" -e "$LARGEST"
    echo "compared: as it is"
fi

round=1
while [ "$round" -le "$ROUNDS" ]; do
    perftest "write_lat.$round" ib_write_lat -s 8 -n 1000
    perftest "write_bw.$round" ib_write_bw -b -s 65536 -n 400
    # shellcheck disable=SC2086
    OMPI_MCA_mca_base_component_path=$ours measure gpuring "$round" $verbs
    measure tcp "$round"
    exchange "$round"
    perftest "write_bw.$round.b" ib_write_bw -b -s 1048576 -n 25
    perftest "write_lat.$round.b" ib_write_lat -s 8 -n 1000
    echo "round $round of $ROUNDS done"
    round=$((round + 1))
done
