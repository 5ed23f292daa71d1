#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test parameters and performance variables: their lists, descriptions and checks, and differences between
# ranks.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

# Get "KIND NAME DEFAULT LOW HIGH" of every parameter from the list in params.h.
tr -d '\\\n' <"$top_srcdir/mca/coll_gpuring/params.h" |
    sed 's/\(INT\|SIZE\|CHOICE\|TEXT\)( */\n\1(/g' |
    sed -n 's/^\(INT\|SIZE\|CHOICE\|TEXT\)(\([a-z_0-9]*\), \([^,]*\), [1-9], [A-Z]*, *\(.*\)$/\1 \2 \3 \4/p' |
    tr -d ',' | sed 's/GPURING_MAX_CHANNELS/64/g' >"$work/params"
check "the list of parameters was found" test "$(wc -l <"$work/params")" -gt 30

run 60 "$OMPI_INFO" --param coll gpuring --level 9
cp "$work/out" "$work/info"
while read -r _ name _; do
    check "ompi_info lists coll_gpuring_$name" says "\"coll_gpuring_$name\""
    check "ompi_info describes coll_gpuring_$name" \
        sh -c "grep -A 6 '\"coll_gpuring_$name\"' '$work/info' | grep -Eq '^ {20,}[A-Z0-9a-z].{15,}'"
done <"$work/params"
check "ompi_info lists nothing else" \
    test "$(grep -o 'parameter "coll_gpuring_[a-z_0-9]*"' "$work/info" | sort -u | wc -l)" \
    -eq "$(wc -l <"$work/params")"

# `told NAME VALUE`: succeed if a message names the parameter and quotes the value.
told() {
    awk -v first="coll/gpuring [bad-value]: the parameter coll_gpuring_$1 " -v value="    $2" '
        index($0, first) == 1 { at = NR }
        at && NR == at + 2 && $0 == value { found = 1 }
        END { exit !found }' "$work/out"
}

# Test bad values of many parameters in one run ("NAME VALUE" lines in $work/bad). A message must name each
# parameter and quote its value. The program must run with the defaults and be right.
bad() { # TEXT WHERE(environment or file)
    text=$1
    case $2 in
    environment)
        # shellcheck disable=SC2046
        set -- $(sed 's/^\([^ ]*\) /OMPI_MCA_coll_gpuring_\1=/' "$work/bad")
        ;;
    file)
        sed 's/^\([^ ]*\) /coll_gpuring_\1 = /' "$work/bad" >"$work/params.conf"
        set -- OMPI_MCA_mca_base_param_files="$work/params.conf"
        ;;
    esac
    run 60 env OMPI_MCA_coll_gpuring_priority=90 OMPI_MCA_coll_gpuring_device=host "$@" \
        "$MPIRUN" -n 2 "$programs/matrix" -n 100 -t MPI_INT
    while read -r name value; do
        check "$text: coll_gpuring_$name=$value is reported" told "$name" "$value"
    done <"$work/bad"
    adopt_as_one "$text"
}
# numbers EXPRESSION: print all numeric parameters except for the priority, each with the value of an awk
# expression.
numbers() {
    awk "\$1 ~ /INT|SIZE/ && \$2 != \"priority\" { print \$2, $1 }" "$work/params" >"$work/bad"
}
numbers '$4 - 1'
bad "numbers that are too small" environment
numbers '$5 + 1'
bad "numbers that are too large" environment
numbers '"12x"'
bad "numbers with a suffix that is none" environment
numbers '"soon"'
bad "words in place of numbers" environment
unset OMPI_MCA_coll_gpuring_connect_after # it would override the file
bad "words in place of numbers in a file" file
export OMPI_MCA_coll_gpuring_connect_after=0
awk '$1 == "CHOICE" { print $2, "some" }' "$work/params" >"$work/bad"
bad "choices that are none" environment
awk '$1 == "CHOICE" && $2 != "device" { print $2, "some" }' "$work/params" >"$work/bad"
bad "choices that are none in a file" file
for case in "proxy_cpu 3-1" "proxy_cpu fast" "verbs_hca mlx5_0:1:2" "priority -1" "priority 101" "priority abc"; do
    echo "$case" >"$work/bad"
    bad "a bad value alone ($case)" environment
done

# Equal texts of several processes are printed once, unless Open MPI's parameter for it is off (lib.sh).
unset OMPI_MCA_orte_base_help_aggregate OMPI_MCA_opal_base_help_aggregate
OMPI_MCA_coll_gpuring_timeout=soon mpi 60 4 matrix -n 100 -t MPI_INT
check "4 ranks with one bad value: one text" test "$(grep -c '\[bad-value\]' "$work/out")" -eq 1
if openmpi5; then
    skip "Open MPI 5.0 prints one text of a topic" "ranks with 2 bad values: two texts"
else
    run 60 "$MPIRUN" -n 3 "$first_rank" OMPI_MCA_coll_gpuring_timeout soon later \
        "$programs/matrix" -n 100 -t MPI_INT
    check "ranks with 2 bad values: two texts" test "$(grep -c '\[bad-value\]' "$work/out")" -eq 2
fi
export OMPI_MCA_orte_base_help_aggregate=0 OMPI_MCA_opal_base_help_aggregate=0

# min above max is a contradiction.
run 60 "$MPIRUN" -n 2 --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
    --mca coll_gpuring_min_channels 8 --mca coll_gpuring_max_channels 2 \
    "$programs/matrix" -n 100 -f 50
check "min_channels above max_channels is reported" says '\[channel-limits\]'
check "min_channels above max_channels crashes nothing" test "$status" -ne 124 -a "$status" -lt 128

# Ranks that disagree on a parameter that all must share.
run 60 "$MPIRUN" -n 3 --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
    "$first_rank" OMPI_MCA_coll_gpuring_buffer_size 65536 131072 "$programs/matrix" -n 100 -f 50
check "ranks that disagree: the message" says '\[param-differs\]'
check "ranks that disagree: it names the parameter" says 'coll_gpuring_buffer_size'
check "ranks that disagree: the message has both values" \
    sh -c "grep -q 65536 '$work/out' && grep -q 131072 '$work/out'"
check "ranks that disagree: no hang" test "$status" -ne 124

# peers PARAMETER FIRST SECOND: test ranks that disagree on a parameter that decides whether they take part.
# All ranks must delegate without a hang. The program then ends with an error, because its communicators
# are not served.
peers() {
    run 60 "$MPIRUN" -n 3 --mca coll_gpuring_timeout 20 \
        --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
        "$first_rank" "OMPI_MCA_coll_gpuring_$1" "$2" "$3" "$programs/matrix" -n 100 -f 50
    case $("$OMPI_INFO" --version) in
    *" v4."*) ;;
    *)
        skip "nothing is exchanged before the wire-up" "ranks that disagree on coll_gpuring_$1"
        return
        ;;
    esac
    check "coll_gpuring_$1=$2 and $3: a message has parameter, ranks, and values as they were set" \
        says "\[ranks-differ\] coll_gpuring_$1 is $2[ ,].*rank 0 .* and $3[ ,].*rank 1 "
    check "coll_gpuring_$1=$2 and $3: no rank waits" \
        sh -c "test $status -ne 124 && ! grep -q '\[stalled\]' '$work/out'"
}
peers priority 90 0
peers priority 0 90
peers device host cuda
peers device auto host
peers connect_after 5 6

# There are too few descriptors for UCX, which would abort. All ranks must delegate, and the message must have
# the remedy.
for descriptors in 34 38 42; do
    OMPI_MCA_coll_gpuring_net=ucx run 60 "$MPIRUN" -n 2 --mca coll_gpuring_priority 90 \
        --mca coll_gpuring_device host "$top_srcdir/test/mpi/as_nodes.sh" 2 2 \
        sh -c 'ulimit -n "$1" && shift && exec "$@"' sh "$descriptors" \
        "$programs/matrix" -n 100 -t MPI_INT
    check "ulimit -n $descriptors: the message names it" says '\[few-descriptors\].*ulimit -n'
    check "ulimit -n $descriptors: no abort, no hang" test "$status" -lt 124
done

# An algorithm that this communicator cannot have.
OMPI_MCA_coll_gpuring_algorithm=two-shot OMPI_MCA_coll_gpuring_verbose=1 mpi 60 3 n2 matrix -n 100 -f 50 -s
check "an algorithm that is not offered: the log says so, once" \
    test "$(grep -c '\[not-offered\] coll_gpuring_algorithm=two-shot ' "$work/out")" -eq 1
adopt_as_one "an algorithm that is not offered"

# With the default priority the component is off.
run 60 "$MPIRUN" -n 2 --mca coll_base_verbose 10 "$programs/matrix" -n 100 -f 50
check "with the default priority 0 the component serves nothing" \
    sh -c "! grep -Eq 'gpuring INFO \[serves\]' '$work/out'"

# With verbose=1 the log reports that it is off. A misspelt name is always reported.
run 60 "$MPIRUN" -n 2 --mca coll_gpuring_verbose 1 --mca coll_gpuring_prioritty 90 \
    "$programs/matrix" -n 100 -f 50
check "verbose 1 reports priority 0 on each rank" \
    test "$(grep -c 'gpuring INFO \[off\] ' "$work/out")" -eq 2
check "a misspelt parameter is reported once" \
    test "$(grep -c 'WARN \[unknown-parameter\] coll_gpuring_prioritty ' "$work/out")" -eq 1

# A component with higher priority gets the calls. coll/tuned has priority 30.
for priority in 20 90; do
    run 60 "$MPIRUN" -n 2 --mca coll_gpuring_priority "$priority" --mca coll_gpuring_device host \
        "$programs/matrix" -n 100 -f 50
    check "coll_gpuring_priority=$priority: a component above is reported where there is one" \
        test "$(grep -c 'gpuring WARN \[outranked\] .* coll/' "$work/out")" -eq \
        "$([ "$priority" = 20 ] && echo 1 || echo 0)"
done
for above in sync monitoring; do
    OMPI_MCA_coll_sync_barrier_before=1000 OMPI_MCA_coll_monitoring_priority=100 \
        run 60 "$MPIRUN" -n 2 --mca coll_gpuring_priority 45 --mca coll_gpuring_device host \
        --mca coll "gpuring,self,basic,libnbc,tuned,inter,$above" --mca pml_monitoring_enable \
        "$([ $above = monitoring ] && echo 2 || echo 0)" "$programs/matrix" -n 100 -f 50
    check "coll/$above, which calls the component below, is not reported" \
        sh -c "test $status -eq 0 && ! grep -q '\[outranked\]' '$work/out'"
done

# Calls on host buffers are delegated with device=off, and also if the device is a GPU. Without CUDA, the
# log reports a missing device.
for device in off auto cuda; do
    OMPI_MCA_coll_gpuring_verbose=1 mpi 60 2 semantics
    cp "$work/out" "$work/said"
    adopt_as_one "coll_gpuring_device=$device, buffers in host memory"
    cp "$work/said" "$work/out"
    if grep -q '^#define GPURING_HAVE_CUDA *0' "$top_builddir/gpuring_config.h"; then
        check "coll_gpuring_device=$device without CUDA: told if it was asked for" \
            test "$(grep -c 'coll/gpuring \[no-cuda\]' "$work/out")" \
            "$([ "$device" = cuda ] && echo -ge || echo -lt)" 2
        check "coll_gpuring_device=$device without CUDA: the log says that nothing is served" \
            test "$(grep -c 'INFO \[no-cuda\]' "$work/out")" -eq \
            "$([ "$device" = auto ] && echo 2 || echo 0)"
    fi
done
device=host

# The log has one line at the first use of a communicator.
mpi 60 4 n2 matrix -n 100 -f 50 -s
run 60 "$MPIRUN" -n 2 --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
    --mca coll_gpuring_verbose 1 "$programs/matrix" -n 100 -f 50 -s
check "verbose 1 says in one line that coll/gpuring serves" \
    says '^[^ :]+:[0-9]+:[0-9]+ .*gpuring INFO \[serves\] '
run 60 "$MPIRUN" -n 2 --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
    --mca coll_gpuring_verbose 1 "$programs/semantics"
check "verbose 1 gives the reason of a fallback" says 'gpuring INFO .*(operation|type|user)'

# The log of each process in a separate file, with times. Errors are also on standard error.
logged() { # PATTERN
    run 60 "$MPIRUN" -n 2 --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
        --mca coll_gpuring_verbose 2 --mca coll_gpuring_log_file "$1" "$programs/matrix" -n 100 -f 50 -s
}
logged "$work/log-%h-%p"
check "log_file: a file for each process, named by host and process" \
    test "$(find "$work" -name "log-$(hostname)-[0-9]*" | wc -l)" -eq 2
check "log_file: each line has its time" sh -c "cat '$work'/log-* | awk '
    !/^[0-9]+-[0-9]+-[0-9]+T[0-9:]+\.[0-9]+Z [^ :]+:[0-9]+:[0-9-]+ .* gpuring (INFO|DEBUG) /{ bad = 1 }
    END { exit bad || NR < 2 }'"
check "log_file: lines that report nothing wrong are not on standard error" silent 'gpuring (INFO|DEBUG)'
logged "$work/100%"
check "log_file: a path with another % is a warning" says 'gpuring WARN \[log-file\]'
check "log_file: the lines then are on standard error" says 'gpuring INFO \[serves\]'
logged "$work/nowhere/log"
check "log_file: a file that cannot be opened is a warning" says '\[log-file\] .*nowhere/log: No such file'

finish
