#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# first_rank.sh NAME FIRST OTHERS PROGRAM ARGS...: run a program with the environment variable NAME set to
# FIRST on rank 0, and to OTHERS on all other ranks. mpirun starts this script for each rank, because
# Debian's mpirun 5.0.7 crashes on command lines with `:`.
name=$1
[ "${OMPI_COMM_WORLD_RANK:?run this under mpirun}" -eq 0 ] && value=$2 || value=$3
shift 3
exec env "$name=$value" "$@"
