#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# The GPU suite. It builds, tests and measures on a machine with at least one NVIDIA GPU, and writes a
# report for doc/results. It needs only the driver, a CUDA toolkit and a C compiler; no network, no Open
# MPI and no autotools. The source tree is an unpacked tarball of `make dist`, or a tree in which
# autogen.sh was run.
#
#   test/gpu/run.sh [OPTION...]
#
#   --debs DIR      use Open MPI and the libraries for the build from Debian packages in DIR. They are
#                   only unpacked below the work folder. On a Debian system with a network:
#                       cd DIR && apt-get download $(cat test/gpu/packages.txt)
#                   Their C library must not be newer than that of the machine with the GPU.
#   --mpi DIR       use Open MPI in DIR (default: from --debs, otherwise from the PATH)
#   --no-mpi        run only tests that need no MPI
#   --build DIR     use a build folder of this tree instead of building the MPI part
#   --work DIR      folder to build in (default: gpu-suite in the current folder)
#   --report FILE   the report (default: report.md in the work folder)
#   --quick         run a part of the correctness tests, and measure less
#   --first         run the most important tests within 8 minutes. Use it for the first command on a
#                   new machine. With two ranks it runs the selftest, MPI's types and operations, Python
#                   arrays, 8 bytes and 256 MiB, and then a quarter of the tests of the kernels. This is
#                   like --only selftest,mpi,python,measure,lanes --lanes 0/4 --seconds 460, but each
#                   part is shorter.
#   --only PARTS    run some of the parts selftest,mpi,python,measure,mps,lanes,sanitizer,bench, in this
#                   order (default: all). Uses an earlier build in the work folder. The report keeps
#                   the results of the other parts.
#   --lanes I/N     run only every N-th test of the kernels, beginning with test I: 0/4 to 3/4 are all
#   --seconds N     after N seconds end the running test, and start no other. Use it on machines that
#                   limit the time of a command. The report is written after each test.
#   --prepare       only build, without a GPU, for compute capability $CAPABILITY (default: 90). To save
#                   time on a machine with a GPU, copy the work folder there and pass it with --work.
#   --dry-run       run on the stand-in driver of the tests, without a GPU, to test this script and its
#                   programs quickly. The report states that it has no results of a GPU.
#
# The part python runs MPI through the mpi4py of $PYTHON (python3) on arrays of CuPy, PyTorch and Numba.
#
# Prints TAP. The exit status is 0 if nothing failed. Tests for which something is missing are skipped
# with a reason, which is also in the report.
set -u
export LC_ALL=C
begun=$(date +%s)
top=$(cd "$(dirname "$0")/../.." && pwd)
debs='' mpi='' with_mpi=yes build='' work=$PWD/gpu-suite report='' quick='' dry='' built=''
only='' lanes='' seconds='' first='' prepare='' lanes_limit=3000 numbers='2 4 8'
while [ $# -gt 0 ]; do
    case $1 in
    --debs | --mpi | --build | --work | --report | --only | --lanes | --seconds)
        [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; }
        case $1 in
        --debs) debs=$(cd "$2" && pwd) || exit 2 ;;
        --mpi) mpi=$(cd "$2" && pwd) || exit 2 ;;
        --build) build=$(cd "$2" && pwd) || exit 2 ;;
        --work) work=$2 ;;
        --report) report=$2 ;;
        --only) only=,$2, ;;
        --lanes) lanes=$2 ;;
        --seconds) seconds=$2 ;;
        esac
        shift ;;
    --no-mpi) with_mpi=no ;;
    --quick) quick=yes ;;
    --first) first=yes only=,selftest,lanes,mpi,python,measure, seconds=460 lanes_limit=240 numbers=2 ;;
    --prepare) prepare=yes only=, ;;
    --dry-run) dry=yes quick=yes ;;
    *) sed -n '/^#   test.gpu/,/^$/{/^#/s/^# \{0,1\}//p;}' "$0" >&2; exit 2 ;;
    esac
    shift
done
[ -z "$first" ] || [ -n "$dry$lanes" ] || lanes=0/4
lines_seconds=120
[ -z "$first$quick" ] || lines_seconds=20
[ -z "$dry" ] || lines_seconds=1
mkdir -p "$work/bin" "$work/log" || exit 2
work=$(cd "$work" && pwd)
report=${report:-$work/report.md}
case $only in *[!a-z,]*) echo "--only takes names of parts, with commas between" >&2; exit 2 ;; esac
case $seconds in *[!0-9]*) echo "--seconds takes a number" >&2; exit 2 ;; esac
checks=0 failed=0

# The results of each part are in a separate file, so that a part can be run again.
mkdir -p "$work/parts"
[ -n "$only" ] || rm -f "$work"/parts/* "$work"/log/*[!m]
part_begin() { # NAME
    tests=$work/parts/$1
    : >"$tests"
}
wanted() { # PART
    case $only in '' | *,$1,*) return 0 ;; *) return 1 ;; esac
}
result() { # LINE: to the report, at once: this script may be ended
    echo "$1" >>"$tests"
    write_report >"$report.new" && mv "$report.new" "$report"
}
ok() { checks=$((checks + 1)); echo "ok $checks - $*"; result "- passed: $*"; }
not_ok() {
    checks=$((checks + 1)) failed=$((failed + 1))
    echo "not ok $checks - $*"
    result "- **failed**: $*"
}
skip() { # REASON TEXT
    checks=$((checks + 1))
    reason=$1
    shift
    echo "ok $checks - $* # SKIP $reason"
    result "- not run: $* ($reason)"
}
# left SECONDS: print the time that is left for a step, at most SECONDS.
left() {
    rest=$1
    if [ -n "$seconds" ]; then
        spare=$((seconds - $(date +%s) + begun))
        [ "$rest" -ne 0 ] && [ "$rest" -lt "$spare" ] || rest=$spare
    fi
    echo "$rest"
}
# logged NAME SECONDS COMMAND...: run a command with a time limit and its output in log/NAME. If SECONDS is
# "function", the command is a function of this script, and there is no limit.
logged() {
    log=$work/log/$1 limit=$2
    shift 2
    if [ "$limit" = function ]; then
        "$@" >"$log" 2>&1 </dev/null
    else
        echo "+ $*" >"$log.command"
        timeout -k 10 "$limit" "$@" >"$log" 2>&1 </dev/null
    fi
}
# step NAME SECONDS TEXT COMMAND...: run a command as one check. If it fails, show the end of its log.
step() {
    name=$1 limit=$2 text=$3
    shift 3
    status=0
    if [ -n "$seconds" ] && [ "$(left 0)" -lt 10 ]; then
        skip "the time of --seconds $seconds is over" "$text"
        return 1
    fi
    [ "$limit" = function ] || limit=$(left "$limit")
    logged "$name" "$limit" "$@" || status=$?
    if [ "$status" -eq 0 ]; then
        ok "$text"
        return 0
    fi
    grep -v '^ok ' "$work/log/$name" | tail -n 25 | sed 's/^/# /'
    not_ok "$text (status $status, 124: out of time; log/$name)"
    return 1
}

# ---- Tools and GPUs of this machine ---------------------------------------------------------

CC=${CC:-cc}
# shellcheck disable=SC2086 # CC may hold a launcher
$CC --version >/dev/null 2>&1 || CC=gcc
nvcc=${NVCC:-$(PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin:/usr/local/cuda/bin command -v nvcc)}
[ -n "$nvcc" ] || { echo "Bail out! there is no nvcc: name it by CUDA_HOME or NVCC"; exit 1; }
# nvcc may be a wrapper outside its toolkit, so let it print the paths of its header and its programs.
toolkit=$(mktemp -d "${TMPDIR:-/tmp}/gpuring-nvcc.XXXXXX") || exit 2
echo '#include <cuda.h>' >"$toolkit/where.cu"
# shellcheck disable=SC2086 # NVCCFLAGS, as configure takes them: -ccbin=...
include=$("$nvcc" ${NVCCFLAGS-} -M "$toolkit/where.cu" 2>"$toolkit/log" | tr ' ' '\n' | sed -n 's,/cuda\.h$,,p' |
    sed -n 1p)
# shellcheck disable=SC2086
cuda_bin=$("$nvcc" ${NVCCFLAGS-} --dryrun "$toolkit/where.cu" 2>&1 | sed -n 's/^#\$ _HERE_=//p')
log=$(cat "$toolkit/log")
rm -rf "$toolkit"
[ -d "$include" ] || { echo "Bail out! $nvcc finds no cuda.h: $log"; exit 1; }
gpus=1
if [ -z "$dry$prepare" ]; then
    gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
    [ "$gpus" -gt 0 ] || { echo "Bail out! nvidia-smi lists no GPU; --dry-run needs none"; exit 1; }
fi
capability=${CAPABILITY:-90}
[ -n "$dry$prepare" ] ||
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | sed -n '1s/\.//p')
capability=${capability:-90}
if [ "$capability" -lt 75 ]; then
    echo "1..0 # SKIP compute capability ${capability%?}.${capability#"${capability%?}"} is not supported," \
        "7.5 and later are"
    exit 0
fi
commit=$(cat "$work/commit" 2>/dev/null) || commit=$(sh "$top/config/version.sh")

# If the loader does not find the driver, look for it where containers have it.
driver_is_found() {
    ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1' && return
    for dir in $(echo "${LD_LIBRARY_PATH-}" | tr : ' ') /usr/local/nvidia/lib64 \
        /usr/local/nvidia/lib /usr/lib/wsl/lib; do
        [ -e "$dir/libcuda.so.1" ] || continue
        LD_LIBRARY_PATH=$dir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
        export LD_LIBRARY_PATH
        return
    done
}
[ -n "$dry" ] || driver_is_found

facts() {
    echo "- date: $(date -u +%Y-%m-%d), commit: $commit"
    if [ -n "$dry$prepare" ]; then
        echo "- GPU: none"
    else
        nvidia-smi --query-gpu=name,driver_version,pci.bus_id,memory.total --format=csv,noheader |
            sed 's/^/- GPU, driver, bus, memory: /'
    fi
    echo "- CUDA: $("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p');" \
        "compiler: $($CC --version | head -n 1)"
    echo "- processor: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)," \
        "$(nproc) cores; $(uname -sr)"
}

# ---- Tests within one process: need only the compiler ------------------------------------------

if [ -n "$dry" ]; then
    part=0/40 sanitized=0/400 bench="--bytes 1048576 --rounds 3" fatbin=${build:+$build/kernels/kernels.fatbin}
elif [ -n "$quick" ]; then
    part=0/20 sanitized=0/800 bench="--bytes 67108864 --rounds 5" fatbin=
else
    part=0/1 sanitized=0/100 bench='' fatbin=
fi
part=${lanes:-$part}
plain=$work/plain
mkdir -p "$plain/kernels" "$plain/standin"
{
    echo '#define GPURING_HAVE_CUDA 1'
    echo '#define GPURING_HAVE_VERBS 0'
    echo '#define GPURING_HAVE_UCX 0'
    echo '#define GPURING_CUDA_DRIVER "of its CUDA toolkit"'
    echo "#define GPURING_CUDA_ARCH \" $capability\""
} >"$plain/gpuring_config.h"

kernels() {
    if [ -n "$dry" ] && [ -s "$fatbin" ]; then
        cp "$fatbin" "$plain/kernels/kernels.fatbin"
    else
        # shellcheck disable=SC2086
        "$nvcc" ${NVCCFLAGS-} -arch="sm_$capability" -std=c++17 -O3 -fmad=false -Werror all-warnings \
            -I"$top" -I"$plain" -fatbin -o "$plain/kernels/kernels.fatbin" "$top/kernels/kernels.cu"
    fi
}

compile() ( # OUTPUT FLAG... FILE...
    cd "$plain" || exit 1
    output=$1
    shift
    # shellcheck disable=SC2086
    exec $CC -std=gnu11 -O2 -g -D_GNU_SOURCE= -fPIC -I"$top/test/gpu/plain" -I"$top" \
        -I. -isystem "$include" -o "$output" "$@" -ldl -lpthread -lrt -lm
)

# Print the sources of the core, except for files that need headers of verbs or UCX.
core_sources() {
    for folder in kernels mca/coll_gpuring/util mca/coll_gpuring/plan mca/coll_gpuring/device \
        mca/coll_gpuring/device/cuda mca/coll_gpuring/transport mca/coll_gpuring/net \
        mca/coll_gpuring/net/mpi mca/coll_gpuring/net/proxy; do
        for file in "$top/$folder"/*.c; do
            echo "$file"
        done
    done
    for file in coll_gpuring/params_default topo_pci/predict/executor_model topo_pci/predict/costs \
        topo_pci/predict/predict topo_pci/predict/table topo_pci/xml/file; do
        echo "$top/mca/$file.c"
    done
}

core_object() { # SOURCE; several folders have files of one name
    name=${1#"$top"/}
    echo "${name%.c}.o" | tr / _
}

# Compile the core, with one compiler per processor.
core() {
    rm -rf "$plain/core" && mkdir -p "$plain/core" || return 1
    running=0
    for file in $(core_sources); do
        compile "core/$(core_object "$file")" -c "$file" &
        running=$((running + 1))
        if [ $((running % $(nproc))) -eq 0 ]; then
            wait
        fi
    done
    wait
    for file in $(core_sources); do
        [ -s "$plain/core/$(core_object "$file")" ] || return 1
    done
}

programs() {
    helpers="$top/test/gpu/gpu.c $top/test/unit/calls.c $top/test/unit/collective_calls.c $top/test/unit/fabric.c"
    helpers="$helpers $top/test/unit/plans.c $top/test/unit/reference.c"
    for program in gpu_lanes gpu_lines gpu_bench; do
        # shellcheck disable=SC2086
        compile "$program" "$top/test/gpu/$program.c" $helpers "$plain"/core/*.o || return 1
    done
    [ -z "$dry" ] ||
        compile standin/libcuda.so.1 -shared "$top"/test/standin/*.c "$top"/test/ptx/ptx_*.c \
            "$top/test/unit/block_threads.c" "$plain"/core/*.o
}

# gpu_step NAME SECONDS TEXT COMMAND...: like step, but with the stand-in driver in a dry run.
gpu_step() {
    step_name=$1 step_limit=$2 step_text=$3
    shift 3
    [ -z "$dry" ] ||
        set -- env LD_LIBRARY_PATH="$plain/standin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$@"
    step "$step_name" "$step_limit" "$step_text" "$@"
}
# Errors that driver calls return are not reported, because the device layer checks every status itself,
# and some of its queries may fail: queries of unfinished work, attributes of host memory, paths between
# GPUs. Errors in kernels are still reported.
refuses_machine() { # TOOL
    ! logged "$1-try" "$(left 120)" "$compute" --tool "$1" "$plain/gpu_lanes" --part 0/1000000000 &&
        grep -qi 'not supported' "$work/log/$1-try"
}
sanitizer() { # TOOL
    compute=$(PATH=$cuda_bin:$PATH command -v compute-sanitizer)
    if [ -n "$dry" ]; then
        skip "dry run: there is no GPU" "compute-sanitizer $1"
    elif [ -z "$compute" ]; then
        skip "the toolkit has no compute-sanitizer" "compute-sanitizer $1"
    elif refuses_machine "$1"; then
        skip "it says that it does not support this machine (log/$1-try)" "compute-sanitizer $1"
    else
        seen=
        [ "$1" != racecheck ] || seen=', which looks at shared memory only,'
        step "$1" 1200 "compute-sanitizer $1$seen finds nothing in gpu_lanes --part $sanitized" \
            "$compute" --tool "$1" --error-exitcode 99 --report-api-errors no \
            "$plain/gpu_lanes" --part "$sanitized"
    fi
}

# built_once NAME TEXT FILES...: call the function NAME as one check, unless an earlier run called it with
# the same content of FILES.
built_once() {
    once_name=$1 once_text=$2
    shift 2
    sum=$({ echo "$capability $dry $mpi"; cat "$@"; } | cksum)
    if [ "$(cat "$work/log/$once_name.sum" 2>/dev/null)" = "$sum" ]; then
        ok "$once_text, earlier"
        return
    fi
    rm -f "$work/log/$once_name.sum"
    step "$once_name" function "$once_text" "$once_name" || return 1
    echo "$sum" >"$work/log/$once_name.sum"
}

all_sources() {
    find "$top/kernels" "$top/mca" "$top/test" "$top/tools" -name '*.[ch]' -o -name '*.cu' | sort
}

# shellcheck disable=SC2086
build_programs() {
    part_begin 1-build
    sources=$(all_sources)
    built_once kernels "the kernels are built" "$top"/kernels/*.[ch] "$top"/kernels/*.cu &&
        built_once core "the core is built by $CC alone" $sources \
            "$plain/kernels/kernels.fatbin" &&
        built_once programs "the programs are built" $sources "$plain/kernels/kernels.fatbin" ||
        return
    built=yes
}

# shellcheck disable=SC2086
within_one_process() {
    [ -n "$built" ] || return
    if wanted lanes; then
        part_begin 2-lanes
        gpu_step gpu_lanes $lanes_limit \
            "kernels: many ranks on one GPU in one process (gpu_lanes --part $part)" \
            "$plain/gpu_lanes" --part "$part"
        gpu_step gpu_lines $((lines_seconds + 60)) \
            "lines of LL128 between ranks on one GPU (gpu_lines --seconds $lines_seconds)" \
            "$plain/gpu_lines" --seconds "$lines_seconds"
    fi
    if wanted sanitizer; then
        part_begin 3-sanitizer
        sanitizer memcheck
        sanitizer racecheck
    fi
    if wanted bench; then
        part_begin 4-bench
        gpu_step gpu_bench 900 "measurements within one process" "$plain/gpu_bench" $bench
    fi
}

# ---- With MPI -----------------------------------------------------------------------------------

# Unpack Open MPI and set the variables through which its programs and libraries find their files.
bring_mpi() {
    root=$work/root
    mkdir -p "$root" && for deb in "$debs"/*.deb; do
        dpkg-deb -x "$deb" "$root" || return 1
    done
    triplet=$(cd "$root/usr/lib" && ls -d ./*-linux-gnu | head -n 1)
    libraries=$root/usr/lib/${triplet#./}
    # Debian's maintainer scripts make these links, but packages are only unpacked here.
    for name in mpicc mpirun ompi_info; do
        { echo '#!/bin/sh'
            echo "exec '$root/usr/bin/$([ $name = mpirun ] && echo orterun || echo "$name.openmpi")' \"\$@\""
        } >"$work/bin/$name"
        chmod +x "$work/bin/$name"
    done
    [ -e "$root/usr/bin/ompi_info.openmpi" ] ||
        sed -i 's/ompi_info\.openmpi/ompi_info/' "$work/bin/ompi_info"
    [ -x "$work/bin/pkg-config" ] || ln -sf "$root/usr/bin/pkgconf" "$work/bin/pkg-config"
    PATH=$work/bin:$PATH:$root/usr/bin
    LD_LIBRARY_PATH=$libraries:$libraries/openmpi/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    LIBRARY_PATH=$libraries:$libraries/openmpi/lib
    CPATH=$root/usr/include:$root/usr/include/${triplet#./}
    PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1
    PKG_CONFIG_LIBDIR=$libraries/pkgconfig:$root/usr/share/pkgconfig:$root/usr/lib/pkgconfig
    OPAL_PREFIX=$root/usr OPAL_LIBDIR=$libraries
    OPAL_PKGLIBDIR=$libraries/openmpi/lib/openmpi3 OPAL_DATADIR=$root/usr/share
    PMIX_INSTALL_PREFIX=$libraries/pmix2
    OMPI_CC=$CC
    export PATH LD_LIBRARY_PATH LIBRARY_PATH CPATH PKG_CONFIG_SYSROOT_DIR PKG_CONFIG_LIBDIR
    export PKG_CONFIG_ALLOW_SYSTEM_LIBS PKG_CONFIG_ALLOW_SYSTEM_CFLAGS OMPI_CC
    export OPAL_PREFIX OPAL_LIBDIR OPAL_PKGLIBDIR OPAL_DATADIR PMIX_INSTALL_PREFIX
    configure_more="--without-verbs"
    [ -e "$root/usr/include/ucp/api/ucp.h" ] || configure_more="$configure_more --without-ucx"
    mpirun --version && ompi_info --parsable --path pkglibdir
}

component() (
    rm -rf "$work/build" && mkdir -p "$work/build" && cd "$work/build" || exit 1
    # shellcheck disable=SC2086
    # Copied files may have any time stamps, so prevent make from running autotools.
    "$top/configure" --disable-maintainer-mode CC="$CC" NVCC="$nvcc" --with-cuda \
        --with-cuda-arch="$capability" \
        ${mpi:+--with-mpi="$mpi"} ${configure_more-} && make -j "$(nproc)" &&
        make -j "$(nproc)" check TESTS= || exit 1
    [ -z "$prepare" ] || # not what only the build needs
        find . -name '*.[oa]' -delete -o -type f -perm -u+x -exec strip --strip-debug {} + 2>/dev/null || :
)

# mpi_step NAME SECONDS TEXT RANKS PROGRAM ARGUMENT...: run an MPI program on $mpi_nodes simulated nodes.
mpi_nodes=1
mpi_step() {
    # Small calls with a root are served, too, instead of staged.
    export OMPI_MCA_coll_gpuring_agree_size=1
    mpi_name=$1 mpi_limit=$2 mpi_text=$3 mpi_ranks=$4 mpi_program=$build/$5
    shift 5
    gpu_step "$mpi_name" "$mpi_limit" "$mpi_text" "${MPIRUN:-mpirun}" -n "$mpi_ranks" \
        --mca coll_gpuring_priority 90 --mca coll_gpuring_device cuda \
        "$top/test/mpi/as_nodes.sh" "$mpi_nodes" "$mpi_ranks" "$mpi_program" "$@"
}

# Test every path between ranks, on one GPU and on all GPUs. The report has the end of the output.
selftests() {
    self_seconds=30 self_end=16M
    [ -z "$first$quick" ] || self_seconds=10
    [ -z "$dry" ] || self_seconds=1 self_end=32K
    mpi_step selftest-1 240 "selftest: all paths between 2 ranks on one GPU" 2 tools/gpuring-perf \
        --selftest -m cuda --seconds "$self_seconds" -e "$self_end"
    if [ "$gpus" -gt 1 ]; then
        unset CUDA_VISIBLE_DEVICES
        mpi_step selftest-gpus 300 "selftest: all paths between $gpus ranks on $gpus GPUs" "$gpus" \
            tools/gpuring-perf --selftest -m cuda --seconds "$self_seconds" -e "$self_end"
        export CUDA_VISIBLE_DEVICES="${visible:-0}"
    fi
}

correctness() {
    fraction='-f 1' some=5
    [ -z "$quick" ] || fraction='-f 40' some=97
    [ -z "$dry" ] || fraction='-f 300' some=997
    for ranks in $numbers; do
        # shellcheck disable=SC2086
        mpi_step "matrix-$ranks" 1800 "$ranks ranks on one GPU by IPC: types, operations, sizes" \
            "$ranks" test/mpi/matrix -n 1,1000,100003 $fraction -s
    done
    mpi_step messages-ways 300 "2 ranks on one GPU: large messages go directly" 2 \
        test/mpi/p2p_offers direct
    # Use small slots, so that vectors have several windows.
    OMPI_MCA_coll_gpuring_buffer_size=16k mpi_step native-2 300 \
        "2 ranks on one GPU: every collective in every form" 2 test/mpi/native -s 1 -f "$some" -m 20
    mpi_step mapped-2 300 "2 ranks on one GPU: persistent allreduces, on mapped buffers if possible" 2 \
        test/mpi/mapped any
    [ -z "$first" ] || return
    mpi_step mapped-4 300 "4 ranks on one GPU: persistent allreduces, on mapped buffers if possible" 4 \
        test/mpi/mapped any
    OMPI_MCA_coll_gpuring_buffer_size=16k mpi_step native-4 600 \
        "4 ranks on one GPU: every collective in every form" 4 test/mpi/native -s 1 -f "$some" -m 20
    OMPI_MCA_coll_gpuring_p2p_level=LOC mpi_step messages-chunks 300 \
        "2 ranks on one GPU: large messages go in chunks (p2p_level=LOC)" 2 \
        test/mpi/p2p_offers chunks
    mpi_step messages-cases 600 "3 ranks on one GPU: point-to-point calls" 3 test/mpi/p2p_cases
    # shellcheck disable=SC2086
    OMPI_MCA_coll_gpuring_p2p_level=LOC mpi_step matrix-host 900 \
        "3 ranks on one GPU through host memory (p2p_level=LOC): types, operations, sizes" 3 \
        test/mpi/matrix -n 1,1000,100003 $fraction -s
    if grep -q '^#define GPURING_HAVE_UCX *1' "$build/gpuring_config.h"; then
        # shellcheck disable=SC2086
        UCX_TLS=tcp OMPI_MCA_coll_gpuring_net=ucx mpi_nodes=2 mpi_step matrix-proxy 900 \
            "2 ranks as on two nodes, GPU to proxy to GPU by UCX over TCP" 2 \
            test/mpi/matrix -n 1,1000,100003 $fraction -s
    else
        skip "built without UCX (--debs: libucx-dev)" "GPU to proxy to GPU by UCX over TCP"
    fi
    mpi_step semantics 600 "4 ranks on one GPU: MPI's rules" 4 test/mpi/semantics
    mpi_step nonblocking 600 "4 ranks on one GPU: non-blocking calls" 4 test/mpi/nonblocking
}

# Test ranks that take turns on a GPU. Without MPS small calls are staged unless an algorithm is selected.
turns() {
    mpi_step matrix-staged 600 "2 ranks that take turns on one GPU: small calls, which are staged" 2 \
        test/mpi/matrix -n 1,7,1000,100003 -f 97
    OMPI_MCA_coll_gpuring_algorithm=ring mpi_step matrix-turns 900 \
        "2 ranks that take turns on one GPU: kernels (algorithm=ring)" 2 \
        test/mpi/matrix -n 1,1000,100003 -f 97 -s
}

several_gpus() {
    if [ "$gpus" -lt 2 ]; then
        skip "this machine has one GPU" "ranks on several GPUs"
        return
    fi
    unset CUDA_VISIBLE_DEVICES
    # shellcheck disable=SC2086
    mpi_step matrix-gpus 1800 "$gpus ranks on $gpus GPUs: types, operations, sizes" "$gpus" \
        test/mpi/matrix -n 1,1000,100003 $fraction -s
    mpi_step mapped-gpus 300 "$gpus ranks on $gpus GPUs: persistent allreduces, on mapped buffers if possible" \
        "$gpus" test/mpi/mapped any
}

# Test each library in separate processes. First check in one process, without MPI, that the library works
# here.
python_arrays() {
    python=$(command -v "${PYTHON:-python3}") || {
        skip "there is no ${PYTHON:-python3}: name one by PYTHON" "MPI on arrays of Python"
        return
    }
    [ -z "$dry" ] || # of the driver, Numba calls more than the component
        export NUMBA_CUDA_DRIVER="$build/test/standin/.libs/libcuda_application.so"
    export PYTHONDONTWRITEBYTECODE=1 MPI4PY_MPIABI=openmpi # of wheels, which can load any MPI library
    for library in cupy torch numba; do
        python_text="$library: mpi4py on its arrays"
        if ! logged "python-mpi4py" 60 "$python" -c 'import mpi4py'; then
            skip "$python has no mpi4py" "$python_text"
        elif ! logged "python-usable-$library" "$(left 120)" "$python" \
            "$top/test/gpu/python_arrays.py" --usable "$library"; then
            skip "$(tail -n 1 "$work/log/python-usable-$library")" "$python_text"
        else
            python_text="$(tail -n 1 "$work/log/python-usable-$library"): mpi4py on its arrays, 2 ranks"
            gpu_step "python-$library" 300 "$python_text" "${MPIRUN:-mpirun}" -n 2 \
                --mca coll_gpuring_priority 90 --mca coll_gpuring_device cuda \
                "$python" "$top/test/gpu/python_arrays.py" ${dry:+--brief} "$library"
        fi
    done
}

# measure NAME TEXT SIZE...
measure() {
    what=$1 what_text=$2
    shift 2
    for ranks in $numbers; do
        mpi_step "$what-$ranks" 900 "$what_text, $ranks ranks on one GPU" "$ranks" \
            test/gpu/gpu_allreduce "$@"
    done
}

# Measure each path of messages.
measure_messages() { # SIZE...
    mpi_step way-direct 300 "messages, 2 ranks on one GPU" 2 test/gpu/gpu_messages "$@"
    OMPI_MCA_coll_gpuring_p2p_level=LOC mpi_step way-chunks 300 \
        "messages in chunks (p2p_level=LOC)" 2 test/gpu/gpu_messages "$@"
    OMPI_MCA_coll_gpuring_p2p_rendezvous=0 mpi_step way-staged 300 \
        "messages staged as a whole (p2p_rendezvous=0)" 2 test/gpu/gpu_messages "$@"
}

# Measure messages that kernels copy, against copies by the driver. Ranks on one GPU need MPS for both.
measure_kernels() {
    # shellcheck disable=SC2086
    mpi_step way-kernels 300 "messages copied by kernels, with MPS" 2 test/gpu/gpu_messages $kernels
    # shellcheck disable=SC2086
    OMPI_MCA_coll_gpuring_p2p_kernels=0 mpi_step way-driver 300 \
        "messages copied by the driver (p2p_kernels=0), with MPS" 2 test/gpu/gpu_messages $kernels
}

# Measure what following the default stream costs: small calls with each value of the parameter.
measure_default_stream() {
    for value in none warn wait; do
        OMPI_MCA_coll_gpuring_default_stream=$value mpi_step "stream-$value" 120 \
            "8 bytes with default_stream=$value, 2 ranks on one GPU" 2 tools/gpuring-perf \
            -c allreduce -m cuda -b 8 -e 8 -n "$stream_calls" --no-check
    done
}

rows() { # NAME: the table of a measurement
    printf '\n| ranks | bytes | gpuring us | by hand us | by hand / gpuring |\n|--:|--:|--:|--:|--:|\n'
    for ranks in $numbers; do
        [ ! -e "$work/log/$1-$ranks" ] || grep -h '^| ' "$work/log/$1-$ranks"
    done
}

start_mps() {
    CUDA_MPS_PIPE_DIRECTORY=$work/mps CUDA_MPS_LOG_DIRECTORY=$work/mps
    export CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
    # MPS starts its server for the first client, which is a program that launches nothing.
    mkdir -p "$work/mps" && timeout 30 nvidia-cuda-mps-control -d &&
        timeout 60 "$plain/gpu_lanes" --part 0/1000000000 &&
        echo get_server_list | timeout 30 nvidia-cuda-mps-control | grep -q '[0-9]'
}
stop_mps() {
    echo quit | timeout 30 nvidia-cuda-mps-control >/dev/null 2>&1
    unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
}

# under_mps FUNCTION: call a function with MPS, or without it if MPS does not start.
under_mps() {
    logged mps function start_mps || { stop_mps; return 1; }
    trap stop_mps EXIT
    trap 'exit 1' HUP INT TERM
    "$1"
    stop_mps
    trap - EXIT
}

with_mpi() {
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
    # Our sums of 8 and 16 bits wrap around. Sums of Open MPI do the same, except for those of op/avx.
    export OMPI_MCA_op=^avx
    export PRTE_MCA_rmaps_default_mapping_policy=slot:oversubscribe PRTE_MCA_mapby=:oversubscribe
    command -v ssh >/dev/null 2>&1 || export OMPI_MCA_plm=isolated
    if [ -n "$debs" ]; then
        # Call bring_mpi directly and not through step, because its variables must be set here.
        if bring_mpi >"$work/log/debs" 2>&1; then
            ok "the Open MPI of $(basename "$debs") runs unpacked"
        else
            sed 's/^/# /' "$work/log/debs" | tail -n 20
            not_ok "the Open MPI of $debs runs unpacked (log/debs)"
            return
        fi
    fi
    if [ -z "$build" ]; then
        [ -n "$debs$mpi" ] || command -v mpicc >/dev/null 2>&1 || {
            skip "there is no Open MPI: bring one by --debs or --mpi" "ranks in processes of their own"
            return
        }
        [ -x "$top/configure" ] || [ -e "$work/log/component.sum" ] || {
            skip "there is no configure: run autogen.sh before, or bring the content of make dist" \
                "ranks in processes of their own"
            return
        }
        command -v make >/dev/null 2>&1 || {
            skip "there is no make: --debs brings one" "ranks in processes of their own"
            return
        }
        # shellcheck disable=SC2046
        built_once component "the component and the tests are built" $(all_sources) || return
        build=$work/build
    fi
    [ -z "$prepare" ] || return
    [ -z "$mpi" ] || MPIRUN=$mpi/bin/mpirun
    export OMPI_MCA_mca_base_component_path="$build/.libs:SYSTEM_DEFAULT"
    export PMIX_MCA_mca_base_component_path="$work/log" # PMIx has no components there
    export GPURING_TEST_MEMORY=cuda GPURING_STANDIN_GPUS=1
    # Test several ranks on the first GPU, and then all GPUs.
    visible=${CUDA_VISIBLE_DEVICES-}
    export CUDA_VISIBLE_DEVICES="${visible:-0}"
    if wanted selftest; then
        part_begin 5-selftest
        if [ -n "$dry" ] || ! under_mps selftests; then
            selftests
        fi
    fi
    if wanted mpi; then
        part_begin 6-mpi
        if [ -n "$dry" ]; then
            correctness
        elif ! under_mps correctness; then
            skip "MPS does not start (log/mps)" "ranks on one GPU with MPS"
            OMPI_MCA_coll_gpuring_algorithm=ring
            export OMPI_MCA_coll_gpuring_algorithm
            correctness
            unset OMPI_MCA_coll_gpuring_algorithm
        fi
        [ -n "$first" ] || turns
        [ -n "$first" ] || several_gpus
    fi
    export CUDA_VISIBLE_DEVICES="${visible:-0}"
    if wanted python; then
        part_begin 6-python
        if [ -n "$dry" ] || ! under_mps python_arrays; then
            python_arrays
        fi
    fi
    kernels="16384 32768 65536 131072 262144 524288 1048576"
    large="1048576 4194304 16777216 67108864 268435456" messages=$large stream_calls=2000
    if [ -n "$dry" ]; then
        large=65536 messages=5000000 kernels=65536 stream_calls=20
    elif [ -n "$first" ]; then
        large=268435456 messages="1048576 67108864"
    fi
    if wanted measure; then
        part_begin 7-measure
        measure small "8 bytes" 8
        # shellcheck disable=SC2086
        measure large "large vectors against staging by hand" $large
        # shellcheck disable=SC2086
        measure_messages 8 65536 $messages
        if [ -n "$dry" ] || ! under_mps measure_kernels; then
            measure_kernels
        fi
        # Without MPS these calls are staged.
        if [ -n "$dry" ] || ! under_mps measure_default_stream; then
            measure_default_stream
        fi
    fi
    if wanted mps; then
        part_begin 8-mps
        if [ -n "$dry" ]; then
            skip "dry run: there is no GPU" "the same with MPS"
        else
            under_mps measure_with_mps || skip "MPS does not start (log/mps)" "the same with MPS"
        fi
    fi
}

# Measure persistent allreduces on mapped buffers, and with data in slots.
measure_mapped() {
    for ranks in $numbers; do
        for mapped in 1 0; do
            OMPI_MCA_coll_gpuring_map_buffers=$mapped mpi_step "mapped-$mapped-$ranks" 120 \
                "persistent allreduces with map_buffers=$mapped, $ranks ranks on one GPU, with MPS" "$ranks" \
                tools/gpuring-perf -c allreduce_init -m cuda -b 64K -e 64M -f 4
        done
    done
}

measure_with_mps() {
    measure mps-small "8 bytes, with MPS" 8
    measure_mapped
    # shellcheck disable=SC2086
    measure mps-large "large vectors against staging by hand, with MPS" $large
}

# ---- The report -----------------------------------------------------------------------------------

write_report() {
    if [ -n "$dry" ]; then
        printf '# DRY RUN ON THE STAND-IN DRIVER: NO RESULTS OF A GPU\n\n'
        printf 'Made without a GPU to try the script; not a figure below means anything.\n\n'
    else
        printf '# The GPU suite\n\n'
    fi
    echo "Made by \`test/gpu/run.sh\`."
    echo
    cat "$work/facts"
    printf '\n## Tests\n\n'
    cat "$work"/parts/*
    for log in "$work"/log/selftest-*[!d]; do
        if [ -s "$log" ]; then
            printf '\n## Selftest\n\n'
            grep -E '^(#|  )' "$log" | sed 's/^/    /'
        fi
    done
    if [ -s "$work/log/gpu_bench" ]; then
        printf '\n## Kernels, in one process\n\n'
        sed -n '/^Copies/,$p' "$work/log/gpu_bench"
    fi
    if [ -e "$work/log/small-2" ]; then
        printf '\n## MPI_Allreduce on device memory, ranks on one GPU\n\n'
        echo "By hand: a copy to pinned memory, Open MPI's own MPI_Allreduce, a copy back. Median of"
        echo "the calls after barriers, of the slowest rank."
        rows small
        rows large
    fi
    if [ -e "$work/log/stream-wait" ]; then
        printf '\n## Cost of following the default stream: MPI_Allreduce of 8 bytes, 2 ranks\n'
        for value in none warn wait; do
            printf '\n    %s\n' "default_stream=$value"
            [ ! -e "$work/log/stream-$value" ] || grep -E '^(#| +8 )' "$work/log/stream-$value" | sed 's/^/    /'
        done
    fi
    if [ -e "$work/log/way-direct" ]; then
        printf '\n## Messages between device memory, 2 ranks on one GPU\n\n'
        echo "By hand: a copy to pinned memory, the message, a copy. Median of half of the round trips."
        echo "The rows from \"kernel\" on are with MPS, by kernels and then by the driver."
        printf '\n| way | bytes | gpuring us | by hand us | by hand / gpuring | GB/s |\n'
        echo '|---|--:|--:|--:|--:|--:|'
        for way in direct chunks staged kernels driver; do
            [ ! -e "$work/log/way-$way" ] || grep -h '^| ' "$work/log/way-$way"
        done
    fi
    if [ -e "$work/log/mps-small-2" ]; then
        printf '\nWith MPS:\n'
        rows mps-small
        rows mps-large
    fi
    for ranks in $numbers; do
        for mapped in 1 0; do
            log=$work/log/mapped-$mapped-$ranks
            [ -s "$log" ] || continue
            printf '\n## Persistent allreduces with map_buffers=%s, %s ranks on one GPU, with MPS\n\n' "$mapped" "$ranks"
            grep -E '^(#| +[0-9]+ )' "$log" | sed 's/^/    /'
        done
    done
    printf '\n## Commands\n\n'
    for command in "$work"/log/*.command; do
        [ ! -e "$command" ] || sed -n 's/^+ /    /p' "$command"
    done | sed "s,$work/,,g; s,$top/,,g"
}

if [ -n "$prepare" ]; then
    echo "$commit" >"$work/commit"
fi
facts >"$work/facts"
build_programs
part_begin 5-build
if [ -z "$prepare" ] && ! wanted selftest && ! wanted mpi && ! wanted python && ! wanted measure && ! wanted mps; then
    :
elif [ "$with_mpi" = no ]; then
    skip "--no-mpi" "ranks in processes of their own"
elif [ -n "$dry" ] && [ -z "$built" ]; then
    skip "the stand-in driver was not built" "ranks in processes of their own"
else
    with_mpi
fi
within_one_process
write_report >"$report"
tar -C "$work" -czf "${report%.md}-logs.tar.gz" log 2>/dev/null
echo "# report: $report, logs: ${report%.md}-logs.tar.gz"
echo "1..$checks"
[ "$failed" -eq 0 ]
