#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Create and free communicators between calls, while the program's own messages are on them.
#
# GPURING_CHURN_SEED selects other random calls, and GPURING_CHURN_COUNT the number of steps.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

seed=${GPURING_CHURN_SEED:-1}
count=${GPURING_CHURN_COUNT:-300}
echo "# GPURING_CHURN_SEED=$seed GPURING_CHURN_COUNT=$count repeats this run"

duplicates() { # RANKS NODES COUNT TEXT
    mpi 300 "$1" "n$2" churn -d "$3"
    adopt "$1 ranks on $2 nodes, $4"
}

churn() { # RANKS NODES TEXT [OPTION]
    mpi 120 "$1" "n$2" churn -s "$seed" -c "$count" ${4+"$4"}
    adopt_as_one "$1 ranks on $2 nodes, $3"
    seed=$((seed + 1))
}

free_failed() { # RANKS NODES TEXT
    if openmpi5; then
        skip "Open MPI 5.0 by itself hangs in some runs with threads" "$1 ranks on $2 nodes, $3: free_failed"
        return
    fi
    mpi 120 "$1" "n$2" free_failed 4
    adopt "$1 ranks on $2 nodes, $3"
}

run 120 "$MPIRUN" -n 4 --mca coll_gpuring_priority 0 "$programs/churn" -s "$seed" -c "$count"
adopt_as_one "4 ranks without the component"
for ranks in 2 3 5; do
    churn "$ranks" 1 "auto"
done
duplicates 2 1 1000 "a communicator that is made again and again"
duplicates 4 1 100 "a communicator that is made again and again"
free_failed 2 1 "failed communicators"
export OMPI_MCA_coll_gpuring_check=data
churn 4 1 "check=data"
unset OMPI_MCA_coll_gpuring_check
export OMPI_MCA_coll_gpuring_net=mpi
churn 4 2 "MPI messages" -u
check "4 ranks on 2 nodes, MPI messages: no communicator is left" silent '\[not-freed\]'
duplicates 3 3 100 "MPI messages"
duplicates 4 2 100 "MPI messages"
free_failed 4 2 "failed communicators, MPI messages"
unset OMPI_MCA_coll_gpuring_net
if grep -q 'GPURING_HAVE_UCX *1' "$top_builddir/gpuring_config.h"; then
    export OMPI_MCA_coll_gpuring_net=ucx
    churn 4 2 "auto"
    duplicates 4 2 100 "UCX"
    free_failed 4 2 "failed communicators, UCX"
    export OMPI_MCA_coll_gpuring_algorithm=tree OMPI_MCA_coll_gpuring_protocol=ll
    churn 3 3 "tree, ll"
    unset OMPI_MCA_coll_gpuring_algorithm OMPI_MCA_coll_gpuring_protocol OMPI_MCA_coll_gpuring_net
else
    skip "built without UCX" "several nodes"
fi

# Other components run the first calls of a communicator.
OMPI_MCA_coll_gpuring_connect_after=3 churn 4 1 "the first 3 calls elsewhere"

# Buffers are in host memory in a process with a driver: every call is checked and delegated.
if [ -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    use_gpus 1
    export GPURING_STANDIN_PROTECT=0
    OMPI_MCA_coll_gpuring_connect_after=3 churn 4 1 "host memory beside GPUs, the first 3 calls elsewhere"
    duplicates 2 1 100 "device memory"
    duplicates 3 1 50 "device memory"
    OMPI_MCA_coll_gpuring_net=mpi duplicates 2 2 20 "device memory, MPI messages"
    export OMPI_MCA_coll_gpuring_agree=always
    churn 4 1 "host memory beside GPUs, agree=always"
else
    skip "built without CUDA: there is no device layer to test" "host memory beside GPUs"
fi
finish
