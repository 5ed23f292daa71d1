#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# root.sh SUITE[-tests|-cuda] COMMAND...: run a command on another release of Debian, in a root file
# system below build/roots. mmdebstrap makes it (from GPURING_DEBIAN_MIRROR, if set) once, and again when
# the list of packages changes. It has the packages that are needed to build and to run the C tests.
#
#   -tests  adds all packages that the tests need: 1.7 GB
#   -cuda   adds Debian's CUDA toolkit: several gigabytes
#
# The source tree has the same path in the root file system and is the working folder. If no root file
# system can be made, the exit status is 77 and the output names the reason.
#
#   sh test/root.sh trixie sh test/quickstart.sh
cd "$(dirname "$0")/.." || exit 1
top=$PWD
suite=${1:?a release of Debian, such as trixie}
root=$top/build/roots/$suite
shift

cannot() {
    echo "no root of Debian $suite: $*"
    exit 77
}

[ "$(id -u)" -eq 0 ] || cannot "only root can make one"
unshare --mount true 2>/dev/null || cannot "mounts of one's own are not permitted here"
packages=$(sed -e '/^# tests/,$d' -e '/^#/d' test/packages.txt | paste -sd ,)
packages=$packages,g++,libpmix-dev,libcmocka-dev,iproute2,mount
components=main keep=
case $suite in
*-tests)
    packages=$packages,$(sed -e '1,/^# tests/d' -e '/^#/d' test/packages.txt | paste -sd ,)
    keep=--skip=cleanup/apt/lists # for the emulated machines' kernel: apt-get download
    ;;
testing)
    packages=$packages,g++-14 # nvcc knows no newer one
    ;;
*-cuda)
    packages=$packages,nvidia-cuda-toolkit,python3
    components=main,contrib,non-free
    ;;
esac
if [ "$(cat "$root/made" 2>/dev/null)" != "$packages" ]; then
    rm -rf "$root"
    mkdir -p "$root"
    command -v mmdebstrap >/dev/null 2>&1 || cannot "mmdebstrap is not installed"
    # shellcheck disable=SC2086
    mmdebstrap --quiet --mode=root --variant=apt $keep --include="$packages" \
        --aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Check-Valid-Until "false"' \
        --components="$components" "${suite%-*}" "$root" ${GPURING_DEBIAN_MIRROR-} \
        >"$root.log" 2>&1 </dev/null ||
        cannot "$(tail -n 1 "$root.log") (all of it: $root.log)"
    echo "$packages" >"$root/made"
fi

# The mounts are private, so they disappear with the command.
# shellcheck disable=SC2016
exec unshare --mount sh -c '
    root=$1 top=$2
    shift 2
    mkdir -p "$root$top" "$root/usr/local/cuda" || exit 77
    mount --bind "$root" "$root" && mount --rbind /dev "$root/dev" &&
        { mount -t proc proc "$root/proc" 2>/dev/null || mount --rbind /proc "$root/proc"; } &&
        mount --rbind /sys "$root/sys" && mount -t tmpfs tmpfs "$root/tmp" &&
        mount -t tmpfs tmpfs "$root/run" &&
        mkdir -p "$root$top" && mount --bind "$top" "$root$top" || exit 77
    [ ! -d /usr/local/cuda ] || mount --bind "$(readlink -f /usr/local/cuda)" "$root/usr/local/cuda"
    if [ -d "$top/../shared" ]; then
        mkdir -p "$root$top/../shared" && mount --bind "$top/../shared" "$root$top/../shared"
    fi
    exec chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        sh -c "cd \"\$0\" && exec \"\$@\"" "$top" "$@"' sh "$root" "$top" "$@"
