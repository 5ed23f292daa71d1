#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# check.sh [STAGE...]: everything that must hold before a change is accepted. Installs missing
# packages (as root, on Debian), builds below build/check and runs all tests. The last line counts
# the checks; the exit status is 0 if none failed.
#
# Default stages: gcc clang install address thread fuzz lint mutation openmpi5. Stages on request:
#
#   kernels     the kernels for all architectures of a default build, and their machine code
#   debian13    all tests in a root file system of Debian 13; openmpi5 runs some of them there
#   testing     all tests in a root file system of Debian testing
#   cuda12      the kernels and their tests with the CUDA toolkit of Debian 13 (downloads 2 GB)
#   cuda-aware  the component with Open MPI 4.1 and 5.0 built with CUDA (half an hour each, once)
#   packages    packages for Debian 12 and 13 and others, built and tried in root file systems, and
#               the container image if buildah is installed
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=test/setup.sh
. test/setup.sh
stages=${*:-gcc clang install address thread fuzz lint mutation openmpi5}
fuzz_seconds=30
nvccflags=
passed=0 failed=0 skipped=0
base=$PWD/build/check
mkdir -p "$base"
: >"$base/skipped"
: >"$base/failed"

# Results of a step that prints no TAP, such as a build.
good() { passed=$((passed + 1)); }
bad() {
    failed=$((failed + 1))
    echo "$*" >>"$base/failed"
    echo "FAILED: $*"
}
skip() {
    skipped=$((skipped + 1))
    echo "$*" >>"$base/skipped"
}

# step LOG TEXT COMMAND...: run a command with its output in a log. If it fails, show the end of the log.
step() {
    log=$base/$1.log text=$2
    shift 2
    say "$text"
    if "$@" >"$log" 2>&1 </dev/null; then
        good
        return 0
    fi
    tail -n 40 "$log"
    bad "$text (the whole log: $log)"
    return 1
}

# Count the results of `make check` in build folder $1 from the .trs files of automake's driver.
count_results() {
    find "$1" -name '*.trs' -exec cat {} + |
        sed -n 's/^:test-result: //p' >"$1/results.log"
    p=$(grep -c '^\(PASS\|XFAIL\)' "$1/results.log")
    f=$(grep -c '^\(FAIL\|ERROR\|XPASS\)' "$1/results.log")
    s=$(grep -c '^SKIP' "$1/results.log")
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    grep '^\(FAIL\|ERROR\|XPASS\): ' "$1/check.log" >>"$base/failed"
    grep '^SKIP: ' "$1/check.log" >>"$base/skipped"
    echo "$p passed, $f failed, $s skipped; the longest:" \
        "$(find "$1/test" -name '*.log' -exec grep -H '^# took' {} + |
            sed 's,.*/\(.*\)\.log:# took \(.*\),\2 \1,' | sort -rn | head -n 8 | tr '\n' ';')"
    [ "$((p + f))" -gt 0 ] || bad "$1: no test ran"
}

# suite FOLDER TEXT TARGET [JOBS]: run `make check`, or a part of it, in a build folder.
suite() {
    folder=$base/$1 text=$2
    say "$text"
    find "$folder" -name '*.trs' -exec rm -f {} +
    status=0
    make -C "$folder" -k -j "${4-$jobs}" "$3" >"$folder/check.log" 2>&1 </dev/null || status=$?
    before=$failed
    count_results "$folder"
    if [ "$failed" -gt "$before" ]; then
        grep '^\(FAIL\|ERROR\|XPASS\): ' "$folder/check.log" | head -n 40
        echo "(details: the .log files below $folder/test)"
    elif [ "$status" -ne 0 ]; then
        tail -n 40 "$folder/check.log"
        bad "$text (the whole log: $folder/check.log)"
    fi
}

# configured FOLDER TARGET ARGUMENTS...: configure a fresh build folder and compile TARGET, or `all`
# and all tests.
configured() {
    folder=$1 target=$2
    shift 2
    rm -rf "${base:?}/$folder"
    mkdir -p "$base/$folder" || return 1
    step "$folder-configure" "$folder: configure $*" \
        sh -c 'cd "$1" && shift && exec ../../../configure "$@"' sh "$base/$folder" "$@" || return 1
    step "$folder-make" "$folder: make $target" make -C "$base/$folder" -j "$jobs" "$target" ||
        return 1
    [ "$target" != all ] ||
        step "$folder-tests" "$folder: make all tests" \
            make -C "$base/$folder" -j "$jobs" check TESTS=
}

# tap TEXT SCRIPT ARGUMENTS...: run a script that prints TAP.
tap() {
    say "$1"
    out=$base/tap.$(basename "$2" .sh)
    shift
    status=0
    sh "$@" >"$out" 2>&1 </dev/null || status=$?
    count_tap "$*"
}

# count_tap COMMAND: count the results in $out of a script that has ended with $status.
count_tap() {
    grep -v '^ok [0-9]* [^#]*$' "$out"
    p=$(grep '^ok ' "$out" | grep -vc '# SKIP')
    f=$(grep -c '^not ok ' "$out")
    s=$(grep -c '^ok .*# SKIP' "$out")
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    grep '^not ok ' "$out" >>"$base/failed"
    grep '^ok .*# SKIP' "$out" >>"$base/skipped"
    [ "$status" -eq 0 ] && grep -q '^1\.\.[1-9]' "$out" || bad "$1 did not run to its end"
}

# Print the compute capabilities that stage gcc compiles kernels for: 8.0 and 9.0, which share PTX, and 10.0.
# The others of a default build would double the time. The stage kernels compiles all of them.
some_architectures() {
    [ -z "${GPURING_CUDA_ARCH-}" ] || { echo "$GPURING_CUDA_ARCH" && return; }
    known=$(PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin "${NVCC:-nvcc}" --list-gpu-code 2>/dev/null)
    for architecture in 80 90 100; do
        ! echo "$known" | grep -qx "sm_$architecture" || printf '%s,' "$architecture"
    done | sed 's/,$//'
}

stage_gcc() {
    architectures=$(some_architectures)
    configured gcc all CC=gcc --enable-werror ${architectures:+--with-cuda-arch="$architectures"} &&
        suite gcc "gcc: all tests" check $((jobs + 1)) # some wait for timeouts
    grep -q '^  CUDA  *no' "$base/gcc-configure.log" 2>/dev/null &&
        skip "kernels for GPUs are not compiled: there is no nvcc on this machine"
}

stage_kernels() {
    configured kernels kernels/kernels.fatbin CC=gcc --with-cuda &&
        suite kernels "kernels: machine code of all architectures" check-machine-code
}

stage_clang() {
    if ! command -v clang >/dev/null 2>&1; then
        skip "build with clang: clang is not installed"
        return
    fi
    # Build the installed parts only for the warnings of clang. Nothing is run.
    configured clang all-am CC=clang CFLAGS=-O0 --enable-werror --without-cuda
}

# Unit tests spend half of their time waiting for timeouts, so run two per core.
unit_jobs=$((2 * jobs))

stage_address() {
    ASAN_OPTIONS=detect_leaks=1:abort_on_error=0
    UBSAN_OPTIONS=print_stacktrace=1
    export ASAN_OPTIONS UBSAN_OPTIONS
    configured address unit-programs CC=gcc CFLAGS='-O1 -g' --without-cuda --enable-sanitizers=address,undefined &&
        suite address "address and undefined behaviour sanitizers: unit tests" check-unit "$unit_jobs"
}

stage_thread() {
    configured thread thread-programs CC=gcc CFLAGS='-O1 -g' --without-cuda --enable-sanitizers=thread &&
        suite thread "thread sanitizer: plans, transport, proxy" check-threads "$unit_jobs"
}

# Run the fuzzer for a short time, starting from the kept inputs; for a long run, call test/fuzz/run.sh.
# The fuzzer uses one core, so it runs in parallel with the next stages. fuzz_end waits for it.
fuzzer=
stage_fuzz() {
    say "fuzzing the topology engine for $fuzz_seconds seconds (its end is told at the end)"
    rm -rf "${base:?}/fuzz"
    mkdir -p "$base/fuzz"
    sh test/fuzz/run.sh "$fuzz_seconds" "$base/fuzz" >"$base/fuzz.log" 2>&1 </dev/null &
    fuzzer=$!
}

fuzz_end() {
    [ -n "$fuzzer" ] || return 0
    say "fuzzing: the end"
    status=0
    wait "$fuzzer" || status=$?
    case $status in
    0)
        good
        grep '^stat::number_of_executed_units' "$base/fuzz.log"
        ;;
    77) skip "fuzzing: $(tail -n 1 "$base/fuzz.log")" ;;
    *)
        tail -n 40 "$base/fuzz.log"
        bad "fuzzing found something (the whole log: $base/fuzz.log)"
        ;;
    esac
}

stage_lint() { tap "lint" test/lint/lint.sh "$base/gcc"; }
stage_mutation() { tap "deliberately wrong builds must fail the tests" test/mutation.sh "$base/gcc"; }

# This mostly runs configure, which uses one core, so it runs in parallel with the next stages. install_end
# waits for it.
installer=
stage_install() {
    say "install, uninstall, distcheck (the results are shown at the end)"
    sh test/install.sh "$base" >"$base/tap.install" 2>&1 </dev/null &
    installer=$!
}

install_end() {
    [ -n "$installer" ] || return 0
    say "install, uninstall, distcheck: the end"
    out=$base/tap.install status=0
    wait "$installer" || status=$?
    count_tap test/install.sh
    tap "component headers of a source tree" test/openmpi_source.sh "$base/openmpi-source"
}

# Start to make a root file system of a release of Debian. This mostly waits for the network, so it runs
# in parallel with other stages.
root_begin() {
    sh test/root.sh "$1" true >"$base/$1-root.log" 2>&1 </dev/null &
    root_maker=$!
}

# elsewhere SUITE TEXT TARGET...: build in the root file system of SUITE, and make these targets there.
# The build folder is below build/check, like the others.
elsewhere() {
    suite=$1 tests=$2
    shift 2
    say "Debian $suite: a root file system"
    status=0
    wait "$root_maker" || status=$?
    if [ "$status" -eq 77 ]; then
        skip "$tests: $(tail -n 1 "$base/$suite-root.log")"
        return
    fi
    rm -rf "${base:?}/$suite"
    mkdir -p "$base/$suite"
    step "$suite-configure" "$suite: configure" sh test/root.sh "$suite" \
        sh -c "cd build/check/$suite && exec ../../../configure $configure_options" &&
        step "$suite-make" "$suite: make all" sh test/root.sh "$suite" \
            make -C "build/check/$suite" -j "$jobs" all || return
    say "$tests"
    # Open MPI's TCP needs an interface that is up, and lo may be the only one.
    sh test/root.sh "$suite" env OMPI_MCA_btl_tcp_if_include=lo NVCCFLAGS="$nvccflags" \
        make -C "build/check/$suite" -k -j "$jobs" "$@" >"$base/$suite/check.log" 2>&1 </dev/null
    count_results "$base/$suite"
}

stage_openmpi5() {
    configure_options='--enable-werror --without-cuda'
    elsewhere trixie "Open MPI 5.0: some tests" \
        check-mpi mpi_test_scripts="test/mpi/test_semantics.sh test/mpi/test_churn.sh"
    [ ! -f "$base/trixie/Makefile" ] || tap "Open MPI 5.0: component headers of a source tree" \
        test/root.sh trixie sh test/openmpi_source.sh build/check/openmpi-source-5.0
}

stage_debian13() {
    configure_options='--enable-werror --with-cuda-arch=90'
    elsewhere trixie-tests "Open MPI 5.0: all tests" check
}

# Debian 13 has version 12.4 of the CUDA toolkit. The other stages compile kernels with another version.
stage_cuda12() {
    configure_options='--enable-werror --with-cuda=/usr --with-cuda-arch=80,90'
    # shellcheck disable=SC2016
    elsewhere trixie-cuda "CUDA 12.4: unit tests, kernels" check \
        TESTS='$(unit_tests) test/gpu/test_gpu_ptx.sh test/gpu/test_machine_code.sh'
}

# nvcc 13.0 cannot read the headers of the compiler and the C library of Debian testing.
stage_testing() {
    nvccflags='-ccbin=g++-14 -U_GNU_SOURCE' # also of what a test configures by itself
    configure_options="--enable-werror --with-cuda-arch=90 NVCCFLAGS='$nvccflags'"
    elsewhere testing "Open MPI 6.0: all tests" check
}

# in_roots TEXT SCRIPT FOLDER: run a script that prints TAP in the root file systems of Debian 12 and 13.
# Its argument is FOLDER-bookworm or FOLDER-trixie.
in_roots() {
    for suite in bookworm trixie; do
        if sh test/root.sh "$suite" true >"$base/$suite-root.log" 2>&1 </dev/null; then
            tap "$1 on Debian $suite" test/root.sh "$suite" sh "$2" "$3-$suite"
        else
            skip "$1 on Debian $suite: $(tail -n 1 "$base/$suite-root.log")"
        fi
    done
}

stage_packages() {
    in_roots packages test/packages.sh build/check/packages
    tap "the container" test/container.sh build/check/packages-trixie
}
# The folder is outside build/check, so that Open MPI is built only once.
stage_cuda_aware() { in_roots "Open MPI with CUDA" test/cuda_aware.sh build/cuda-aware; }

install_packages
case " $stages " in
*" openmpi5 "*) root_begin trixie ;;
*" debian13 "*) root_begin trixie-tests ;;
*" cuda12 "*) root_begin trixie-cuda ;;
*" testing "*) root_begin testing ;;
esac
step autogen "autogen.sh" ./autogen.sh && for stage in $stages; do
    begun=$(date +%s)
    case $stage in
    gcc | kernels | clang | address | thread | fuzz | lint | mutation | install | openmpi5 | debian13 | cuda12 | testing | packages)
        "stage_$stage"
        ;;
    cuda-aware) stage_cuda_aware ;;
    *) bad "there is no stage $stage" ;;
    esac
    echo "# $stage took $(($(date +%s) - begun)) s"
done
fuzz_end
install_end

if [ -s "$base/skipped" ]; then
    say "skipped"
    sort "$base/skipped" | uniq -c
fi
if [ "$failed" -gt 0 ]; then
    say "failed"
    sort -u "$base/failed"
fi
say "done"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
