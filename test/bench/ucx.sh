#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# ucx.sh BUILD: compare MPI_Allreduce on host memory over the net ucx, using TCP, with stock Open MPI's
# TCP in one job (gpuring-perf --compare). Two processes on this machine act as two nodes and use the
# loopback interface. That interface is as fast as the CPU, so the result compares the CPU time of both
# and not a network.
#
#   ROUNDS     rounds (default: 15)
#   LARGEST    size (default: 64M)
#   MODULES    folder of the component (default: BUILD/.libs)
set -eu
build=$(cd "${1:?usage: ucx.sh BUILD}" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
: "${ROUNDS:=15}" "${LARGEST:=64M}" "${MODULES:=$build/.libs}"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
UCX_TLS=tcp,self UCX_NET_DEVICES=lo "${MPIRUN:-mpirun}" -n 2 \
    --mca mca_base_component_path "$MODULES:SYSTEM_DEFAULT:USER_DEFAULT" \
    --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo \
    --mca coll_gpuring_priority 90 --mca coll_gpuring_device host --mca coll_gpuring_net ucx \
    "$here/../mpi/as_nodes.sh" 2 2 "$build/tools/gpuring-perf" --compare --rounds "$ROUNDS" \
    --settle 1000 -e "$LARGEST"
