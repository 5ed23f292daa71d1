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

OMPI_MCA_coll_gpuring_p2p=off aware 2 -n
adopt "coll_gpuring_p2p=off"
OMPI_MCA_coll_gpuring_priority=0 aware 2 -n
adopt "what is set already stays"
OMPI_MCA_coll=^gpuring aware 2 -n
adopt "without the component"
finish
