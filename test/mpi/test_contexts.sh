#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test buffers of several CUDA contexts of a process, and contexts that are destroyed, on the stand-in driver
# (test/standin). No result is from a GPU.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

if [ ! -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    skip "built without CUDA: there is no device layer to test" "contexts"
    finish
fi

export GPURING_STANDIN_REPORT="$work/report" OMPI_MCA_coll_gpuring_buffer_size=64k
for case in "3 1 own all" "3 2 primary all" "2 1 own last" "2 2 primary last"; do
    # shellcheck disable=SC2086 # words of the case
    set -- $case
    use_gpus "$2"
    # Only one case checks that the host does not access device memory, because this is slow.
    # The stand-in driver protects and releases all memory for each copy, so leave out the 32 MiB for messages.
    protect=0 rendezvous=1048576
    [ "$case" != "2 1 own last" ] || { protect=1 && rendezvous=0; }
    what="$1 ranks on $2 GPU(s), $3 context first, destroyed on: $4"
    GPURING_STANDIN_PROTECT=$protect OMPI_MCA_coll_gpuring_p2p_rendezvous=$rendezvous mpi 300 "$1" contexts "$3" "$4"
    if [ "$3" = own ]; then
        check "$what: the message" says '\[context-destroyed\]'
    else
        check "$what: no error is told" silent 'gpuring ERROR'
    fi
    adopt_as_one "$what"
    nothing_held "$what: nothing is leaked or misused"
done

# The context is reset before MPI_Finalize. The component must not use its objects, and must not report
# anything unless MPI gets buffers of the new context.
use_gpus 1
for how in reset again; do
    GPURING_STANDIN_PROTECT=0 mpi 120 2 contexts primary last $how
    if [ $how = again ]; then
        check "buffers of the new context: the message" says '\[context-destroyed\]'
        check "buffers of the new context: no limit is blamed" \
            silent '\[pin-limit\]|\[p2p-no-memory\]|\[stage-no-memory\]|\[gpu-memory\]'
    else
        check "$how of the context before MPI_Finalize: no error is told" silent 'gpuring ERROR'
    fi
    adopt_as_one "$how of the context before MPI_Finalize"
    check "$how of the context before MPI_Finalize: nothing of it is used" \
        sh -c "! grep -q 'misuses cu' '$GPURING_STANDIN_REPORT'"
    rm -f "$GPURING_STANDIN_REPORT"
done

# Every result is also checked by the component.
use_gpus 1
GPURING_STANDIN_PROTECT=0 OMPI_MCA_coll_gpuring_check=data mpi 120 2 contexts own last
adopt_as_one "check=data"
finish
