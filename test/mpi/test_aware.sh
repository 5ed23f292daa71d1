#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test gpuring-run and libgpuring_aware.so on the stand-in driver.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

GPURING_AWARE=$top_builddir/tools/.libs/libgpuring_aware.so
export GPURING_AWARE MPIRUN
gpuring_run=$top_builddir/tools/gpuring-run
profiler=$top_builddir/test/mpi/.libs/aware_profiler.so
built=$(cd "$top_builddir" && pwd)

run 20 "$gpuring_run" --help
check "gpuring-run --help" says '^usage: gpuring-run '
run 20 "$gpuring_run" -V
check "gpuring-run -V" says '^gpuring-run '
run 20 "$gpuring_run"
refused '^usage: gpuring-run ' "no arguments"
GPURING_AWARE=/nowhere run 20 "$gpuring_run" -n 1 true
refused 'there is no ' "a library that is not there"
unset OMPI_MCA_mca_base_component_path
run 20 "$gpuring_run" --environment
# shellcheck disable=SC2016 # for the inner shell
check "the environment for other launchers" env -u LD_PRELOAD sh -c \
    'eval "$(cat "$1")"; [ "$OMPI_MCA_coll_gpuring_priority $LD_PRELOAD" = "90 $2" ]' \
    sh "$work/out" "$GPURING_AWARE"
unset GPURING_AWARE
run 20 "$gpuring_run" --environment
check "from the build tree: its library" says "LD_PRELOAD='$built/tools/.libs/libgpuring_aware.so'"
check "from the build tree: its components" says "component_path='$built/.libs:SYSTEM_DEFAULT"
export GPURING_AWARE="$top_builddir/tools/.libs/libgpuring_aware.so"
export OMPI_MCA_mca_base_component_path="$components:SYSTEM_DEFAULT:USER_DEFAULT"

# asks_for TEXT EXPECTED ARGUMENTS...: check the command line that gpuring-run makes for mpirun.
asks_for() {
    asks_text=$1 expected=$2
    shift 2
    run 20 env MPIRUN=echo "$gpuring_run" "$@"
    check "$asks_text" grep -qxF -- "$expected" "$work/out"
}
ours="-x LD_PRELOAD=$GPURING_AWARE"
asks_for "each program of a job gets the library" "$ours -n 1 a : $ours -n 2 b" -n 1 a : -n 2 b
asks_for "a library of the user's own comes after it" \
    "$ours -x A -x LD_PRELOAD=$GPURING_AWARE:/own.so -n 1 a" -x A -x LD_PRELOAD=/own.so -n 1 a
LD_PRELOAD=libm.so.6 asks_for "so does one in the environment" \
    "$ours:libm.so.6 $ours:libm.so.6 -n 1 a" -x LD_PRELOAD -n 1 a
asks_for "a list of variables among the arguments" \
    "--mca mca_base_env_list A=1;B;LD_PRELOAD=$GPURING_AWARE -n 1 a" \
    --mca mca_base_env_list 'A=1;B' -n 1 a

# gets TEXT EXPECTED ARGUMENTS...: check the environment of each program of a job.
gets() {
    gets_text=$1 expected=$2
    shift 2
    run 60 "$gpuring_run" "$@"
    check "$gets_text" sh -c \
        '[ "$1" -eq 0 ] && grep -qxF -- "$2" "$3" && ! grep "^got " "$3" | grep -vqxF -- "$2"' \
        sh "$status" "got $expected" "$work/out"
}
# shellcheck disable=SC2016 # for the program's shell
got='echo "got $LD_PRELOAD ${GPURING_TEST_A-}"'
gets "a job's program is preloaded" "$GPURING_AWARE " -n 1 sh -c "$got"
if openmpi5; then
    skip "mpirun of Open MPI 5.0.7 crashes at a colon" "every program of a job is preloaded"
else
    gets "every program of a job is preloaded" "$GPURING_AWARE " \
        -n 1 sh -c "$got" : -n 1 sh -c "$got"
fi
gets "with -x of the user's own" "$GPURING_AWARE:$profiler 5" \
    -x GPURING_TEST_A=5 -x LD_PRELOAD="$profiler" -n 1 sh -c "$got"
OMPI_MCA_mca_base_env_list='GPURING_TEST_A=6' gets "with a list of the site's" \
    "$GPURING_AWARE 6" -n 1 sh -c "$got"
OMPI_MCA_mca_base_env_list="LD_PRELOAD=$profiler;GPURING_TEST_A=7" gets \
    "with a list that preloads" "$GPURING_AWARE:$profiler 7" -n 1 sh -c "$got"
printf '#!/bin/sh\n%s\n' "$got" >"$work/got"
chmod +x "$work/got"
printf '%s\n' "-n 1 $work/got" "-n 1 $work/got" >"$work/app"
if openmpi5; then
    head -n 1 "$work/app" >"$work/app1"
    mv "$work/app1" "$work/app"
fi
gets "by an application file" "$GPURING_AWARE " --app "$work/app"
check "without a remark" silent 'app-file'
printf '%s\n' "-x GPURING_TEST_A=1 -n 1 $work/got" >"$work/app"
run 60 "$gpuring_run" --app "$work/app"
check "an application file with -x: what to do instead" says '\[app-file\] .*mca_base_env_list'

if [ ! -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    skip "built without CUDA: there is no device layer to test" "calls on device memory"
    finish
fi
use_gpus 2
export GPURING_STANDIN_REPORT="$work/report"

# aware RANKS ARGUMENTS...: run the program `aware` with gpuring-run.
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

# files RANKS ARGUMENTS...: run the program for files in an empty folder.
files() {
    ranks=$1
    shift
    rm -rf "$work/files"
    mkdir "$work/files"
    run 60 "$gpuring_run" -n "$ranks" "$top_srcdir/test/mpi/as_nodes.sh" 1 "$ranks" \
        "$programs/aware_files" "$@" "$work/files"
}
# Open MPI 5.0.7 and 6.0.0rc2 never return from a read beyond the end of a file in a converting view, on
# host memory and without this component either (doc/hacking/open-mpi.md).
mkdir "$work/files"
OMPI_MCA_coll=^gpuring mpi 15 1 aware_files beyond "$work/files"
views=views
if [ "$status" -eq 124 ]; then
    skip "this Open MPI hangs in such a read on host memory without this component" \
        "reads beyond the end of a file in a view of representation external32"
    views=within
else
    adopt "without this library"
fi
files 1 "$views"
adopt "1 rank"
nothing_held "all memory is given back after calls on files"
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
nothing_held "calls on files that fail leave nothing behind"

# Profilers that are loaded between this library and Open MPI, and before this library.
calls='^profiler: 16 packs, 1 replacements, 2 writes$'
rm -f "$work/file"
GPURING_TEST_LOOK=1 LD_PRELOAD=$profiler aware 2 "$work"
adopt_as_one "with a profiler that is preloaded"
check "it sees each call once, and host memory" says "$calls"
GPURING_TEST_PRELOAD="$profiler:$GPURING_AWARE" aware 2 "$work"
adopt_as_one "with a profiler before this library"
check "it sees each call once" says "$calls"

# Bindings that look up functions in their MPI library, which is replaced with this library.
if [ -x /usr/bin/python3 ]; then
    run 60 "$gpuring_run" -n 1 "$top_srcdir/test/mpi/as_nodes.sh" 1 1 /usr/bin/python3 \
        "$top_srcdir/test/mpi/aware_ctypes.py" "$GPURING_AWARE"
    adopt "ctypes"
    programs='' mpi 60 1 /usr/bin/python3 "$top_srcdir/test/mpi/aware_ctypes.py" "$GPURING_AWARE"
    adopt "ctypes, not preloaded"
else
    skip "there is no /usr/bin/python3" "ctypes"
fi

OMPI_MCA_coll_gpuring_p2p=off aware 2 -n
adopt "coll_gpuring_p2p=off"
OMPI_MCA_coll_gpuring_priority=0 aware 2 -n
adopt "what is set already stays"
OMPI_MCA_coll=^gpuring aware 2 -n
adopt "without the component"
finish
