#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# version.sh [DEFAULT]: print the version of this source tree: 0.1.0 at the tag v0.1.0, otherwise a snapshot of
# the commit, such as 0.1.0~git20261127.1a6ae46, with .modified if files differ from the commit. Debian and
# RPM sort "~" before the release. Print DEFAULT for a tree whose commit is unknown.
base=0.1.0
cd "$(dirname "$0")/.." || exit 1

if [ -f .tarball-version ]; then # written by make dist
    exec cat .tarball-version
fi
# shellcheck disable=SC2016
commit='$Format:%cs.%h$' # git archive fills in the commit
case $commit in
'$'*)
    commit=
    if [ -e .git ] && commit=$(git log -1 --abbrev=7 --format=%cs.%h 2>/dev/null); then
        git diff --quiet HEAD -- || commit=$commit.modified
        [ "$(git describe --tags --exact-match --match "v$base" --dirty 2>/dev/null)" != "v$base" ] || exec echo "$base"
    fi
    ;;
esac
if [ -n "$commit" ]; then
    echo "$base~git$commit" | sed 's/-//g'
else
    echo "${1-$base~git}"
fi
