#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Staged collectives without an agreement, on the stand-in driver (test/standin), where one rank's
# GPU breaks: it returns an error, every other rank does so in the same call or, if its own result is
# right, in its next staged one, and nobody waits; also where notices are late, and where messages go
# by TCP.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

if [ ! -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    skip "built without CUDA: there is no device layer to test" "failure notices of staged calls"
    finish
fi
use_gpus 2
export GPURING_STANDIN_REPORT="$work/report"

logged() { grep -Eq "$1" "$work/log"; }
not() { ! "$@"; }

for sample in "2 0" "3 2" "4 1"; do
    rm -f "$work/log"
    mpi 300 "${sample% *}" staged_together "${sample#* }" "$work/log"
    adopt "${sample% *} ranks, rank ${sample#* } breaks"
done
check "the log of the broken rank says that it tells the others" \
    logged 'gpuring ERROR .*MPI_.* \(call [0-9]+\) fails here: system or driver.*; the other ranks are told'
check "theirs names rank, host, collective and cause" \
    logged "gpuring ERROR .*MPI_.* \(call [0-9]+\) failed at rank 1 on host $(uname -n): system or driver"
check "and tells of earlier calls which they were, and what that means" \
    logged "gpuring ERROR .* \(call [0-9]+, [0-9]+ calls ago, whose results are undefined here; the error is returned by this call, MPI_Allgather\) failed at rank 1"
rm -f "$work/log"
mpi 300 7 staged_void 20 5 "$work/log"
adopt "7 ranks, notices are 5 ms late"
check "nobody is waited for in vain" not logged 'have not answered'
mpi 300 8 staged_void 20 0 "$work/log"
adopt "8 ranks"
OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=lo mpi 300 5 staged_void 10 0 "$work/log"
adopt "5 ranks, by TCP"
# Longer than a rank waits for answers: it goes on.
OMPI_MCA_coll_gpuring_timeout=1 mpi 300 3 staged_void 1 1500 "$work/late" || true
check "a rank that does not get its answers goes on" test "$status" -ne 124
check "and its log says so" grep -Eq \
    'gpuring WARN .*MPI_Bcast \(call [0-9]+\): 2 ranks have not answered for 1 s' "$work/late"
nothing_held "calls that fail leave nothing behind"
finish
