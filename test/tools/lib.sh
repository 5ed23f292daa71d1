# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
# shellcheck shell=sh
#
# Functions for tests of tools, which source this file: a folder for their files, and checks that print
# TAP.
set -u
: "${top_srcdir:?run this by make check, or set top_srcdir to the source folder}"
: "${top_builddir:?run this by make check, or set top_builddir to the build folder}"
work=$(mktemp -d "${TMPDIR:-/tmp}/gpuring-tools.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
checks=0

# Pass if the command succeeds. Otherwise show its output, and the output and messages that a test keeps
# in $work/out and $work/err.
check() { # TEXT COMMAND...
    text=$1
    shift
    checks=$((checks + 1))
    if "$@" >"$work/said" 2>&1; then
        echo "ok $checks - $text"
    else
        echo "not ok $checks - $text"
        for file in said out err; do
            [ ! -s "$work/$file" ] || head -n 8 "$work/$file" | sed 's/^/# /'
        done
    fi
}
