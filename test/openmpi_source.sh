#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# openmpi_source.sh FOLDER: test configure --with-openmpi-source below FOLDER, with an Open MPI whose
# component headers are hidden. Fedora and most clusters install Open MPI without them. The source tree
# is Debian's source package. Needs root, private mounts and Debian's archive; skips if one is missing.
# Prints TAP.
set -u
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=test/setup.sh
. test/setup.sh
source=$PWD
base=${1:?openmpi_source.sh FOLDER}
rm -rf "$base"
mkdir -p "$base" || exit 1
base=$(cd "$base" && pwd)
checks=0
version=$(ompi_info --version | sed -n 's/^Open MPI v//p')
unset CONFIG_SITE # may name another source tree
headers=$(mpicc --showme:incdirs | tr ' ' '\n' | grep '/openmpi$')

check() { # TEXT COMMAND...
    text=$1
    shift
    checks=$((checks + 1))
    if "$@" >"$base/out" 2>&1 </dev/null; then
        echo "ok $checks - $text"
    else
        echo "not ok $checks - $text"
        tail -n 30 "$base/out" | sed 's/^/# /'
    fi
}
skip_all() {
    echo "ok 1 - --with-openmpi-source # SKIP $*"
    echo "1..1"
    exit 0
}

# hidden COMMAND...: run a command that finds no component headers, only the headers of MPI and its
# extensions.
hidden() {
    # shellcheck disable=SC2016
    unshare --mount sh -c 'headers=$1 saved=$2 && shift 2 && mount -t tmpfs none "$headers" &&
        cp -r "$saved" "$headers" && exec "$@"' sh "$headers" "$base/mpiext" "$@"
}
hide() { hidden test ! -e "$headers/ompi_config.h"; }
configured() { # ARGUMENTS...
    mkdir -p "$base/build" && cd "$base/build" &&
        hidden "$source/configure" CFLAGS=-O0 --without-cuda --without-verbs --without-ucx "$@"
}
# refuses PATTERN ARGUMENTS...: check that configure ends with an error that matches PATTERN.
refuses() {
    pattern=$1
    shift
    ! (configured "$@") >"$base/refusal" 2>&1 && grep -q -e "$pattern" "$base/refusal"
}
# Run configure with an ompi_info that reports options with which the library was not built.
other_options() {
    mkdir -p "$base/bin" || return
    cat >"$base/bin/ompi_info" <<END
#!/bin/sh
$(command -v ompi_info) "\$@" | sed 's/^option:debug:no/option:debug:yes/'
END
    chmod +x "$base/bin/ompi_info"
    (PATH=$base/bin:$PATH && refuses 'opal_object_t: 40 bytes in the headers, 16 in the library' \
        --with-openmpi-source="$base/openmpi")
}
other_version() {
    mkdir -p "$base/other/ompi/mca/coll" && touch "$base/other/ompi/mca/coll/coll.h" || return
    sed 's/^release=.*/release=99/' "$base/openmpi/VERSION" >"$base/other/VERSION"
    refuses "installed Open MPI is $version, and the source tree is" --with-openmpi-source="$base/other"
}
build() { hidden make -C "$base/build" -j "$jobs" mca_coll_gpuring.la mca_topo_pci.la tools/gpuring-perf; }
serves() {
    mpi_anywhere
    mpi_components "$base/build/.libs" "$base/no-components"
    OMPI_MCA_btl_tcp_if_include=lo timeout 60 mpirun -n 2 --mca coll_gpuring_priority 90 \
        --mca coll_gpuring_device host "$base/build/tools/gpuring-perf" -b 8 -e 64K -f 16 >"$base/perf" 2>&1
    cat "$base/perf"
    grep '^# coll/gpuring served \([0-9]*\) of \1 timed calls' "$base/perf"
}

cp -r "$headers/mpiext" "$base" || exit 1
[ "$(id -u)" -eq 0 ] || skip_all "only root can hide headers"
hide 2>/dev/null || skip_all "mounts of one's own are not permitted here"
openmpi_source "$base/openmpi" >"$base/log" 2>&1 || skip_all "$(tail -n 1 "$base/log")"

check "without component headers, configure names the option" refuses '--with-openmpi-source=DIR'
check "a folder without Open MPI is refused" \
    refuses 'this is not a source tree of Open MPI' --with-openmpi-source="$base"
check "another version is refused" other_version
check "options that change structures are refused" other_options
check "Open MPI $version: configure takes the headers of the source tree" \
    configured --with-openmpi-source="$base/openmpi"
check "make" build
check "the component is loaded and serves" serves
rm -rf "$base/openmpi" "$base/build"
echo "1..$checks"
