#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# verbs.sh BUILD FOLDER: measure MPI_Allreduce over verbs between two emulated machines (test/rdma/run).
# Alternating jobs, in rounds, compare it with perftest and a bare exchange (verbs_exchange.c) on the same
# devices, and with stock Open MPI over TCP on the same link. A single job (gpuring-perf --compare) also
# compares it with TCP, without a tuning file and with one. The tuning file is made on the same machines
# first, and leaves sizes to TCP if TCP is faster. Writes the output of every run and table.md, with
# medians and ratios, to FOLDER. Only the ratios are meaningful, because the processors are emulated.
#
#   ROUNDS     rounds of jobs (default: 3; 0: none)
#   COMPARE    rounds within a job (default: 15; 0: none)
#   LIMIT      seconds for everything (default: 1500)
#   LARGEST    largest size in MiB, with the suffix M (default: 64M)
#   EXTRA      arguments of mpirun for coll/gpuring
set -eu
usage='usage: verbs.sh BUILD FOLDER'
build=$(cd "${1:?$usage}" && pwd)
mkdir -p "${2:?$usage}"
folder=$(cd "$2" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
: "${ROUNDS:=3}" "${COMPARE:=15}" "${LARGEST:=64M}" "${LIMIT:=1500}" "${EXTRA:=}"
[ -x "$build/tools/gpuring-perf" ] || { echo "verbs.sh: build $build first" && exit 1; }
make -C "$build" test/bench/verbs_exchange >/dev/null
rm -f "$folder"/*.json "$folder"/*.perftest "$folder"/exchange.* "$folder"/tuning* "$folder"/compare.*
export build folder ROUNDS COMPARE LARGEST EXTRA
"$here/../rdma/run" -n 2 -m 1536 -t "$LIMIT" -w "$folder" -e build -e folder -e ROUNDS \
    -e COMPARE -e LARGEST -e EXTRA sh "$here/verbs_machine.sh"
python3 "$here/verbs.py" "$folder" >"$folder/table.md"
cat "$folder/table.md"
