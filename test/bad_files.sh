# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
# shellcheck shell=sh
#
# Files that cannot be read as text, for tests of parameters and options that take a file name. Tests
# source this script. $work is the folder of the test.

# Create the files in $work/bad. One of them is longer than MEBIBYTES, the limit of the reader. Each line
# of $work/bad/list is "NAME PATTERN": the pattern matches the error message about $work/bad/NAME.
bad_files() { # MEBIBYTES
    : "${work:?source a lib.sh first}"
    rm -rf "$work/bad"
    mkdir "$work/bad" "$work/bad/folder"
    mkfifo "$work/bad/pipe"
    ln -s /dev/zero "$work/bad/device"
    ln -s /proc/self/mem "$work/bad/broken"
    dd if=/dev/null of="$work/bad/large" bs=1048576 seek="$1" 2>/dev/null
    echo >>"$work/bad/large"
    : >"$work/bad/unreadable"
    chmod 0 "$work/bad/unreadable"
    # Root may read any file in spite of its permissions, but some files in /proc are write-only.
    [ ! -r "$work/bad/unreadable" ] || ln -sf /proc/sys/vm/compact_memory "$work/bad/unreadable"
    cat >"$work/bad/list" <<LIST
missing bad/missing: No such file or directory
pipe bad/pipe: .not-a-file.
folder bad/folder: .not-a-file.
device bad/device: .not-a-file.
large bad/large: .too-long. is longer than $1 MiB
unreadable bad/unreadable: Permission denied
broken bad/broken: cannot be read: Input/output error
LIST
    if [ -r "$work/bad/unreadable" ] || [ ! -e "$work/bad/unreadable" ]; then
        echo "# there is no file that this user cannot read: not tested"
        sed -i '/^unreadable /d' "$work/bad/list"
    fi
}
