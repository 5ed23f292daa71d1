#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
# shellcheck shell=sh
#
# Functions shared by quickstart.sh and check.sh; sourced from the top of the source tree.

say() { printf '\n== %s\n' "$*"; }

# Print the packages of test/packages.txt that are missing. With $1 = "build", consider only the packages
# before the line "# tests", which are enough to build and run.
missing_packages() {
    if [ "${1-}" = build ]; then
        wanted=$(sed -e '/^# tests/,$d' -e '/^#/d' test/packages.txt)
    else
        wanted=$(sed '/^#/d' test/packages.txt)
    fi
    for package in $wanted; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
            echo "$package"
    done
}

# Install missing packages. Without root or apt-get, print instructions and continue.
install_packages() {
    if ! command -v dpkg-query >/dev/null 2>&1; then
        echo "This is no Debian system: the packages of test/packages.txt are not checked."
        return 0
    fi
    missing=$(missing_packages "$@" | tr '\n' ' ')
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" -ne 0 ]; then
        echo "These packages are missing and only root can install them:"
        echo "    sudo apt-get install --no-install-recommends $missing"
        echo "Going on with what is here."
        return 0
    fi
    say "installing $missing"
    apt_get update && {
        # shellcheck disable=SC2086
        apt_get install -y --no-install-recommends $missing
    } || {
        echo "apt-get failed: no network, or no such package. Going on with what is here."
        return 0
    }
}

# Run apt-get. If another one is running, wait until it ends.
apt_get() {
    DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" </dev/null
}

# Let Open MPI run as root and with more ranks than cores, which it refuses by default. Open MPI 5.0 and
# 6.0 have different variables for this.
mpi_anywhere() {
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
    export PRTE_MCA_rmaps_default_mapping_policy=slot:oversubscribe PRTE_MCA_mapby=:oversubscribe
}

# Use the components in folder $1. PMIx, which is part of Open MPI 5.0 and later, would search that folder
# for its own components and complain, so give it folder $2, which is empty.
mpi_components() {
    mkdir -p "$2"
    export OMPI_MCA_mca_base_component_path="$1:SYSTEM_DEFAULT:USER_DEFAULT"
    export PMIX_MCA_mca_base_component_path="$2"
}

# Number of compilers that run at the same time.
# shellcheck disable=SC2034
jobs=$(nproc 2>/dev/null || echo 2)

# openmpi_source FOLDER: download the source tree from which Debian's package of Open MPI was built. The
# lists of source packages are kept next to it, so that the lists of the system do not change.
openmpi_source() {
    rm -rf "$1" "$1.apt" && mkdir -p "$1" "$1.apt/lists/partial" || return
    # A fresh root file system has no lists of packages, and apt-get reports no targets without them.
    [ -n "$(apt-get indextargets)" ] || apt_get update || return
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(SITE) $(RELEASE)' |
        awk '$2 !~ /-/ { print "deb-src " $1 " " $2 " main"; exit }' >"$1.apt/sources.list"
    (cd "$1.apt" && set -- -o Dir::Etc::SourceList="$PWD/sources.list" -o Dir::Etc::SourceParts=none \
        -o Dir::State::Lists="$PWD/lists" -o APT::Sandbox::User=root \
        -o Acquire::Check-Valid-Until=false &&
        apt_get "$@" update && apt_get "$@" source --download-only openmpi) &&
        { command -v xz >/dev/null 2>&1 || apt_get install -y --no-install-recommends xz-utils; } &&
        tar -C "$1" --strip-components=1 -xf "$1.apt"/openmpi_*.orig.tar.*
}
