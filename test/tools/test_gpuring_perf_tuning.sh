#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test gpuring-perf --tuning: the component accepts the files that it writes. They name the previous
# component for sizes at which ours is slow, and keep rules for other shapes.
# shellcheck source=test/mpi/lib.sh
. "${top_srcdir:-.}/test/mpi/lib.sh"
# shellcheck source=test/bad_files.sh
. "$top_srcdir/test/bad_files.sh"
perf=$top_builddir/tools/gpuring-perf
file=$work/tuning
quick="--settle 0 -n 20"
# Make coll/gpuring slow: compute each result again on a slow path.
slow="--mca coll_gpuring_check data"

# tune RANKS "MPIRUN-OPTIONS" ARGS...: run gpuring-perf --tuning on the device $device.
tune() {
    ranks=$1 options=$2
    shift 2
    # shellcheck disable=SC2086
    run 200 "$MPIRUN" -n "$ranks" --mca coll_gpuring_priority 90 \
        --mca coll_gpuring_device "$device" $options "$perf" --tuning "$file" $quick --rounds 3 "$@"
}
# Succeed if the file has a rule for RANKS ranks that ends with END.
has() { # RANKS END
    grep -Eq "^allreduce memory=[a-z]* nodes=1 ranks=$1 bytes=[*0-9-]* $2 +# " "$file"
}
lacks() { ! grep -Eq "$1" "$file"; }
count() { grep -c "ranks=$1 " "$file"; }

tune 2 "" -b 4 -e 64K -f 16
check "two ranks: status 0" test "$status" -eq 0
check "each size is printed, with both times, their ratio and who serves" \
    test "$(grep -Ec '^ +[0-9]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[a-z-]+ +[a-z0-9]+ +(coll/gpuring|previous)$' "$work/out")" -eq 4
check "the first line of the file is the version's" \
    test "$(head -n 1 "$file")" = "gpuring-tuning 1"
check "from size 0 on, without an end" \
    sh -c "grep -Eq ' bytes=(\*|0-[0-9]+) ' '$file' && grep -Eq ' bytes=(\*|[0-9]+-) ' '$file'"
cp "$file" "$work/two"
two=$(count 2)

# Run with a slow coll/gpuring. Try again if other jobs on the machine have slowed the previous component
# down even more.
tune_slow() { # ARGS...
    for _ in 1 2 3 4 5; do
        tune 3 "$slow" "$@"
        ! { has 3 previous && test "$(count 3)" -eq 1; } || break
    done
}
tune_slow -b 4 -e 64 -f 16
check "where ours is slow, the previous component is named for all sizes" has 3 previous
check "and nothing else" test "$(count 3)" -eq 1
check "rules for other ranks are kept" \
    test "$(grep ' ranks=2 ' "$file")" = "$(grep ' ranks=2 ' "$work/two")"
tune_slow -b 4 -e 4
check "measured again: rules of the same shape are replaced" \
    test "$(count 3)" -eq 1 -a "$(count 2)" -eq "$two"

# The component uses the file.
# shellcheck disable=SC2086
run 100 "$MPIRUN" -n 3 --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
    --mca coll_gpuring_verbose 1 --mca coll_gpuring_tuning_file "$file" "$perf" -b 4 -e 64K -f 16 $quick
check "the component takes the file" \
    says "\[tuning\] .*rank 0 of 3: .*$file, .*: allreduce \* previous"
check "and leaves these sizes to the previous component" \
    test "$(grep -c 'other (fallback)$' "$work/out")" -eq 4
run 100 "$MPIRUN" -n 2 --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
    --mca coll_gpuring_verbose 1 --mca coll_gpuring_tuning_file "$file" "$perf" -b 4 -e 4
check "the rules for 2 ranks are found, too" \
    says "\[tuning\] .*rank 0 of 2: .*$file, .*: allreduce [*0]"

# The other collectives.
cp "$file" "$work/allreduce"
tune 2 "" -c all -b 64 -e 64
for collective in bcast reduce scan exscan allgather reduce_scatter alltoall gather scatter; do
    check "all collectives: $collective has a rule" \
        test "$(grep -c "^$collective memory=host nodes=1 ranks=2 bytes=\* " "$file")" -eq 1
done
check "allreduce's rules for other ranks are kept" \
    test "$(grep ' ranks=3 ' "$file")" = "$(grep ' ranks=3 ' "$work/allreduce")"
cp "$file" "$work/all"
tune 2 "" -c allgather -b 64 -e 64
check "one collective alone: the others' rules are kept" \
    test "$(grep -v ^allgather "$file" | sort)" = "$(grep -v ^allgather "$work/all" | sort)"
cat >"$file" <<'END'
gpuring-tuning 1
bcast memory=host nodes=1 ranks=2 bytes=0-99 previous
bcast memory=host nodes=1 ranks=2 bytes=100- ring ll
allgather memory=host nodes=1 ranks=2 bytes=0-2048 ring ll128
gather memory=* nodes=* ranks=* bytes=5000- previous
END
served() { # COLLECTIVE BYTES BY: gpuring-perf says so
    # shellcheck disable=SC2086
    run 100 "$MPIRUN" -n 2 --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
        --mca coll_gpuring_tuning_file "$file" "$perf" -c "$1" -b "$2" -e "$2" $quick
    check "$1 of $2 bytes is served by $3" says "^ +$2 .* $3"
}
served bcast 64 'other \(fallback\)'
served bcast 128 'gpuring ring/ll '
served allgather 2048 'gpuring ring/ll128 '
served allgatherv 2048 'gpuring ring/ll128 '
served allgather 4096 'gpuring direct/'
served gather 4096 'gpuring direct/'
served gather 8192 'other \(fallback\)'
served gatherv 64 'other \(fallback\)' # whose counts not all ranks know

# Lines that a user has written must be kept.
cat >"$file" <<'END'
# by hand

 gpuring-tuning 1 # the version
# for all others
allreduce memory=host nodes=1 ranks=3 bytes=0-99 ring
allreduce memory=host nodes=1 ranks=2-3 bytes=* tree
allreduce memory=cuda nodes=1 ranks=3 bytes=* tree
END
tune_slow -b 4 -e 4
sed 's/ *# time of.*//' "$file" >"$work/stripped"
cat >"$work/expected" <<'END'
# by hand

 gpuring-tuning 1 # the version
allreduce memory=host nodes=1 ranks=3 bytes=* previous
# for all others
allreduce memory=host nodes=1 ranks=2-3 bytes=* tree
allreduce memory=cuda nodes=1 ranks=3 bytes=* tree
END
check "comments and rules of other shapes stay, new rules stand in front of them" \
    sh -c "diff '$work/expected' '$work/stripped' >>'$work/out'"

# Two simulated nodes.
run 200 "$MPIRUN" -n 2 --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
        --mca coll_gpuring_check data "$top_srcdir/test/mpi/as_nodes.sh" 2 2 \
        "$perf" --tuning "$file" --settle 0 -n 20 --rounds 3 -b 4 -e 4
if says '\[cannot-tune\]'; then
    skip "built without a network" "two nodes"
else
    check "two nodes are told apart from one" \
        grep -Eq '^allreduce memory=host nodes=2 ranks=2 bytes=\* [a-z]' "$file"
fi

# Mistakes are refused before anything is measured, and the file does not change.
echo "something else" >"$file"
tune 2 "" -e 8
refused "$file, line 1: \[bad-version\]" "a file that is no tuning file"
check "it is not overwritten" test "$(cat "$file")" = "something else"
rm "$file"
bad_files 1
sed -i '/^missing /d' "$work/bad/list" # it would be made
while read -r name pattern; do
    file=$work/bad/$name
    tune 2 "" -e 8
    refused "$pattern" "$name"
done <"$work/bad/list"
file=$work/interrupted
run 60 timeout -s KILL 5 "$MPIRUN" -n 2 --mca coll_gpuring_priority 90 --mca coll_gpuring_device host \
    "$perf" --tuning "$file" --settle 60000
check "a measurement that is interrupted leaves no file" \
    test "$(find "$work" -name 'interrupted*' | wc -l)" -eq 0
file=$work/nowhere/tuning
tune 2 "" -e 8
refused "\[cannot-write\] .*$file" "a folder that is not there"
file=$work/tuning
tune 2 "" -c iallreduce
refused '\[option-conflict\]' "another form of a collective"
tune 2 "" -c all -p
refused '\[option-conflict\] --collective all' "all collectives in place"
tune 2 "" -d float,double
refused '\[option-conflict\]' "several types"
tune 2 "" -j "$work/json"
refused '\[option-conflict\] .*--json' "--json, too"
tune 2 "" --rounds 1001
refused '\[bad-option\] --rounds' "very many rounds"
tune 1 "" -e 8
refused '\[cannot-tune\]' "one rank"
run 60 "$MPIRUN" -n 2 --mca coll_gpuring_priority 0 "$perf" --tuning "$file" -e 8
refused '\[cannot-tune\] .*start gpuring-perf with gpuring-run' "a component that is not asked to serve"
run 60 "$MPIRUN" -n 2 --mca coll '^gpuring' "$perf" --tuning "$file" -e 8
refused '\[cannot-tune\] .*mca_base_component_path.*gpuring-run' "without the component"
check "no file is left by what was refused" sh -c "[ -z \"\$(ls '$work' | grep '^tuning')\" ]"

if [ ! -e "$top_builddir/test/standin/.libs/libcuda.so.1" ]; then
    skip "built without CUDA: there is no device layer to test" "GPU buffers"
    finish
fi
use_gpus 2
export LD_LIBRARY_PATH="$GPURING_TEST_DRIVER${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
tune 2 "$slow" -m cuda -b 4 -e 64K -f 128
check "GPU buffers on the stand-in: status 0" test "$status" -eq 0
check "the previous component, to which they are staged, is named where ours is slow" \
    grep -Eq '^allreduce memory=cuda nodes=1 ranks=2 bytes=.* previous' "$file"
tune 2 "" -m cuda -b 4 -e 4
check "ll128 is not tried there" lacks 'll128'
run 60 "$MPIRUN" -n 2 --mca coll_gpuring_priority 90 "$perf" -m cuda -b 4 -e 4 -n 3
check "without a tuning file: status 0" test "$status" -eq 0
check "its CUDA context stays until MPI_Finalize" sh -c "! grep context-destroyed '$work/out'"
finish
