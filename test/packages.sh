#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# packages.sh FOLDER: build packages from the tarball of `make dist` below FOLDER, and install, try and
# remove them. Also installs the tools that it needs, so run it on Debian, as root, in a root file system
# that may be changed (sh test/root.sh trixie sh test/packages.sh FOLDER). Prints TAP. The CUDA package is
# built if nvcc is found.
set -u
cd "$(dirname "$0")/.." || exit 1
source=$PWD
base=${1:?packages.sh FOLDER}
rm -rf "$base"
mkdir -p "$base/deb" "$base/rpm" || exit 1
base=$(cd "$base" && pwd)
jobs=$(nproc)
checks=0
export DEBIAN_FRONTEND=noninteractive DEB_BUILD_OPTIONS="parallel=$jobs" LC_ALL=C.UTF-8
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
PATH=$PATH:/usr/local/cuda/bin

check() { # TEXT COMMAND...
    text=$1
    shift
    checks=$((checks + 1))
    begun=$(date +%s)
    if "$@" >"$base/out" 2>&1 </dev/null; then
        echo "ok $checks - $text"
        echo "# took $(($(date +%s) - begun)) s"
    else
        echo "not ok $checks - $text"
        tail -n 40 "$base/out" | sed 's/^/# /'
        failed=yes
    fi
}
# must TEXT COMMAND...: end the test if the command fails, because all later checks depend on it.
must() {
    failed=no
    check "$@"
    [ "$failed" = no ] || {
        echo "1..$checks"
        exit 1
    }
}
apt() { apt-get -q -y -o DPkg::Lock::Timeout=300 --no-install-recommends "$@"; }
in_folder() { (cd "$1" && shift && "$@"); }
tarball() { (mkdir "$base/dist" && cd "$base/dist" && "$source/configure" --without-cuda && make dist); }
lint() { (cd "$base/deb" && lintian --allow-root --fail-on error,warning coll-gpuring_*.changes); }
autopkgtests() { (cd "$base/deb" && autopkgtest --no-built-binaries ./*.deb ./*.dsc -- null); }
removed() { # FILE: nothing that it lists is there
    while IFS= read -r path; do
        [ -d "$path" ] || [ ! -e "$path" ] || {
            echo "$path is left"
            return 1
        }
    done <"$1"
}
module_file() { # PREFIX: what it sets is where things are
    tclsh <<END
proc module-whatis text {}
proc conflict name {}
proc prepend-path {name path} { puts "\$name \$path"; if {![file isdirectory \$path]} { exit 1 } }
proc setenv {name path} { puts "\$name \$path"; foreach part [split \$path :] {
    if {![string match *_DEFAULT \$part] && ![file isdirectory \$part]} { exit 1 } } }
source $1/share/coll-gpuring/modulefiles/gpuring
END
}

must "apt-get update" apt-get -q update
must "what builds and checks packages" apt install build-essential debhelper lintian autopkgtest rpm tcl
must "what the packages need to be built" apt build-dep "$source"
must "make dist" tarball
archive=$(echo "$base"/dist/coll-gpuring-*.tar.gz)
version=$(basename "$archive" .tar.gz | sed 's/.*-//')

# The packages of Debian.
must "the tarball unpacks" tar -C "$base/deb" -xf "$archive"
must "dpkg-buildpackage" in_folder "$base/deb/coll-gpuring-$version" dpkg-buildpackage -us -uc
check "lintian finds nothing in it" lint
must "apt-get install" apt install "$base"/deb/openmpi-gpuring_*.deb "$base"/deb/gpuring-tools_*.deb
dpkg -L openmpi-gpuring gpuring-tools >"$base/files"
for test in allreduce versions; do
    check "debian/tests/$test" sh debian/tests/$test
done
check "autopkgtest" autopkgtests
check "apt-get purge" apt purge openmpi-gpuring gpuring-tools
check "nothing is left" removed "$base/files"
if command -v nvcc >/dev/null 2>&1; then
    must "dpkg-buildpackage with CUDA" in_folder "$base/deb/coll-gpuring-$version" \
        dpkg-buildpackage -b -us -uc -Ppkg.coll-gpuring.cuda
    check "lintian finds nothing in it" lint
    must "openmpi-gpuring is installed" apt install "$base"/deb/openmpi-gpuring_*.deb \
        "$base"/deb/gpuring-tools_*.deb
    must "openmpi-gpuring-cuda takes its place" apt install "$base"/deb/openmpi-gpuring-cuda_*.deb
    check "the tests pass with it" sh debian/tests/allreduce
    check "apt-get purge" apt purge openmpi-gpuring-cuda gpuring-tools
else
    checks=$((checks + 1))
    echo "ok $checks - the package with CUDA # SKIP no nvcc"
fi

# The RPM package. The libraries are Debian packages that rpm does not know, so --nodeps is needed.
check "rpmbuild" in_folder "$base/rpm" rpmbuild -ta --nodeps --define "_topdir $base/rpm" \
    --define 'openmpi /usr' "$archive"
check "it has two packages" sh -c "ls $base/rpm/RPMS/*/*-$version-1*.rpm | grep -c 'openmpi-gpuring\|gpuring-tools' | grep -x 2"
check "the components are in the folder of Open MPI" sh -c "rpm -qlp $base/rpm/RPMS/*/openmpi-gpuring-*.rpm |
    grep -x $(ompi_info --parsable --path pkglibdir | sed -n 's/^path:pkglibdir://p')/mca_coll_gpuring.so"

# An installation in a prefix, with its module file.
mkdir -p "$base/prefixed"
must "configure with a prefix" in_folder "$base/prefixed" \
    "$base/deb/coll-gpuring-$version/configure" --without-cuda --prefix="$base/opt" CFLAGS=-O1
must "make install" make -C "$base/prefixed" -j "$jobs" install
check "the module file names folders that are there" module_file "$base/opt"
echo "1..$checks"
