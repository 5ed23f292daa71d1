#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# first_rank.sh NAME FIRST OTHERS PROGRAM ARGS...: run by mpirun for each rank: the environment
# variable NAME is FIRST at rank 0 and OTHERS at all others. (Debian's mpirun 5.0.7 crashes on the
# command lines with `:` that could say the same.)
name=$1
[ "${OMPI_COMM_WORLD_RANK:?run this under mpirun}" -eq 0 ] && value=$2 || value=$3
shift 3
exec env "$name=$value" "$@"
