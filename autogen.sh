#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Creates configure and the Makefile.in files. Needs autoconf, automake and libtool.
set -e
cd "$(dirname "$0")"

for tool in autoreconf automake libtoolize; do
    command -v "$tool" >/dev/null 2>&1 || {
        echo "autogen.sh: $tool is missing (Debian: apt-get install autoconf automake libtool)" >&2
        exit 1
    }
done

autoreconf --install --force "$@"
