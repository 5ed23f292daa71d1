#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# install.sh FOLDER: test configure's options, the installation and the distribution below FOLDER. Prints
# TAP. Changes nothing outside FOLDER.
set -u
cd "$(dirname "$0")/.." || exit 1
source=$PWD
base=${1:?install.sh FOLDER}/install
rm -rf "$base"
mkdir -p "$base" || exit 1
base=$(cd "$base" && pwd)
jobs=$(nproc)
checks=0

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

configure_in() { # FOLDER ARGUMENTS...
    mkdir -p "$base/$1" && cd "$base/$1" && shift && "$source/configure" CFLAGS=-O1 "$@"
}
in_folder() { (configure_in "$@"); }
# refuses PATTERN ARGUMENTS...: check that configure ends with an error that matches PATTERN.
refuses() {
    pattern=$1
    shift
    ! in_folder refuses "$@" >"$base/refusal" 2>&1 && grep -q -- "$pattern" "$base/refusal"
}
lists() { # COMPONENT-PATH HOME: does ompi_info find the component?
    HOME=$2 OMPI_MCA_mca_base_component_path=$1 ompi_info --param coll gpuring --level 9 |
        grep -q coll_gpuring_priority
}
# explains COMPONENT-PATH HOME: check that a bad value is reported with its help text.
explains() {
    HOME=$2 OMPI_MCA_mca_base_component_path=$1 OMPI_MCA_coll_gpuring_timeout=soon \
        ompi_info --param coll gpuring --level 9 2>&1 |
        grep -q '\[bad-value\].* coll_gpuring_timeout '
}
# say_version BINDIR COMPONENT-PATH: check that the tools and the components report this version.
say_version() {
    for tool in perf topo run; do
        "$1/gpuring-$tool" --version | grep -q " $version\$" || return
    done
    for component in coll:gpuring topo:pci; do
        OMPI_MCA_mca_base_component_path=$2 ompi_info --parsable |
            grep "^mca:$component:version:\"*component:$version\"*\$" || return
    done
}
packages_say_version() {
    grep "^coll-gpuring ($version) " debian/changelog && grep "^$version " NEWS &&
        grep "^    version(\"$version\")" "$recipe" && grep "/coll-gpuring-$version.tar.gz" "$recipe" &&
        grep "^Version: *$version\$" "$base/prefixed/config/dist/coll-gpuring.spec"
}
recipe=config/dist/spack_repo/gpuring/packages/coll_gpuring/package.py
# in_packages FOLDER: check that the lists of debian/ contain each file below FOLDER, and that each of
# their entries matches a file.
in_packages() {
    (cd "$1" && find . -type f -o -type l) | sed 's,^\./,,' >"$base/installed"
    cat debian/*.install debian/not-installed >"$base/lists"
    while IFS= read -r file; do
        listed=no
        while IFS= read -r pattern; do
            # shellcheck disable=SC2254
            case $file in $pattern) listed=yes ;; esac
        done <"$base/lists"
        [ "$listed" = yes ] || echo "$file is in no list of debian/"
    done <"$base/installed" >"$base/unlisted"
    while IFS= read -r pattern; do
        (cd "$1" && ls -d $pattern) >/dev/null 2>&1 || echo "$pattern of debian/ is not installed"
    done <"$base/lists" >>"$base/unlisted"
    cat "$base/unlisted"
    ! [ -s "$base/unlisted" ]
}
# serves_from BINDIR: check that a job of gpuring-run is served even if PATH has another mpirun.
serves_from() {
    mkdir -p "$base/bin" && ln -sf /bin/false "$base/bin/mpirun" || return
    # shellcheck source=test/setup.sh
    (. test/setup.sh && mpi_anywhere && PATH=$base/bin:$PATH timeout 60 "$1/gpuring-run" -n 2 \
        --mca coll_gpuring_device host "$1/gpuring-perf" -b 8 -e 64K -f 16) |
        tee "$base/perf" | grep '^# coll/gpuring served \([0-9]*\) of \1 timed calls' || {
        cat "$base/perf"
        false
    }
}
none_named() { [ -z "$(find "$2" -name "$1")" ]; }
no_file_left() { [ -z "$(find "$1" -type f -o -type l | head -n 1)" ]; }

check "configure with a prefix" in_folder prefixed --without-cuda --prefix="$base/opt"
check "make" make -C "$base/prefixed" -j "$jobs"
check "make install" make -C "$base/prefixed" install
for file in lib/openmpi/mca_coll_gpuring.so lib/openmpi/mca_topo_pci.so bin/gpuring-perf \
    bin/gpuring-run bin/gpuring-report share/man/man1/gpuring-report.1 \
    lib/coll-gpuring/libgpuring_aware.so bin/gpuring-topo share/man/man1/gpuring-perf.1 share/man/man1/gpuring-topo.1 \
    share/doc/coll-gpuring/README; do
    check "$file is installed" test -f "$base/opt/$file"
done
for page in doc/user/*.md; do
    check "$page is installed" test -f "$base/opt/share/doc/coll-gpuring/user/${page##*/}"
done
version=$(sed -n 's/^#define GPURING_VERSION  *"\(.*\)"/\1/p' "$base/prefixed/gpuring_config.h")
check "tools and components say configure's version, $version" \
    say_version "$base/opt/bin" "$base/opt/lib/openmpi:SYSTEM_DEFAULT"
check "so do the packages" packages_say_version
check "no libtool archive is installed" none_named '*.la' "$base/opt"
check "ompi_info finds the installed component" \
    lists "$base/opt/lib/openmpi:SYSTEM_DEFAULT" "$base"
check "it finds its help texts" explains "$base/opt/lib/openmpi:SYSTEM_DEFAULT" "$base"
mv "$base/opt" "$base/moved"
check "also when its prefix has moved" explains "$base/moved/lib/openmpi:SYSTEM_DEFAULT" "$base"
mkdir "$base/elsewhere" && mv "$base/moved" "$base/opt"
cp "$base/opt/lib/openmpi/mca_coll_gpuring.so" "$base/elsewhere"
check "and when the component lies elsewhere" explains "$base/elsewhere:SYSTEM_DEFAULT" "$base"
check "its gpuring-run serves, with the mpirun that it was configured for" serves_from "$base/opt/bin"
check "make uninstall" make -C "$base/prefixed" uninstall
check "nothing is left" no_file_left "$base/opt"
check "a component without its help file shows the texts" explains "$base/elsewhere:SYSTEM_DEFAULT" "$base"
printf '[bad value]\nA file of another version\n' >"$base/elsewhere/help-mpi-coll-gpuring.txt"
check "so does one beside another version's" explains "$base/elsewhere:SYSTEM_DEFAULT" "$base"
check "make install with DESTDIR" make -C "$base/prefixed" install DESTDIR="$base/stage"
check "DESTDIR is in front" test -f "$base/stage$base/opt/lib/openmpi/mca_coll_gpuring.so"

debian=usr/lib/x86_64-linux-gnu
check "make install as Debian's packages have it" make -C "$base/prefixed" install \
    DESTDIR="$base/debian" prefix=/usr libdir="/$debian" componentdir="/$debian/openmpi/lib/openmpi3" \
    docdir=/usr/share/doc/gpuring-tools
check "the lists of debian/ are complete" in_packages "$base/debian"

check "configure without everything optional" \
    in_folder minimal --without-cuda --without-verbs --without-ucx
check "make without everything optional" make -C "$base/minimal" -j "$jobs"
openmpi=$(ompi_info --parsable --path pkglibdir | sed -n 's/^path:pkglibdir://p')
check "without a prefix, the components go to Open MPI's folder" \
    make -C "$base/minimal" install DESTDIR="$base/default"
check "they are there" test -f "$base/default$openmpi/mca_coll_gpuring.so"

check "an Open MPI that is not there is refused" refuses 'no .*/bin/mpicc' --with-mpi=/nowhere
check "a CUDA toolkit that is not there is refused" refuses 'cuda was not found' --with-cuda=/nowhere
check "an unknown sanitizer is refused" \
    refuses 'does not take -fsanitize=nonsense' --without-cuda --enable-sanitizers=nonsense

same_doc() { # FOLDER: does it have all files of doc/?
    diff -r "$source/doc" "$1/doc"
}
check "make distdir" make -C "$base/minimal" distdir
check "it has all of doc/" same_doc "$(echo "$base"/minimal/coll-gpuring-*)"
rm -rf "$base"/minimal/coll-gpuring-*

# Run only two quick test programs: an earlier stage ran the whole suite, and lint checks that all files
# are distributed.
quick="test/unit/test_plan test/unit/test_pci_map"
check "make distcheck" make -C "$base/minimal" distcheck -j "$jobs" \
    DISTCHECK_CONFIGURE_FLAGS="--without-cuda CFLAGS=-O1" \
    TESTS="$quick" check_PROGRAMS="$quick" check_LTLIBRARIES=

rm -rf "$base"
echo "1..$checks"
