#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test bad input from files and the environment: a clear message, and a right result or an MPI error.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"
# shellcheck source=test/bad_files.sh
. "$top_srcdir/test/bad_files.sh"

with() { # TEXT PATTERN MCA-OPTIONS...: the program ends in time, not by a signal, and says PATTERN
    text=$1 pattern=$2
    shift 2
    run 90 "$MPIRUN" -n 2 --mca coll_gpuring_priority 90 --mca coll_gpuring_device host "$@" \
        "$programs/matrix" -n 1,1000 -f 40
    check "$text: is reported" says "$pattern"
    check "$text: no crash, no hang" test "$status" -ne 124 -a "$status" -lt 128
}

echo '<system version="1"><cpu numaid="0"><pci busid=' >"$work/malformed.xml"
printf '' >"$work/empty.xml"
echo 'this is not XML' >"$work/text.xml"
echo '<system version="99"></system>' >"$work/version.xml"
printf '<system version="1">\0</system>' >"$work/zero.xml"
{
    echo '<system version="1"><cpu numaid="0" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">'
    awk 'BEGIN { for (i = 0; i < 200000; i++) printf "<pci busid=\"0000:%06x:00.0\" class=\"0x060400\" link_speed=\"\" link_width=\"0\"/>\n", i }'
    echo '</cpu></system>'
} >"$work/huge.xml"
{
    awk 'BEGIN { for (i = 0; i < 20000; i++) printf "<pci busid=\"0000:%06x:00.0\">", i }'
} >"$work/deep.xml"

for file in malformed empty text version zero huge deep; do
    with "a topology file that is $file" "$file\.xml" --mca coll_gpuring_topo_file "$work/$file.xml"
done
bad_files 64
while read -r file pattern; do
    with "a topology file: $file" "coll_gpuring_topo_file: .*$pattern" \
        --mca coll_gpuring_topo_file "$work/bad/$file"
done <"$work/bad/list"
bad_files 1
while read -r file pattern; do
    with "a tuning file: $file" "$pattern" --mca coll_gpuring_tuning_file "$work/bad/$file"
done <"$work/bad/list"
: >"$work/empty"
with "an empty tuning file" 'empty, line 1: \[bad-version\]' \
    --mca coll_gpuring_tuning_file "$work/empty"
printf 'gpuring-tuning 1\n\0\n' >"$work/zero"
with "a tuning file with a zero byte" 'zero, line 2: \[not-text\] byte 0x00' \
    --mca coll_gpuring_tuning_file "$work/zero"

with "a dump into a missing folder" 'nowhere' --mca coll_gpuring_topo_dump_file "$work/nowhere/t.xml"
with "a graph dump into a missing folder" 'nowhere' \
    --mca coll_gpuring_graph_dump_file "$work/nowhere/g.xml"
for dump in topo_dump_file graph_dump_file; do
    with "$dump: a pipe that nobody reads" \
        "coll_gpuring_$dump: .*/bad/pipe: .no-reader. " \
        --mca "coll_gpuring_$dump" "$work/bad/pipe"
done
if [ -c /dev/full ]; then
    with "a dump on a full device" '/dev/full' --mca coll_gpuring_topo_dump_file /dev/full
else
    skip "there is no /dev/full" "a dump on a full device"
fi

# Only one process writes the dumps, even if other processes are rank 0 of other communicators.
cat >"$work/dump.sh" <<'END'
#!/bin/sh
OMPI_MCA_coll_gpuring_graph_dump_file=$0.graph.$OMPI_COMM_WORLD_RANK
OMPI_MCA_coll_gpuring_topo_dump_file=$0.topology.$OMPI_COMM_WORLD_RANK
export OMPI_MCA_coll_gpuring_graph_dump_file OMPI_MCA_coll_gpuring_topo_dump_file
exec "$@"
END
chmod +x "$work/dump.sh"
run 90 "$MPIRUN" -n 4 --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
    "$work/dump.sh" "$programs/semantics"
adopt_as_one "dumps of a program with many communicators"
check "rank 0 of MPI_COMM_WORLD wrote them, nobody else" \
    test "$(cd "$work" && echo dump.sh.*)" = "dump.sh.graph.0 dump.sh.topology.0"

# Little memory: an error or a fallback, never a crash.
run 90 "$MPIRUN" -n 2 --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
    --mca coll_gpuring_buffer_size 1g --mca coll_gpuring_min_channels 16 \
    --mca coll_gpuring_max_channels 16 sh -c "ulimit -v 8000000; exec $programs/matrix -n 1,1000 -f 40"
check "an address space too small for the buffers: is reported" says 'memory'
check "an address space too small for the buffers: no crash, no hang" \
    test "$status" -ne 124 -a "$status" -lt 128

# No descriptors left for memory files.
run 90 "$MPIRUN" -n 2 --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
    --mca coll_gpuring_verbose 1 "$programs/descriptors"
adopt "few file descriptors"

# A temporary folder that is read-only, or full: we need none.
run 90 env "$MPIRUN" -n 2 -x TMPDIR=/proc --mca coll_gpuring_priority 90 \
    --mca coll_gpuring_device host sh -c "TMPDIR=/proc exec $programs/matrix -n 1,1000 -f 40 -s"
adopt_as_one "a read-only temporary folder"

finish
