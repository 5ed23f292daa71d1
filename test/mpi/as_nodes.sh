#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# as_nodes.sh NODES RANKS PROGRAM ARGS...: run a program as a rank of a simulated node. mpirun starts this
# script for each rank. Blocks of consecutive ranks act as NODES nodes with different coll_gpuring_hostid;
# for 1 node it is not set. If GPURING_TEST_BY_NODE is set, consecutive ranks are on different nodes, as
# mpirun --map-by node places them. GPURING_TEST_DRIVER is the folder of another CUDA driver. If it is set,
# GPURING_TEST_PRELOAD is a library to preload, and GPURING_TEST_VISIBLE has one word for each rank: the
# value of CUDA_VISIBLE_DEVICES.
nodes=$1 ranks=$2
shift 2
if [ "$nodes" -gt 1 ]; then
    rank=${OMPI_COMM_WORLD_RANK:?run this under mpirun}
    node=$((rank * nodes / ranks))
    [ -z "${GPURING_TEST_BY_NODE-}" ] || node=$((rank % nodes))
    OMPI_MCA_coll_gpuring_hostid=node$node
    export OMPI_MCA_coll_gpuring_hostid
fi
if [ -n "${GPURING_TEST_DRIVER-}" ]; then
    LD_LIBRARY_PATH=$GPURING_TEST_DRIVER${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
    [ -z "${GPURING_TEST_PRELOAD-}" ] || export LD_PRELOAD="$GPURING_TEST_PRELOAD"
    if [ -n "${GPURING_TEST_VISIBLE-}" ]; then
        CUDA_VISIBLE_DEVICES=$(echo "$GPURING_TEST_VISIBLE" | cut -d ' ' -f $((OMPI_COMM_WORLD_RANK + 1)))
        export CUDA_VISIBLE_DEVICES
    fi
fi
exec "$@"
