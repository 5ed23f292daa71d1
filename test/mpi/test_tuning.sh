#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test tuning files: calls use the algorithm of the matching rule, ranks with different rules are refused,
# and unusable files are reported.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"

file=$work/tuning
export OMPI_MCA_coll_gpuring_tuning_file="$file"

rules() { # LINE...: the file
    echo "gpuring-tuning 1" >"$file"
    printf '%s\n' "$@" >>"$file"
}
# For this memory and any number of ranks, delegate less than 1000 bytes, and use rings for the rest.
usual() { # MEMORY NODES
    rules "allreduce memory=$1 nodes=$2 ranks=2-9 bytes=0-999 previous" \
        "allreduce memory=* nodes=$2 ranks=* bytes=* ring"
}

usual host 1
for ranks in 2 3 5; do
    mpi 120 "$ranks" tuning
    adopt "host memory, $ranks ranks"
done
usual host 2-
mpi 120 4 n2 tuning
adopt_as_one "host memory, 4 ranks on 2 nodes"

OMPI_MCA_coll_gpuring_verbose=1 mpi 120 2 n2 tuning
check "the log says which sizes are left, and to whom" \
    says "\[tuning\] .*rank 0 of 2: .*$file, .*: allreduce 0-999 previous, allreduce [*] ring .*coll/[a-z]+"
check "and the reason of a call that is left" \
    says 'calls are delegated .*\[tuned\]'
OMPI_MCA_coll_gpuring_check=data mpi 120 3 n2 tuning
adopt_as_one "with coll_gpuring_check=data"

# Parameters take precedence over the tuning file.
OMPI_MCA_coll_gpuring_algorithm=tree mpi 60 2 n2 tuning -i
adopt_as_one "an algorithm that is asked for goes before the file"
OMPI_MCA_coll_gpuring_protocol=simple mpi 60 2 n2 tuning -i
adopt_as_one "a protocol that is asked for goes before the file"
rules "allreduce memory=host nodes=* ranks=* bytes=* ring"
OMPI_MCA_coll_gpuring_algorithm=previous mpi 60 2 tuning -p
adopt_as_one "coll_gpuring_algorithm=previous delegates all sizes"

# Delegate all calls: types, operations, threads, and processes that are spawned.
all_left() { # TEXT
    OMPI_MCA_coll_gpuring_algorithm=previous mpi 120 4 n2 matrix -n 1,100,3000 -f 20
    adopt_as_one "all left, $1: 4 ranks on 2 nodes"
    OMPI_MCA_coll_gpuring_algorithm=previous threads "all left, $1" 120 2
}
all_left "host memory"
OMPI_MCA_coll_gpuring_algorithm=previous mpi 120 2 processes
adopt_as_one "all left: between groups, and spawned processes"

# Make random calls of all forms, many in flight, on communicators that are created and freed.
soak() { # RANKS NODES OPTIONS...
    seed=${GPURING_SOAK_SEED:-201} soak_ranks=$1 soak_nodes=$2
    shift 2
    mpi 200 "$soak_ranks" "n$soak_nodes" soak -s "$seed" -c "${GPURING_SOAK_COUNT:-1500}" "$@"
    adopt_as_one "random calls, some sizes left, $soak_ranks ranks on $soak_nodes node(s) (seed $seed)"
}
rules "allreduce memory=host nodes=* ranks=* bytes=0-99 ring" \
    "allreduce memory=host nodes=* ranks=* bytes=100-999 previous" \
    "allreduce memory=host nodes=* ranks=* bytes=1000-19999 direct" \
    "allreduce memory=host nodes=* ranks=* bytes=20000-29999 previous"
soak 2 1
soak 4 2
soak 3 1 -p

# Rules for others, no file, and files that cannot be used.
usual host 1
OMPI_MCA_coll_gpuring_verbose=1 mpi 60 3 n2 tuning -i
check "a file without a rule for these: the log says so" says '\[no-rule\] '
adopt_as_one "a file without a rule for these: all sizes are served"
OMPI_MCA_coll_gpuring_tuning_file='' mpi 60 2 tuning -i
adopt_as_one "no file: all sizes are served"
OMPI_MCA_coll_gpuring_tuning_file=$work/nowhere mpi 60 2 tuning -i
check "a file that is not there is told" says '\[tuning-file\]'
check "by its name" says "$work/nowhere: "
adopt_as_one "a file that is not there on any rank is ignored"
rules "allreduce memory=host nodes=1 ranks=2 bytes=0-999 previously"
mpi 60 2 tuning -i
check "a bad line is told: file, line and word" \
    says "$file, line 2: \[bad-algorithm\] 'previously'"
adopt_as_one "a file with a bad line on all ranks is ignored"

# two TEXT PATTERN FILE-OF-0 FILE-OF-1: check that both ranks get an error.
two() {
    text=$1 pattern=$2
    run 60 "$MPIRUN" -n 2 --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
        "$first_rank" OMPI_MCA_coll_gpuring_tuning_file "$3" "$4" "$programs/tuning" -d
    cp "$work/out" "$work/said"
    adopt_as_one "$text: an error on all ranks"
    cp "$work/said" "$work/out"
    check "$text: the message" says '\[tuning-differs\]'
    check "$text: ranks, hosts and what they have are told" says "$pattern"
}
usual host 1
sed 's/999/1000/' "$file" >"$work/other"
two "rules that differ" 'rank 1 \(host .*\) has   rules with fingerprint [0-9a-f]{16}' \
    "$file" "$work/other"
two "a file at some ranks" 'rank 1 \(host .*\) has   no tuning file' "$file" ''
echo wrong >"$work/other"
two "a bad file at some ranks" 'rank 0 \(host .*\) has   a tuning file that it could not use' \
    "$work/other" "$file"
sed 's/^allreduce/  allreduce/; s/$/ # the same/' "$file" >"$work/other"
run 60 "$MPIRUN" -n 2 --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
    "$first_rank" OMPI_MCA_coll_gpuring_tuning_file "$file" "$work/other" "$programs/tuning"
adopt_as_one "files that differ in all but the rules are the same"

if [ ! -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    skip "built without CUDA: there is no device layer to test" "GPU buffers"
    finish
fi
use_gpus 2
export GPURING_STANDIN_REPORT="$work/report" GPURING_STANDIN_PROTECT=0
usual cuda 1-2
mpi 120 2 tuning
adopt "GPU buffers on the stand-in, 2 ranks"
mpi 120 4 n2 tuning
adopt_as_one "GPU buffers on the stand-in, 4 ranks on 2 nodes"
OMPI_MCA_coll_gpuring_algorithm=previous mpi 120 3 tuning -p
adopt_as_one "GPU buffers on the stand-in, all delegated"
OMPI_MCA_coll_gpuring_agree=always mpi 120 3 tuning
adopt_as_one "GPU buffers on the stand-in, coll_gpuring_agree=always"
OMPI_MCA_coll_gpuring_agree=always mpi 120 3 mixed -a
adopt_as_one "GPU buffers at some ranks, coll_gpuring_agree=always"
all_left "GPU buffers on the stand-in"
usual host 1
mpi 60 2 tuning -i
adopt_as_one "rules for host memory are not for GPU buffers"
nothing_held "nothing is left on the stand-in"
unset GPURING_STANDIN_REPORT # this program frees nothing on other GPUs
OMPI_MCA_coll_gpuring_algorithm=previous mpi 120 2 mixed
adopt_as_one "GPU buffers on the stand-in, all left: buffers on several GPUs and hosts"
finish
