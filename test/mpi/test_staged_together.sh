#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Staged collectives with coll_gpuring_agree=always, on the stand-in driver (test/standin): right
# results whatever ranks have their buffers on a GPU, and where one rank's GPU breaks, an error at
# all of them.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

if [ ! -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    skip "built without CUDA: there is no device layer to test" "staged calls that agree"
    finish
fi
use_gpus 2
export OMPI_MCA_coll_gpuring_buffer_size=64k OMPI_MCA_coll_gpuring_agree=always
export GPURING_STANDIN_REPORT="$work/report"

logged() { grep -Eq "$1" "$work/log"; }

for sample in "1 41" "3 31" "4 71"; do
    mpi 240 "${sample% *}" staged -f "${sample#* }"
    adopt_as_one "${sample% *} ranks: combinations of collectives, forms, types, buffers, roots"
done
mpi 240 3 staged_cases
adopt_as_one "3 ranks: several calls under way, types and communicators that go early"
mpi 240 2 staged_cases -t
adopt_as_one "2 ranks: threads"
nothing_held "all memory is given back"

for sample in "2 0" "3 2" "4 1"; do
    rm -f "$work/log"
    mpi 300 "${sample% *}" staged_together "${sample#* }" "$work/log"
    adopt "${sample% *} ranks, rank ${sample#* } breaks"
done
check "the log of the others names rank, host and cause" \
    logged "gpuring ERROR .*MPI_.* failed on all ranks: rank 1 on host $(uname -n): system or driver"
nothing_held "calls that fail leave nothing behind"

# Who waits for another rank's outcome says so: because it is late, or because it has another value of
# the parameter, and never answers. What goes by sockets has left without the late rank's help.
rm -f "$work/log"
OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_coll_gpuring_timeout=2 \
    mpi 60 2 staged_together 1 "$work/log" 6
adopt "2 ranks"
check "who waits for the late rank says so" \
    logged 'gpuring WARN .*a call that may be staged waits for rank 1 on host .* since [0-9]+ s, and goes on'
unset OMPI_MCA_coll_gpuring_agree
run 15 "$MPIRUN" --mca coll_gpuring_priority 90 --mca coll_gpuring_device "$device" \
    --mca coll_gpuring_timeout 3 \
    -n 1 "$top_srcdir/test/mpi/as_nodes.sh" 1 2 env OMPI_MCA_coll_gpuring_agree=always \
    "$programs/staged" -f 41 : -n 1 "$top_srcdir/test/mpi/as_nodes.sh" 1 2 "$programs/staged" -f 41
check "a rank with another value of coll_gpuring_agree: who waits for it says so" \
    says 'gpuring WARN .*a call that may be staged waits for rank 1 on host .*coll_gpuring_agree=always'
finish
