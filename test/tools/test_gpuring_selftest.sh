#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test gpuring-perf --selftest on host memory, between simulated nodes and separate ones (network
# namespaces), and on the stand-in driver. It must find a fault that is planted in each path, and name
# that path.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"
programs=$top_builddir/tools

# selftest RANKS NODES ARGS...: run gpuring-perf --selftest on RANKS ranks of NODES simulated nodes.
selftest() {
    ranks=$1 nodes=$2
    shift 2
    # shellcheck disable=SC2086
    run 120 "$MPIRUN" -n "$ranks" $options "$top_srcdir/test/mpi/as_nodes.sh" "$nodes" "$ranks" \
        "$programs/gpuring-perf" --selftest --seconds 1 "$@"
}
options=
# pairs PATTERN LABEL: count the pairs of ranks whose columns match PATTERN. Each column, MESSAGES DIRECT
# CHUNKS SIMPLE LL LL128 HOSTS, has a number (n) or "-".
pairs() { awk -v wanted="$1" -v by="$2" '
    $2 == "-" && $1 ~ /^[0-9]+$/ && $11 == by {
        text = ""
        for (i = 4; i <= 10; i++) text = text ($i == "-" ? "-" : $i ~ /^[0-9.]+$/ ? "n" : "x")
        count += text == wanted
    }
    END { print count + 0 }' "$work/out"; }
# found LABEL EXPECTED-PATHS: check that exactly these paths, one per line, are reported as wrong.
found() {
    sed -n 's/.*\[selftest-\(wrong\|failed\)\] \(.*\): [0-9]* \(wrong\|of\) .*/\2/p' "$work/out" | sort >"$work/found"
    printf '%s\n' "$2" >"$work/expected"
    check "$1: status 1" test "$status" -eq 1
    check "$1: is found, and nothing else" cmp -s "$work/found" "$work/expected"
}

selftest 3 1 -m host -e 32K -j "$work/json"
check "host memory: status 0" test "$status" -eq 0
check "all paths are right" says '^# ([0-9]+) of \1 paths are right'
check "a row for each pair, with messages and each protocol" test "$(pairs n--nnn- node)" -eq 3
check "each algorithm with each protocol" \
    test "$(grep -Ec '^  allreduce [a-z-]+/[a-z0-9]+ .* ok$' "$work/out")" -eq 12
check "and collectives" says '^  alltoall  .* ok$'
check "JSON has the verdicts" grep -q '"bad": 0' "$work/json"
check "of all ways and pairs" test "$(grep -c '"way"' "$work/json")" -eq 21
selftest 2 2 -m host -e 32K
check "2 nodes: status 0" test "$status" -eq 0
check "the pair goes by network" test "$(pairs n--nnn- network)" -eq 1

faults=$top_builddir/test/tools/.libs/selftest_faults.so
planted() { # FAULT EXPECTED
    # shellcheck disable=SC2034
    LD_PRELOAD="$faults" GPURING_FAULT="$1" selftest 3 1 -m host -e 32K
    found "$1" "$2"
}
planted MPI_Waitall:2 "ranks 0 and 1, messages messages
ranks 1 and 2, messages messages"
planted MPI_Allreduce:2 "ranks 0 and 1, allreduce ll
ranks 0 and 1, allreduce ll128
ranks 0 and 1, allreduce simple
ranks 1 and 2, allreduce ll
ranks 1 and 2, allreduce ll128
ranks 1 and 2, allreduce simple"
planted MPI_Bcast:3 "bcast"
planted MPI_Alltoall:3 "alltoall"
planted MPI_Scan:3:error "scan"
check "an error is a failure, not a wrong result" says '\[selftest-failed\] scan'
# Slots between the nodes.
for net in mpi=network ucx=sockets; do
    if [ ${net%=*} = ucx ] && ! grep -q 'GPURING_HAVE_UCX *1' "$top_builddir/gpuring_config.h"; then
        skip "built without UCX" "wrong slots of ucx"
        continue
    fi
    LD_PRELOAD="$faults" GPURING_FAULT=${net#*=} OMPI_MCA_coll_gpuring_net=${net%=*} \
        selftest 2 2 -m host -e 32K
    check "wrong slots of ${net%=*}: status 1" test "$status" -eq 1
    check "are found between the ranks, with the remedy" \
        says '\[selftest-wrong\] ranks 0 and 1, allreduce simple: .* run with another --mca coll_gpuring_net'
    check "and not in messages" silent '\[selftest-[a-z]*\] ranks 0 and 1, messages'
done

for bad in "--selftest --compare" "--selftest --no-check" "--selftest --seconds 0"; do
    # shellcheck disable=SC2086
    run 60 "$MPIRUN" -n 1 "$programs/gpuring-perf" $bad
    refused '\[(option-conflict|bad-option)\]' "$bad"
done
OMPI_MCA_coll=^gpuring selftest 2 1 -m host
check "without the component it says so" sh -c "[ $status -eq 2 ] && grep -q '\[selftest-off\]' '$work/out'"

# Two hosts with separate network namespaces.
run 120 "$top_srcdir/test/mpi/two_hosts.sh" -n 4 --host gpra:2,gprb:2 --map-by slot --mca pml ob1 \
    --mca btl self,vader,tcp -x OMPI_MCA_mca_base_component_path \
    "$programs/gpuring-perf" --selftest -m host --seconds 1 -e 32K
if [ "$status" -eq 77 ]; then
    skip "$(tail -n 1 "$work/out")" "two hosts"
else
    check "two hosts: status 0" test "$status" -eq 0
    check "two pairs in a host, four between hosts" \
        test "$(pairs n--nnn- node) $(pairs n--nnn- network)" = "2 4"
fi

# GPUs of the stand-in driver.
if [ ! -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    skip "built without CUDA: there is no device layer to test" "GPUs"
    finish
fi
use_gpus 2
export GPURING_STANDIN_PROTECT=0 # which takes most of the time
nvlink_topology 2
export OMPI_MCA_coll_gpuring_p2p_rendezvous=64k # so that small messages go each way
selftest 2 1 -m cuda -e 64K
check "2 GPUs: status 0" test "$status" -eq 0
check "messages in each way, each protocol, and through host memory" test "$(pairs nnnnnnn node)" -eq 1
check "collectives through host memory, too" says '^  allgather through host memory .* ok$'
# Faults: the kernel sees the flag of an LL128 line before its data, or wrong data in lines of LL. The
# wire-up finds both.
GPURING_STANDIN_FAULTS=torn=1 selftest 2 1 -m cuda -e 64K
check "torn lines of LL128: status 1" test "$status" -eq 1
check "each rank logs one line" test "$(grep -c 'WARN \[torn-lines\]' "$work/out")" -eq 2
check "are found between the ranks" says '\[selftest-silent\] ranks 0 and 1, allreduce ll128'
check "and not with other protocols" silent '\[selftest-[a-z]*\] (ranks 0 and 1, allreduce (simple|ll|hosts)|allreduce [a-z-]*/(simple|ll)):'
GPURING_STANDIN_FAULTS=wrong-ll=1 selftest 2 1 -m cuda -e 64K
check "wrong lines of LL: status 1" test "$status" -eq 1
check "are logged" says 'WARN \[wrong-lines\]'
check "and avoided with each protocol" says '\[selftest-silent\] ranks 0 and 1, allreduce simple'
# Fault: copies to and from the memory of the other GPU change the data. The first ones, which
# verify the mappings before messages use them, are correct.
GPURING_STANDIN_FAULTS=corrupt=20 selftest 2 1 -m cuda -e 64K
check "wrong bytes in a peer's mapping: status 1" test "$status" -eq 1
check "are found in messages that go directly" says '\[selftest-wrong\] ranks 0 and 1, messages direct'
for protocol in simple ll ll128; do
    check "and with protocol $protocol, which avoids them" \
        says "\[selftest-silent\] ranks 0 and 1, allreduce $protocol"
done
check "not through host memory" silent '\[selftest-[a-z]*\] ranks 0 and 1, (messages chunks|allreduce hosts)'
# Fault: data that kernels send through host memory.
GPURING_STANDIN_FAULTS=corrupt-host=1 selftest 2 1 -m cuda -e 64K
check "wrong data in host memory: status 1" test "$status" -eq 1
check "is found between the ranks" says '\[selftest-wrong\] ranks 0 and 1, allreduce hosts'
check "and in collectives" says '\[selftest-wrong\] bcast through host memory'
check "and nowhere else" silent '\[selftest-[a-z]*\] (ranks 0 and 1, (messages|allreduce (simple|ll))|[a-z_]*:)'
# Fault: large copies to pinned host memory, which messages in chunks use.
GPURING_STANDIN_FAULTS=corrupt-copy=65536 selftest 2 1 -m cuda -e 64K
check "wrong copies to host memory: status 1" test "$status" -eq 1
check "are found in messages in chunks" says '\[selftest-wrong\] ranks 0 and 1, messages chunks'
check "and not in allreduces" silent '\[selftest-[a-z]*\] ranks 0 and 1, allreduce'
finish
