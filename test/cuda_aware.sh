#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# cuda_aware.sh FOLDER: test the component with an Open MPI that is built with CUDA, below FOLDER. Open
# MPI is built once from the source package of this Debian release, for C only and with the components
# that the tests need, and then kept. All tests run on the stand-in driver, so no result is from a GPU.
# Prints TAP; the lines of gpu_costs are the tables of doc/hacking/open-mpi.md. Run it on Debian, as
# root, in a root file system that may be changed:
#
#   sh test/root.sh trixie sh test/cuda_aware.sh build/cuda-aware-trixie
cd "$(dirname "$0")/.." || exit 1
mkdir -p "${1:?cuda_aware.sh FOLDER}" || exit 1
folder=$(cd "$1" && pwd)
openmpi=$folder/install toolkit=/usr/local/cuda
top_srcdir=$PWD top_builddir=$folder/gpuring
MPIRUN=$openmpi/bin/mpirun OMPI_INFO=$openmpi/bin/ompi_info
export MPIRUN OMPI_INFO
# shellcheck source=test/mpi/lib.sh
. test/mpi/lib.sh

if [ ! -e "$toolkit/include/cuda.h" ]; then
    skip "there is no CUDA toolkit in $toolkit" "Open MPI with CUDA"
    finish
fi

# must TEXT COMMAND...: end the test if the command fails, because all later checks depend on it.
must() { # TEXT COMMAND...
    must_text=$1
    shift
    if "$@" >"$work/out" 2>&1 </dev/null; then
        ok "$must_text"
    else
        not_ok "$must_text"
        finish
    fi
}

get_source() {
    apt_get update && apt_get install -y --no-install-recommends libevent-dev xz-utils &&
        openmpi_source "$folder/source"
}

# Let Open MPI use the driver library for applications (test/standin/application), because Open MPI calls
# the driver like an application. Open MPI 4.1 opens the library by name, and 5.0 is linked with it.
use_application_library() {
    file=$folder/source/opal/mca/common/cuda/common_cuda.c
    [ ! -e "$file" ] || sed -i 's/"libcuda\.so\.1"/"libcuda_application.so"/' "$file" || return 1
    mkdir -p "$folder/link"
    nm -D --defined-only "$toolkit/lib64/stubs/libcuda.so" |
        sed -n 's/.* T \(cu[^@]*\).*/void \1(void);\nvoid \1(void) {}/p' >"$folder/link/libcuda.c"
    gcc -shared -fPIC -Wl,-soname,libcuda_application.so -o "$folder/link/libcuda.so" \
        "$folder/link/libcuda.c"
}

# Components that Open MPI's documentation lists as plugins are built as separate files.
configure_options="--with-cuda=$toolkit --with-cuda-libdir=$folder/link --with-devel-headers
    --enable-mca-dso=btl-smcuda,rcache-rgpusm,rcache-gpusm,accelerator-cuda
    --with-hwloc=external --with-libevent=external --without-ucx --without-ofi --without-slurm
    --disable-mpi-fortran --disable-oshmem --disable-io-romio --disable-sphinx"
build_openmpi() {
    rm -rf "$folder/build" "$openmpi" && mkdir "$folder/build" && cd "$folder/build" || return 1
    # shellcheck disable=SC2086
    ../source/configure --prefix="$openmpi" CFLAGS='-O1 -w' $configure_options "$pmix" &&
        make -j "$jobs" && make install && cd .. && rm -rf build source
}

version=$(dpkg-query -W -f '${Version}' libopenmpi-dev)
case $version in
4.*) pmix=--with-pmix=/usr/lib/x86_64-linux-gnu/pmix2 ;;
*) pmix=--with-pmix=external ;;
esac
stamp="$version $configure_options $pmix"
if [ "$(cat "$folder/built" 2>/dev/null)" != "$stamp" ]; then
    must "the source of Open MPI $version" get_source
    must "the name of the driver's library" use_application_library
    must "Open MPI $version with CUDA is built" build_openmpi
    echo "$stamp" >"$folder/built"
fi

programs_of_tests="gpu_costs matrix nonblocking staged staged_cases p2p p2p_cases"
build() {
    mkdir -p "$top_builddir" && cd "$top_builddir" || return 1
    [ -e Makefile ] || "$top_srcdir/configure" --with-mpi="$openmpi" --with-cuda-arch=90 || return 1
    # shellcheck disable=SC2046,SC2086
    make -j "$jobs" all test/standin/libcuda.la test/standin/libcuda_application.la \
        $(printf 'test/mpi/%s ' $programs_of_tests)
}
must "coll/gpuring is built for it" build

use_gpus 2
# For mpirun and ompi_info, too.
export LD_LIBRARY_PATH="$GPURING_TEST_DRIVER"

# costs TEXT ARGUMENTS-OF-MPIRUN...: print the driver calls that MPI calls on GPU buffers cause, and check
# the results.
costs() {
    costs_text=$1
    shift
    run 120 "$MPIRUN" -n 2 "$@" "$top_srcdir/test/mpi/as_nodes.sh" 1 2 "$programs/gpu_costs"
    adopt_as_one "$costs_text"
    sed -n 's/^# [A-Z]/# &/p; s/^# served/# &/p' "$work/out"
}

# Check what Open MPI and the component report about GPU support.
run 60 "$OMPI_INFO" --parsable --all
check "Open MPI was built with CUDA" says 'mpi_built_with_cuda_support:value:true'
check "it has shared memory for GPUs" says '^mca:btl:smcuda:version'

costs "2 ranks, Open MPI alone" --mca coll ^gpuring
check "Open MPI alone: no kernel runs" silent ' [1-9][0-9]* kernels'
cp "$work/out" "$work/alone"
export OMPI_MCA_coll_gpuring_priority=90 OMPI_MCA_coll_gpuring_device=cuda
costs "2 ranks, above it"
check "above it: 24 calls are served, none is staged" says '^# served 24, staged 0, '
check "above it: no call that is served copies anything" \
    test "$(grep -c ' 0 copies, 0 bytes, 0 waits, ' "$work/out")" -eq 12
messages() { sed -n 's/^# Sendrecv .* attributes, //p' "$1"; }
check "above it: messages are Open MPI's, and copy what they did" \
    test "$(messages "$work/out")" = "$(messages "$work/alone")"
costs "2 ranks, all calls are staged" --mca coll_gpuring_algorithm previous
check "staged: in and out once on each rank" says '^# Allreduce 1048576: .* 4194304 bytes'
OMPI_MCA_coll_gpuring_priority=60 costs "2 ranks, below coll/cuda"
check "below coll/cuda: 12 calls are served" says '^# served 12, '
costs "2 ranks, messages are ours, too" --mca coll_gpuring_p2p on
check "messages are ours: in and out once on each rank" says '^# Sendrecv 1048576: .* 4194304 bytes'
unset OMPI_MCA_coll_gpuring_priority OMPI_MCA_coll_gpuring_device

mpi 120 3 matrix -n 0,1,1025,20000 -f 5 -s
adopt_as_one "3 ranks: types and operations"
mpi 120 4 n2 matrix -n 1,1025 -f 11 -s
adopt_as_one "4 ranks on 2 nodes: types and operations"
mpi 120 3 nonblocking
adopt_as_one "3 ranks: non-blocking and persistent"
for algorithm in auto previous; do
    export OMPI_MCA_coll_gpuring_algorithm=$algorithm
    mpi 240 3 staged -f 53
    adopt_as_one "3 ranks, algorithm $algorithm: every collective, form and type"
    mpi 240 3 staged_cases
    adopt_as_one "3 ranks, algorithm $algorithm: cases"
done
unset OMPI_MCA_coll_gpuring_algorithm
# Skip faults of Open MPI itself: see doc/hacking/open-mpi.md.
export OMPI_MCA_coll_gpuring_p2p=on
mpi 240 3 p2p -f 487
adopt_as_one "3 ranks, messages are ours, too: forms of sends and receives"
mpi 120 3 p2p_cases
adopt_as_one "3 ranks, messages are ours, too: cases of sends and receives"
finish
