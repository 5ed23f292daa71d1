#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# container.sh FOLDER: build and run the image of config/dist/Containerfile, from the tarball that
# packages.sh has made below FOLDER. Uses buildah below FOLDER/container, which needs no daemon. It needs
# no registry either, because mmdebstrap makes the base image of Debian. Needs root. Prints TAP.
set -u
cd "$(dirname "$0")/.." || exit 1
folder=$PWD/${1:?container.sh FOLDER}
base=$folder/container checks=0
archive=$(echo "$folder"/dist/coll-gpuring-*.tar.gz)

must() { # TEXT COMMAND...: nothing of what follows makes sense without it
    text=$1
    shift
    checks=$((checks + 1))
    if "$@" >"$folder/container.log" 2>&1 </dev/null; then
        echo "ok $checks - $text"
    else
        echo "not ok $checks - $text"
        tail -n 40 "$folder/container.log" | sed 's/^/# /'
        echo "1..$checks"
        exit 1
    fi
}
skip() {
    echo "ok 1 - the container # SKIP $*"
    echo 1..1
    exit 0
}
command -v buildah >/dev/null || skip "buildah is not installed"
command -v mmdebstrap >/dev/null || skip "mmdebstrap is not installed"
[ "$(id -u)" -eq 0 ] || skip "only root can make Debian's image"
[ -e "$archive" ] || skip "packages.sh has made no tarball in $folder"
rm -rf "$base"
mkdir -p "$base/source" || exit 1
# The vfs driver of buildah copies the files for each layer, so no mounts are left when the script ends.
trap 'rm -rf "$base"' EXIT

images() {
    command=$1
    shift
    buildah --root "$base/images" --runroot "$base/run" --storage-driver vfs "$command" "$@"
}
debian_image() {
    # shellcheck disable=SC2086
    mmdebstrap --quiet --mode=root --variant=apt trixie "$base/debian.tar" ${GPURING_DEBIAN_MIRROR-} &&
        printf 'FROM scratch\nADD debian.tar /\n' >"$base/Debian" &&
        images bud -t docker.io/library/debian:13 -f "$base/Debian" "$base"
}
works() {
    container=$(images from --pull-never gpuring) &&
        images run --isolation chroot "$container" -- \
            gpuring-run -n 2 --mca coll_gpuring_device host gpuring-perf -e 1M -f 16 >"$base/out" 2>&1 &&
        cat "$base/out" && grep -q '^# coll/gpuring served \([1-9][0-9]*\) of \1 timed calls' "$base/out"
}

must "the tarball unpacks" tar -C "$base/source" --strip-components=1 -xf "$archive"
must "Debian's image" debian_image
must "the image of the container file" images bud --isolation chroot --pull-never -t gpuring \
    -f "$base/source/config/dist/Containerfile" "$base/source"
must "gpuring-run serves every call in it" works
echo "1..$checks"
