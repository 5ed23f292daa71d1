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
    mkdir -p "$base/$1" && cd "$base/$1" && shift && "$source/configure" CFLAGS=-O0 "$@"
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
# say_version BINDIR COMPONENT-PATH: check that the tools report this version, and the components its
# numbers.
say_version() {
    for tool in perf report run topo; do
        "$1/gpuring-$tool" --version | grep -q " $version\$" || return
    done
    for component in coll:gpuring topo:pci; do
        OMPI_MCA_mca_base_component_path=$2 ompi_info --parsable |
            grep "^mca:$component:version:\"*component:$release\"*\$" || return
    done
}
recipe=config/dist/spack_repo/gpuring/packages/coll_gpuring/package.py
source_has_release() {
    grep "^coll-gpuring ($release\(~git\)*) " debian/changelog && grep "^$release " NEWS &&
        grep "^    version(\"$release\"" "$recipe"
}
# distributed FOLDER VERSION: check the version in the files of a tarball.
distributed() {
    grep "^coll-gpuring ($2) " "$1/debian/changelog" && grep "/coll-gpuring-$2.tar.gz" "$1/$recipe" &&
        grep "^Version: *$2\$" "$1/config/dist/coll-gpuring.spec" &&
        [ "$(sh "$1/config/version.sh")" = "$2" ] && "$1/configure" --version | grep " $2\$"
}
# repository FOLDER: make a repository of one commit that contains the source tree.
repository() {
    mkdir -p "$1" || return
    if [ -e .git ]; then
        git ls-files -z | tar --null -T - -cf - | tar -xf - -C "$1"
    else
        tar --exclude=./build --exclude=./.tarball-version -cf - . | tar -xf - -C "$1"
    fi
    git -C "$1" init -q && git -C "$1" add -A &&
        git -C "$1" -c user.name=test -c user.email=test@example.org commit -q -m "Test this tree"
}
# has_version FOLDER VERSION
has_version() {
    found=$(sh "$1/config/version.sh")
    echo "$found, expected: $2"
    [ "$found" = "$2" ]
}
# versions_of REPOSITORY: check the versions of a commit, a modified tree, an archive, a release, and a tree
# without history.
versions_of() {
    commit=$release~git$(TZ=UTC git -C "$1" log -1 --date=format:%Y%m%d --format=%cd).$(git -C "$1" rev-parse --short=7 HEAD)
    has_version "$1" "$commit" || return
    echo >>"$1/README"
    has_version "$1" "$commit.modified" && git -C "$1" checkout -q README || return
    mkdir "$base/archive" && git -C "$1" archive HEAD | tar -xf - -C "$base/archive" &&
        has_version "$base/archive" "$commit" || return
    git -C "$1" tag "v$release" && has_version "$1" "$release" && git -C "$1" tag -d "v$release" || return
    cp "$1/config/version.sh" "$base/archive/config" && has_version "$base/archive" "$release~git"
}
nothing_untracked() { # FOLDER
    git -C "$1" status --porcelain | tee "$base/untracked"
    ! [ -s "$base/untracked" ]
}
# A tarball of another commit than configure was made for would have the wrong version.
stale_is_refused() { # FOLDER
    echo >>"$1/README"
    make -C "$1" distdir >"$base/stale" 2>&1 && return 1
    git -C "$1" checkout -q README && grep "Run ./autogen.sh" "$base/stale"
}
another_folder_is_refused() { # SOURCE
    mkdir -p "$base/another" && ! (cd "$base/another" && "$1/configure") >"$base/refusal" 2>&1 &&
        grep 'source directory already configured; run "make distclean" there first' "$base/refusal"
}
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
    lib/coll-gpuring/libgpuring_aware.so lib/libgpuring_stream.so include/gpuring_stream.h bin/gpuring-topo share/man/man1/gpuring-perf.1 share/man/man1/gpuring-topo.1 \
    share/doc/coll-gpuring/README; do
    check "$file is installed" test -f "$base/opt/$file"
done
for page in doc/user/*.md; do
    check "$page is installed" test -f "$base/opt/share/doc/coll-gpuring/user/${page##*/}"
done
version=$(sed -n 's/^#define GPURING_VERSION  *"\(.*\)"/\1/p' "$base/prefixed/gpuring_version.h")
release=${version%%~*}
check "tools and components say configure's version, $version" \
    say_version "$base/opt/bin" "$base/opt/lib/openmpi:SYSTEM_DEFAULT"
check "NEWS, changelog and recipe are of $release" source_has_release
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

# In the source tree itself, as in a clone.
clone=$base/clone
check "a repository of this tree" repository "$clone"
check "the version follows the commit" versions_of "$clone"
check "autogen.sh" "$clone/autogen.sh"
check "configure without everything optional, in the source tree" \
    sh -c "cd '$clone' && ./configure CFLAGS=-O0 --without-cuda --without-verbs --without-ucx"
check "make without everything optional" make -C "$clone" -j "$jobs"
check "configure in another folder is refused, with the remedy" another_folder_is_refused "$clone"
openmpi=$(ompi_info --parsable --path pkglibdir | sed -n 's/^path:pkglibdir://p')
check "without a prefix, the components go to Open MPI's folder" \
    make -C "$clone" install DESTDIR="$base/default"
check "they are there" test -f "$base/default$openmpi/mca_coll_gpuring.so"

check "an Open MPI that is not there is refused" refuses 'no .*/bin/mpicc' --with-mpi=/nowhere
check "a CUDA toolkit that is not there is refused" refuses 'cuda was not found' --with-cuda=/nowhere
check "an unknown sanitizer is refused" \
    refuses 'does not take -fsanitize=nonsense' --without-cuda --enable-sanitizers=nonsense

same_doc() { # FOLDER: does it have all files of doc/?
    diff -r "$clone/doc" "$1/doc"
}
check "make dist of a tree that has changed since autogen.sh is refused" stale_is_refused "$clone"
# Run only two quick test programs: an earlier stage ran the whole suite, and lint checks that all files
# are distributed.
quick="test/unit/test_plan test/unit/test_pci_map"
check "make distcheck" make -C "$clone" distcheck -j "$jobs" \
    DISTCHECK_CONFIGURE_FLAGS="--without-cuda CFLAGS=-O0" \
    TESTS="$quick" check_PROGRAMS="$quick" check_LTLIBRARIES=
check "the build leaves no untracked file" nothing_untracked "$clone"
version=$(sh "$clone/config/version.sh")
check "the tarball unpacks" tar -C "$base" -xf "$clone/coll-gpuring-$version.tar.gz"
check "it has all of doc/" same_doc "$base/coll-gpuring-$version"
check "it keeps the version of the commit, $version" distributed "$base/coll-gpuring-$version" "$version"
check "make distclean" make -C "$clone" distclean
check "then configure in another folder works" \
    sh -c "cd '$base/another' && '$clone/configure' --without-cuda && make -s kernels/fold.lo"

rm -rf "$base"
echo "1..$checks"
