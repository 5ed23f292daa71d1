#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Run the correctness matrix: ranks x simulated nodes x counts x types x operations, with every algorithm and
# protocol. Every element of every result is checked.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

small=0,1,2,3,1023,1024,1025

# Folding does not depend on ranks and nodes, so all types and operations are tested only twice.
for sample in "2 1 1" "5 3 1" "1 1 5" "3 1 5" "4 1 5" "7 1 11" "2 2 5" "8 4 11"; do
    # shellcheck disable=SC2086
    set -- $sample
    serve=-s
    [ "$1" -gt 1 ] || serve=
    [ "$1 $2" = "2 2" ] && algorithm=direct || algorithm=auto # otherwise some calls are delegated
    # shellcheck disable=SC2086
    OMPI_MCA_coll_gpuring_algorithm=$algorithm mpi 240 "$1" "n$2" matrix -n $small -f "$3" $serve
    adopt_as_one "$1 ranks on $2 nodes: one of $3 types and operations, counts $small"
done

mpi 240 2 matrix -n 1048579 -f 12 -s
adopt_as_one "2 ranks: every sixth combination, 1 Mi + 3 elements"
mpi 240 4 n2 matrix -n 1048579 -f 60 -s
adopt_as_one "4 ranks on 2 nodes: every 40th combination, 1 Mi + 3 elements"
OMPI_MCA_coll_gpuring_algorithm=direct mpi 240 2 n2 matrix -n 16353,60000,300001 -f 60 -s
adopt_as_one "2 ranks on 2 nodes: short and long chunks between nodes"
mpi 240 7 matrix -n 1048579 -f 60 -s
adopt_as_one "7 ranks: every 40th combination, 1 Mi + 3 elements"

# Each algorithm with each protocol, on one node or between nodes.
mpi 240 5 matrix -n $small,20000,300001 -f 97 -s ring-ll tree-simple tree-ll128 direct-ll
adopt_as_one "algorithms and protocols, 5 ranks"
mpi 240 7 n3 matrix -n $small,20000,300001 -f 97 -s \
    ring-simple ring-ll128 tree-ll direct-simple direct-ll128
adopt_as_one "algorithms and protocols, 7 ranks on 3 nodes"

export OMPI_MCA_coll_gpuring_algorithm=two-shot OMPI_MCA_coll_gpuring_check=plans
mpi 240 6 n3 matrix -n $small,20000,300001 -f 97 -s
adopt_as_one "two-shot between nodes, 6 ranks on 3 nodes"
export OMPI_MCA_coll_gpuring_algorithm=direct
mpi 240 18 n5 matrix -n 1,1025,20000 -f 331 -s
adopt_as_one "doubling, 18 ranks on 5 nodes"
unset OMPI_MCA_coll_gpuring_algorithm OMPI_MCA_coll_gpuring_check

export OMPI_MCA_coll_gpuring_min_channels=4 OMPI_MCA_coll_gpuring_max_channels=4
mpi 240 4 matrix -n 1,1000,100003 -f 31 -s
adopt_as_one "4 channels, 4 ranks"
mpi 240 6 n3 matrix -n 1,1000,100003 -f 31 -s
adopt_as_one "4 channels, 6 ranks on 3 nodes"
unset OMPI_MCA_coll_gpuring_min_channels OMPI_MCA_coll_gpuring_max_channels

# Small buffers cause many windows, and odd sizes of chunks end at every boundary.
export OMPI_MCA_coll_gpuring_buffer_size=8192 OMPI_MCA_coll_gpuring_chunk_size=200
mpi 240 3 matrix -n 1,49,50,51,1000,30011 -f 11 -s
adopt_as_one "chunks of 200 bytes, 3 ranks"
unset OMPI_MCA_coll_gpuring_buffer_size OMPI_MCA_coll_gpuring_chunk_size

finish
