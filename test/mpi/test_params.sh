#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Parameters and performance variables: listed, described, checked, compared over ranks.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

names="priority device algorithm protocol min_channels max_channels buffer_size chunk_size threads
topo_file topo_dump_file graph_dump_file hostid p2p_level gdr_level net verbs_hca verbs_timeout
verbs_retry_count verbs_qps verbs_spares verbs_gid_index verbs_sl verbs_tc verbs_pkey verbs_mtu
ucx_rails proxy_cpu proxy_spin proxy_yield timeout agree check verbose"

run 60 "$OMPI_INFO" --param coll gpuring --level 9
cp "$work/out" "$work/info"
for name in $names; do
    check "ompi_info lists coll_gpuring_$name" says "\"coll_gpuring_$name\""
    check "ompi_info describes coll_gpuring_$name" \
        sh -c "grep -A 6 '\"coll_gpuring_$name\"' '$work/info' | grep -Eq '^ {20,}[A-Z0-9a-z].{15,}'"
done

# A bad value: a text that names the parameter, and a program that still runs (without us, or with
# the default) and is right.
bad() { # NAME VALUE
    run 60 env OMPI_MCA_coll_gpuring_priority=90 OMPI_MCA_coll_gpuring_device=host \
        "OMPI_MCA_coll_gpuring_$1=$2" "$MPIRUN" -n 2 "$programs/matrix" -n 100 -f 50
    check "coll_gpuring_$1 = \"$2\" is reported by name" says "$1"
    check "coll_gpuring_$1 = \"$2\" is quoted in the message" says "$(echo "$2" | sed 's/[^A-Za-z0-9]/./g')"
    check "coll_gpuring_$1 = \"$2\" crashes nothing" test "$status" -ne 124 -a "$status" -lt 128
}
bad priority 101
bad priority abc
bad device tpu
bad algorithm rings
bad protocol ll64
bad min_channels -1
bad max_channels 100000
bad buffer_size 12x
bad buffer_size 1
bad chunk_size -5
bad threads 33000
bad p2p_level FAR
bad gdr_level 12
bad net tcp
bad verbs_timeout 32
bad verbs_retry_count 8
bad verbs_qps 0
bad verbs_spares 4
bad verbs_gid_index 256
bad verbs_sl 16
bad verbs_tc 256
bad verbs_pkey 0x8123
bad verbs_mtu 1500
bad ucx_rails 17
bad proxy_cpu 3-1
bad proxy_cpu fast
bad proxy_spin -2
bad proxy_yield 1s
bad timeout -3
bad timeout soon
bad agree never
bad check some
bad verbose many
bad topo_file /nonexistent/topology.xml

# min above max is a contradiction.
run 60 "$MPIRUN" -n 2 --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
    --mca coll_gpuring_min_channels 8 --mca coll_gpuring_max_channels 2 \
    "$programs/matrix" -n 100 -f 50
check "min_channels above max_channels is reported" says 'min_channels'
check "min_channels above max_channels crashes nothing" test "$status" -ne 124 -a "$status" -lt 128

# Ranks that disagree on a parameter that all must share.
run 60 "$MPIRUN" --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
    -n 1 env OMPI_MCA_coll_gpuring_buffer_size=65536 "$programs/matrix" -n 100 -f 50 : \
    -n 2 env OMPI_MCA_coll_gpuring_buffer_size=131072 "$programs/matrix" -n 100 -f 50
check "ranks that disagree: the message names the parameter" says 'buffer_size'
check "ranks that disagree: the message has both values" \
    sh -c "grep -q 65536 '$work/out' && grep -q 131072 '$work/out'"
check "ranks that disagree: no hang" test "$status" -ne 124

# Not asked for: not there.
run 60 "$MPIRUN" -n 2 --mca coll_base_verbose 10 "$programs/matrix" -n 100 -f 50
check "with the default priority 0 the component serves nothing" \
    sh -c "! grep -Eq 'gpuring INFO.*serves' '$work/out'"

# The one line at first use.
mpi 60 4 n2 matrix -n 100 -f 50 -s
run 60 "$MPIRUN" -n 2 --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
    --mca coll_gpuring_verbose 1 "$programs/matrix" -n 100 -f 50 -s
check "verbose 1 says in one line that coll/gpuring serves" \
    says '^[^ :]+:[0-9]+:[0-9]+ .*gpuring INFO '
run 60 "$MPIRUN" -n 2 --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
    --mca coll_gpuring_verbose 1 "$programs/semantics"
check "verbose 1 gives the reason of a fallback" says 'gpuring INFO .*(operation|type|user)'

finish
