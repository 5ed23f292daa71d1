# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
# shellcheck shell=sh
#
# Common parts of the MPI test drivers, which source this file. A driver prints TAP: one line per check.
#
# From the build (test/local.mk sets them):
#   top_srcdir, top_builddir   the source and the build tree
#   MPIRUN, OMPI_INFO          the programs of the Open MPI that it was configured for
set -u
: "${top_srcdir:?run this by make check, or set top_srcdir to the source folder}"
: "${top_builddir:?run this by make check, or set top_builddir to the build folder}"
: "${MPIRUN:=mpirun}" "${OMPI_INFO:=ompi_info}"
components=$top_builddir/.libs
device=host

# shellcheck source=test/setup.sh
. "$top_srcdir/test/setup.sh"
mpi_anywhere
# Let every process show its messages (Open MPI 5.0 shows them twice).
export OMPI_MCA_orte_base_help_aggregate=0 OMPI_MCA_opal_base_help_aggregate=0
# Most communicators of the tests make few calls, which must be served even so.
export OMPI_MCA_coll_gpuring_connect_after=0
# Our sums of 8 and 16 bits wrap around. Sums of Open MPI do the same, except for those of op/avx.
export OMPI_MCA_op=^avx

programs=$top_builddir/test/mpi
# shellcheck disable=SC2034
first_rank=$top_srcdir/test/mpi/first_rank.sh
work=$(mktemp -d "${TMPDIR:-/tmp}/gpuring-test.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
checks=0
started=$(date +%s)
mpi_components "$components" "$work/no-components"

ok() { # TEXT
    checks=$((checks + 1))
    echo "ok $checks - $*"
}

not_ok() { # TEXT; details from $work/out as comments
    checks=$((checks + 1))
    echo "not ok $checks - $*"
    # Open MPI 5.0 ends the last line with a NUL instead of a newline.
    [ ! -s "$work/out" ] || tail -n 60 "$work/out" | tr '\000' '\n' | sed '/^$/d; s/^/# /'
}

skip() { # REASON TEXT
    checks=$((checks + 1))
    reason=$1
    shift
    echo "ok $checks - $* # SKIP $reason"
}

check() { # TEXT COMMAND...: passes if the command does
    check_text=$1
    shift
    if "$@"; then ok "$check_text"; else not_ok "$check_text"; fi
}

finish() { # check.sh shows the longest
    echo "# took $(($(date +%s) - started)) s"
    echo "1..$checks"
    exit 0
}

# run SECONDS COMMAND...: run a command with its output in $work/out. Sets $status (124: out of time).
run() {
    limit=$1
    shift
    timeout -k 10 "$limit" "$@" >"$work/out" 2>&1 </dev/null
    status=$?
    return 0
}

# mpi SECONDS RANKS [nNODES] PROGRAM ARGS...: like run, with the component on the device $device. n2, n3...:
# the number of simulated nodes (block distribution, coll_gpuring_hostid).
mpi() {
    limit=$1 ranks=$2 nodes=1
    shift 2
    case $1 in n[0-9]*) nodes=${1#n} && shift ;; esac
    program=$1
    shift
    run "$limit" "$MPIRUN" -n "$ranks" --mca coll_gpuring_priority 90 \
        --mca coll_gpuring_device "$device" "$top_srcdir/test/mpi/as_nodes.sh" "$nodes" "$ranks" \
        "$programs/$program" "$@"
}

# use_gpus N: from now on, place the buffers of programs on N GPUs of the stand-in driver (test/standin).
use_gpus() {
    device=cuda
    export GPURING_TEST_MEMORY=cuda GPURING_TEST_DRIVER="$top_builddir/test/standin/.libs"
    export GPURING_STANDIN_GPUS="$1"
    # Small calls with a root are served, too, instead of staged.
    export OMPI_MCA_coll_gpuring_agree_size=1
}

# guarded COMMAND...: run it with an access of the host to device memory as a fault. This takes most of the time
# of a run, so tests set GPURING_STANDIN_PROTECT=0 and guard some runs of each program.
guarded() { GPURING_STANDIN_PROTECT=1 "$@"; }

# nvlink_topology GPUS: use a topology file in which all GPUs of the stand-in driver are on one NVSwitch.
nvlink_topology() {
    {
        echo '<system version="1"><cpu numaid="0" affinity="ffffffff" arch="x86_64"'
        echo 'vendor="GenuineIntel" familyid="6" modelid="143">'
        for gpu in $(seq 1 "$1"); do
            echo "<pci busid='0000:0$gpu:00.0' class='0x030200' link_speed='32 GT/s' link_width='16'>"
            echo "<gpu dev='$((gpu - 1))' sm='90' rank='$((gpu - 1))' gdr='0'>"
            echo '<nvlink target="ffff:ff:ff.0" count="18" tclass="0x068000"/></gpu></pci>'
        done
        echo '</cpu></system>'
    } >"$work/nvlink.xml"
    export OMPI_MCA_coll_gpuring_topo_file="$work/nvlink.xml"
}

# adopt TEXT: take over the TAP lines of the last run. The program must have returned 0 and printed its plan.
adopt() {
    adopt_text=$1
    sed -n 's/^ok [0-9]* - /ok /p; s/^not ok [0-9]* - /bad /p' "$work/out" >"$work/lines"
    while IFS= read -r line; do
        checks=$((checks + 1))
        case $line in
        "ok "*) echo "ok $checks - $adopt_text: ${line#ok }" ;;
        *) echo "not ok $checks - $adopt_text: ${line#bad }" ;;
        esac
    done <"$work/lines"
    if grep -q '^bad ' "$work/lines"; then
        sed -n '/^#/p' "$work/out" | tail -n 60
    fi
    if [ "$status" -ne 0 ]; then
        not_ok "$adopt_text: ends with status $status (124: out of time)"
    elif ! grep -q '^1\.\.[1-9]' "$work/out"; then
        not_ok "$adopt_text: ran to its end"
    fi
}

# adopt_as_one TEXT: make one check for the last run, which passes if all its lines do. For large matrices.
adopt_as_one() {
    adopt_text=$1
    lines=$(grep -c '^ok ' "$work/out")
    if [ "$status" -eq 0 ] && grep -q '^1\.\.[1-9]' "$work/out" &&
        ! grep -q '^not ok ' "$work/out"; then
        ok "$adopt_text ($lines checks)"
    else
        grep -v '^ok ' "$work/out" >"$work/out.bad"
        grep '^not ok ' "$work/out" | head -n 20 >>"$work/out.bad" # again, where they are shown
        mv "$work/out.bad" "$work/out"
        echo "status $status" >>"$work/out"
        not_ok "$adopt_text"
    fi
}

# Check that the last runs have released everything. The stand-in driver reports leaks in that file.
nothing_held() { # TEXT
    if [ ! -s "$GPURING_STANDIN_REPORT" ]; then
        ok "$1"
    else
        cp "$GPURING_STANDIN_REPORT" "$work/out"
        not_ok "$1"
    fi
    rm -f "$GPURING_STANDIN_REPORT"
}

# Open MPI 5.0 hangs without this component in some runs of the given test.
openmpi5() {
    case $("$OMPI_INFO" --version) in
    *" v5.0."*) ;;
    *) return 1 ;;
    esac
}

# Run the program `threads`. RANKS and nNODES are those of mpi.
threads() { # TEXT SECONDS RANKS [nNODES]
    threads_text=$1
    shift
    if openmpi5; then
        skip "Open MPI 5.0 by itself hangs in some runs" "$threads_text: threads"
        return
    fi
    mpi "$@" threads
    adopt "$threads_text"
}

# Check the output of the program lost_rank on the OTHERS, which are the ranks that continue.
others_go_on() { # TEXT OTHERS
    check "$1: the $2 others get an MPI error" \
        test "$(grep -c '^ok - rank [0-9]* gets an error$' "$work/out")" -eq "$2"
    check "$1: the broken communicator keeps failing at once" \
        test "$(grep -c '^ok - rank [0-9]* gets an error again' "$work/out")" -eq "$2"
    check "$1: another communicator still works" \
        test "$(grep -c '^ok - rank [0-9]* still uses' "$work/out")" -eq "$2"
}

# Check that a tool has ended with a usage error and a message that matches PATTERN.
refused() { # PATTERN TEXT
    check "refused: $2" sh -c "[ $status -eq 2 ] && grep -Eq -- '$1' '$work/out'"
}

# `says PATTERN`: succeed if the output of the last run matches an extended regular expression.
says() { grep -Eq -- "$1" "$work/out"; }
silent() { ! says "$1"; }
