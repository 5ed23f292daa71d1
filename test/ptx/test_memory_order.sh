#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Run the compiled kernels on modelled memory, which guarantees only the order of PTX and the order that we
# assume of the hardware (test/ptx/ptx_weak.h). Also check that the model detects missing order. To run it by
# hand with other cases:
#
#   GPURING_MEMORY_ORDER_SEED=N top_srcdir=.. top_builddir=. sh ../test/ptx/test_memory_order.sh
set -u
: "${top_srcdir:?}" "${top_builddir:?}"
ptx=$top_builddir/test/ptx/kernels.ptx
: "${GPURING_MEMORY_ORDER_SEED:=1}"
work=$(mktemp -d "${TMPDIR:-/tmp}/gpuring-order.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
checks=0

verdict() { # STATUS TEXT
    checks=$((checks + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $checks - $2"
    else
        echo "not ok $checks - $2"
        grep -v '^ok ' "$work/out" | head -n 20 | sed 's/^/# /'
    fi
}

# cases PTX PROTOCOL COUNT [OPTION]: run the cases of a protocol, or of "move", the kernel that copies messages.
cases() {
    case $2 in
    move) set -- move_order "$1" --cases "$3" ;;
    *) set -- memory_order "$1" --protocol "$2" --cases "$3" ${4:+"$4"} ;;
    esac
    program=$1
    shift
    timeout -k 10 300 "$top_builddir/test/ptx/$program" "$@" --seed "$GPURING_MEMORY_ORDER_SEED" >"$work/out" 2>&1
}

# noticed TEXT PATTERN PROTOCOL AWK: change the kernels with an awk program, and check that they fail with a
# message that matches PATTERN and names the two accesses.
noticed() {
    original=$work/few.ptx
    [ "$3" != move ] || original=$work/move.ptx
    awk "$4" "$original" >"$work/mutant.ptx"
    if cmp -s "$original" "$work/mutant.ptx"; then
        echo "nothing was changed" >"$work/out"
        verdict 1 "$3: $1"
    elif cases "$work/mutant.ptx" "$3" 40; then
        verdict 1 "$3: $1: is noticed"
    else
        grep -Eq -- "$2" "$work/out"
        verdict $? "$3: $1: is noticed ($2)"
    fi
}

target=$(sed -n 's/^\.target sm_\([0-9]*\).*/\1/p' "$ptx")
if [ "${target:-0}" -lt 90 ]; then
    echo "1..0 # SKIP this nvcc makes no PTX of compute capability 9.0 and later: it is of ${target:-?}"
    exit 0
fi
echo "# the kernels' PTX for sm_$target, GPURING_MEMORY_ORDER_SEED=$GPURING_MEMORY_ORDER_SEED"

# Keep only the three kernels that the cases use.
awk '/^\.visible \.entry/ { skip = !/gpuring_(simple|ll|ll128)_sum_u64/ } !skip { print }' \
    "$ptx" >"$work/few.ptx"

for protocol in simple ll ll128 mapped; do
    cases "$work/few.ptx" "$protocol" 20
    verdict $? "20 cases of $protocol"
    cases "$work/few.ptx" "$protocol" 5 --many
    verdict $? "5 cases of $protocol with many ranks"
    cases "$work/few.ptx" "$protocol" 30 --stops
    verdict $? "30 cases of $protocol that the host stops, or with a wrong size"
done

awk '/^\.visible \.entry/ { skip = !/gpuring_move/ } !skip { print }' "$ptx" >"$work/move.ptx"
cases "$work/move.ptx" move 200
verdict $? "200 cases of messages that kernels copy"
grep '^# ' "$work/out"

# Check that faults are detected.
order='neither is ordered|from before the store|is wrong'
noticed "fences of one GPU" "$order" move '{ sub(/fence\.acq_rel\.sys/, "fence.acq_rel.gpu"); print }'
noticed "no fences" "$order" move '{ sub(/fence\.acq_rel\.sys/, "// fence"); print }'
noticed "signals that are read without acquire" "$order" move \
    '{ sub(/ld\.acquire\.sys/, "ld.relaxed.sys"); print }'
noticed "signals and ends that are written for one GPU" "$order" move \
    '{ sub(/st\.relaxed\.sys/, "st.relaxed.gpu"); print }'
noticed "no barrier before the fence" "$order|has accessed since" move '!/bar\.sync/ { print }'
cases "$work/few.ptx" ll128 40 --lines-any-order
[ $? -eq 1 ] && grep -q 'reads data of a line whose flag is there' "$work/out"
verdict $? "LL128 where lines of 128 bytes become visible in any order: is noticed"
noticed "fences of one GPU" 'neither is ordered|from before the store' simple \
    '{ sub(/fence\.acq_rel\.sys/, "fence.acq_rel.gpu"); print }'
noticed "no fences" 'neither is ordered|from before the store' simple \
    '{ sub(/fence\.acq_rel\.sys/, "// fence"); print }'
noticed "counters that are read without acquire" 'neither is ordered|from before the store' simple \
    '{ sub(/ld\.acquire\.sys/, "ld.relaxed.sys"); print }'
noticed "counters that are written for one GPU" 'neither is ordered' simple \
    '{ sub(/st\.relaxed\.sys\.global\.u64/, "st.relaxed.gpu.global.u64"); print }'
noticed "no fences" 'neither is ordered|from before the store' mapped \
    '{ sub(/fence\.acq_rel\.sys/, "// fence"); print }'
noticed "counters that are read without acquire" 'neither is ordered|from before the store' mapped \
    '{ sub(/ld\.acquire\.sys/, "ld.relaxed.sys"); print }'
noticed "the end of a kernel without a fence" 'the host of rank [0-9]+' ll \
    '{ sub(/fence\.acq_rel\.sys/, "// fence"); print }'
noticed "commands to a kernel that lingers, read without acquire" \
    'neither is ordered|not get to their ends' ll \
    '/ld\.acquire/ { held = $0; next }
    held != "" && /end inline/ { comment = $0; next }
    held != "" { if (/shr\.u64/) sub(/ld\.acquire/, "ld.relaxed", held)
        print held; print comment; held = "" }
    { print }'
noticed "lines whose threads do not meet before they store" 'is wrong|whose flag is there' ll128 \
    '/mov\.pred.*-1;/ { name = $2; sub(/,/, "", name); always[name] = NR }
    { source = $3; sub(/,/, "", source) }
    !(/vote\.sync/ && source in always && NR - always[source] <= 2) { print }'
echo "1..$checks"
