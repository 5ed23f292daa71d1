#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# gpuring-run and libgpuring_aware.so, on the stand-in driver.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

GPURING_AWARE=$top_builddir/tools/.libs/libgpuring_aware.so
export GPURING_AWARE MPIRUN
gpuring_run=$top_builddir/tools/gpuring-run

run 20 "$gpuring_run" --help
check "gpuring-run --help" says '^usage: gpuring-run '
GPURING_AWARE=/nowhere run 20 "$gpuring_run" -n 1 true
refused 'there is no ' "a library that is not there"
unset OMPI_MCA_mca_base_component_path
run 20 "$gpuring_run" --environment
# shellcheck disable=SC2016 # for the shell that is asked
check "the environment for other launchers" env -u LD_PRELOAD sh -c \
    'eval "$(cat "$1")"; [ "$OMPI_MCA_coll_gpuring_priority $LD_PRELOAD" = "90 $2" ]' \
    sh "$work/out" "$GPURING_AWARE"
export OMPI_MCA_mca_base_component_path="$components:SYSTEM_DEFAULT:USER_DEFAULT"

if [ ! -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    skip "built without CUDA: there is no device layer to test" "calls on device memory"
    finish
fi
use_gpus 2
export GPURING_STANDIN_REPORT="$work/report"

# aware RANKS ARGUMENTS...: the program, by gpuring-run.
aware() {
    ranks=$1
    shift
    run 60 "$gpuring_run" -n "$ranks" "$top_srcdir/test/mpi/as_nodes.sh" 1 "$ranks" \
        "$programs/aware" "$@"
}
for ranks in 1 3; do
    rm -f "$work/file"
    aware "$ranks" "$work"
    adopt "$ranks ranks"
done
check "what is refused is said" says '\[not-for-gpus\] MPI_Put '
nothing_held "all memory is given back"

# files RANKS ARGUMENTS...: the program for files, in a folder of its own.
files() {
    ranks=$1
    shift
    rm -rf "$work/files"
    mkdir "$work/files"
    run 60 "$gpuring_run" -n "$ranks" "$top_srcdir/test/mpi/as_nodes.sh" 1 "$ranks" \
        "$programs/aware_files" "$@" "$work/files"
}
files 1 views
adopt "1 rank"
export GPURING_STANDIN_REPORT=
for fcoll in vulcan two_phase dynamic_gen2 individual; do
    if ! "$OMPI_INFO" --parsable | grep -q "^mca:fcoll:$fcoll:"; then
        skip "this Open MPI has no fcoll/$fcoll" "collective calls on files that fail, fcoll/$fcoll"
        continue
    fi
    export OMPI_MCA_fcoll="$fcoll"
    files 3 copies
    adopt_as_one "files, fcoll/$fcoll, one rank's copies fail"
    check "fcoll/$fcoll: the log names the call" \
        says 'gpuring ERROR \[stage-copy\] MPI_File_write_all .*0xff'
    LD_PRELOAD="$top_builddir/test/mpi/.libs/memory_faults.so" files 3 memory
    adopt_as_one "files, fcoll/$fcoll, one rank has no memory"
    check "fcoll/$fcoll: the log names the call and the lack" \
        says 'gpuring ERROR \[stage-no-memory\] MPI_File_write_all .*ulimit -v'
done
unset OMPI_MCA_fcoll

# Profilers, between this library and Open MPI, and before this library.
profiler=$top_builddir/test/mpi/.libs/aware_profiler.so
calls='^profiler: 16 packs, 1 replacements, 2 writes$'
rm -f "$work/file"
GPURING_TEST_LOOK=1 LD_PRELOAD=$profiler aware 2 "$work"
adopt_as_one "with a profiler that is preloaded"
check "it sees each call once, and host memory" says "$calls"
GPURING_TEST_PRELOAD="$profiler:$GPURING_AWARE" aware 2 "$work"
adopt_as_one "with a profiler before this library"
check "it sees each call once" says "$calls"

OMPI_MCA_coll_gpuring_p2p=off aware 2 -n
adopt "coll_gpuring_p2p=off"
OMPI_MCA_coll_gpuring_priority=0 aware 2 -n
adopt "what is set already stays"
OMPI_MCA_coll=^gpuring aware 2 -n
adopt "without the component"
finish
