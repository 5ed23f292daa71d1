#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# as_views.sh FILE FOLDER COMMAND...: run a command as a rank that sees only one GPU of a topology file,
# as in a container. Rank N sees GPU N. If GPURING_TEST_STRANGER=N, rank N sees another kind of device.
file=$1 folder=$2
shift 2
rank=${OMPI_COMM_WORLD_RANK:-0}
view=$folder/view-$rank.xml
awk -v mine="$rank" '
    /<gpu / {
        match($0, /rank="[0-9]+"/)
        skip = substr($0, RSTART + 6, RLENGTH - 7) != mine
        whole = $0 ~ /\/>/
    }
    !skip { print }
    /<\/gpu>/ || (skip && whole) { skip = 0 }' "$file" >"$view"
if [ "$rank" = "${GPURING_TEST_STRANGER:-none}" ]; then
    sed 's/class="0x030200"/class="0x038000"/' "$view" >"$view.other"
    view=$view.other
fi
OMPI_MCA_coll_gpuring_topo_file=$view
export OMPI_MCA_coll_gpuring_topo_file
exec "$@"
