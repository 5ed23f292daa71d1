#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test the channels of real machines. With the host device and a topology file, the ranks act as the file's GPUs
# in order, and use its rings and trees.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

# NICs that are faster than the path between the sockets connect the two parts of a node. Tests one node with
# two parts, two nodes with two parts, and whole nodes if no network may be used within a node.
for case in "4 1 ucx" "8 2 ucx" "4 1 none"; do
    # shellcheck disable=SC2086
    set -- $case
    ranks=$1 nodes=$2 net=$3
    topo=$top_srcdir/test/data/topo/two-sockets-fast-nics.xml
    OMPI_MCA_coll_gpuring_topo_file=$topo OMPI_MCA_coll_gpuring_net=$net \
        OMPI_MCA_coll_gpuring_graph_dump_file="$work/parts.xml" OMPI_MCA_coll_gpuring_verbose=1 \
        OMPI_MCA_coll_gpuring_check=plans mpi 240 "$ranks" "n$nodes" matrix -n 1,1000,100003 -f 47 -s
    adopt_as_one "$ranks ranks, NICs inside of $nodes node(s), net $net"
    if [ "$net" = none ]; then
        check "the node is whole without a network" silent '\[node-in-parts\]'
        continue
    fi
    check "NICs join the parts" says '\[node-in-parts\]'
    run 60 "$top_builddir/tools/gpuring-topo" simulate --topo "$topo" --nodes "$nodes" \
        --graph "$work/simulated.xml"
    check "and simulate connects them alike" cmp "$work/parts.xml" "$work/simulated.xml"
    rm -f "$work/parts.xml" "$work/simulated.xml"
done

if [ ! -d "${GPURING_TOPOLOGIES:-}" ]; then
    skip "needs the folder of topology files (GPURING_TOPOLOGIES)" "rings of real machines"
    finish
fi

for case in "azure-ndv2 8 1" "azure-ndv2 16 2" "hgx-h200-vastai 8 1" "hwloc-dgx2-16xv100 16 1" \
    "perlmutter-4xa100 8 2" "rtx3090-8gpu-pcie 8 1" "azure-ndv2 6 1"; do
    # shellcheck disable=SC2086
    set -- $case
    name=$1 ranks=$2 nodes=$3
    export OMPI_MCA_coll_gpuring_topo_file="$GPURING_TOPOLOGIES/$name.xml"
    export OMPI_MCA_coll_gpuring_graph_dump_file="$work/used.xml"
    OMPI_MCA_coll_gpuring_verbose=1 mpi 240 "$ranks" "n$nodes" matrix -n 1,1000,100003 -f 47 -s \
        auto-auto ring-auto tree-auto two-shot-auto
    adopt_as_one "$name, $ranks ranks on $nodes nodes"
    check "$name: the log says how many channels" says '\[serves\] .* [0-9]+ channel'
    for containers in "" "--containers"; do
        # shellcheck disable=SC2086
        run 60 "$top_builddir/tools/gpuring-topo" simulate --topo "$GPURING_TOPOLOGIES/$name.xml" \
            --nodes "$nodes" --gpus "0-$((ranks / nodes - 1))" --graph "$work/simulated.xml" $containers
        check "$name, $ranks ranks on $nodes nodes: simulate $containers connects them alike" \
            cmp "$work/used.xml" "$work/simulated.xml"
        rm -f "$work/simulated.xml"
    done
    check "$name: by the topology" grep -q 'source="topology"' "$work/used.xml"
    rm -f "$work/used.xml"
done
unset OMPI_MCA_coll_gpuring_graph_dump_file

export OMPI_MCA_coll_gpuring_topo_file="$GPURING_TOPOLOGIES/azure-ndv2.xml"
mpi 120 8 matrix -n 1000 -f 47 -s
run 120 "$MPIRUN" -n 8 --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
    --mca coll_gpuring_topo_dump_file "$work/dump.xml" \
    --mca coll_gpuring_graph_dump_file "$work/graph.xml" --mca coll_gpuring_check plans \
    "$programs/matrix" -n 1000 -f 47 -s
adopt_as_one "dumps and proven plans, 8 ranks as a DGX-1"
check "the topology dump can be read again" \
    "$top_builddir/tools/gpuring-topo" show --topo "$work/dump.xml"
check "the graph dump names the channels" grep -q channel "$work/graph.xml"

# Each rank sees only its GPU. Together they see the whole machine.
unset OMPI_MCA_coll_gpuring_topo_file
views() { # as the last run, with the parameters given
    run 120 "$MPIRUN" -n 8 --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
        --mca coll_gpuring_verbose 2 --mca coll_gpuring_topo_dump_file "$work/views.xml" \
        --mca coll_gpuring_graph_dump_file "$work/views-graph.xml" --mca coll_gpuring_check plans \
        "$top_srcdir/test/mpi/as_views.sh" "$GPURING_TOPOLOGIES/azure-ndv2.xml" "$work" \
        "$programs/matrix" -n 1000 -f 47 -s
}
views
adopt_as_one "eight ranks that see one GPU each"
sed -n 's/.*\[views\] topology of this node: \(8 views of 8 ranks, fingerprint .*\)/\1/p' "$work/out" \
    >"$work/views"
check "all of them have the same topology, of eight views" \
    test "$(wc -l <"$work/views")" -ge 8 -a "$(sort -u "$work/views" | wc -l)" -eq 1
check "it is the whole machine's" cmp "$work/dump.xml" "$work/views.xml"
check "and so are the channels" cmp "$work/graph.xml" "$work/views-graph.xml"

GPURING_TEST_STRANGER=5 views
adopt_as_one "a rank that sees another machine"
check "it is told, once" test "$(grep -c '\[views-differ\]' "$work/out")" -eq 1
check "ranks are connected in their order then" grep -q 'source="order of ranks"' \
    "$work/views-graph.xml"

finish
