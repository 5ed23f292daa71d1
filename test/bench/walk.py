#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# walk.py BUILD [-v]: how often a call moves from one C file of the component to another. Prints for
# each call the number of moves, of different files, and of returns to a file that the call was in
# before; with -v also the files. A sequence that repeats, such as a loop that waits, counts once,
# and the run with the fewest moves counts. BUILD has been configured with
# CFLAGS="-O0 -g -finstrument-functions" and made with `make all check TESTS= test/bench/walk`.
import os
import subprocess
import sys
import tempfile

RUNS = 5
build = os.path.abspath(sys.argv[1])
CASES = (("allreduce", "host", "{} MPI_Allreduce of 8 bytes"),
         ("alltoallv", "cuda", "{} staged MPI_Alltoallv"), ("send", "cuda", "{} MPI_Send from a GPU"))


def files_of(trace):
    """The files of the functions in a trace, without repetitions."""
    lines = [line.split() for line in open(trace)]
    known = {}
    for library in {line[0] for line in lines}:
        offsets = sorted({line[1] for line in lines if line[0] == library})
        found = subprocess.run(["addr2line", "-e", library, *offsets], check=True, text=True,
                               capture_output=True).stdout.split("\n")
        known.update({(library, offset): line.split(":")[0] for offset, line in zip(offsets, found)})
    files = []
    for line in lines:
        file = known[tuple(line)]
        at = file.rfind("/mca/coll_gpuring/")
        if at >= 0 and file.endswith(".c") and files[-1:] != [file[at + 18:]]:
            files.append(file[at + 18:])
        for length in range(2, len(files) // 2 + 1):
            if files[-length:] == files[-2 * length:-length]:
                del files[-length:]
                break
    return files


def run(case, device, traces):
    environment = dict(
        os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        OMPI_MCA_mca_base_component_path=build + "/.libs:SYSTEM_DEFAULT:USER_DEFAULT",
        OMPI_MCA_coll_gpuring_algorithm="previous" if case == "alltoallv" else "auto",
        GPURING_TEST_MEMORY=device, GPURING_STANDIN_GPUS="2")
    if device == "cuda":
        environment["LD_LIBRARY_PATH"] = build + "/test/standin/.libs"
    subprocess.run(["mpirun", "-n", "2", "--oversubscribe", "--mca", "coll_gpuring_priority", "90",
                    "--mca", "coll_gpuring_device", device, build + "/test/bench/walk", case,
                    *traces], check=True, env=environment, stdout=subprocess.DEVNULL)
    return [files_of(trace) for trace in traces]


for case, device, text in CASES:
    with tempfile.TemporaryDirectory() as work:
        traces = [os.path.join(work, name) for name in ("first", "further")]
        runs = [run(case, device, traces) for _ in range(RUNS)]
    for i, name in enumerate(("first", "further")):
        files = min((both[i] for both in runs), key=len)
        print(f"{text.format(name):36} {len(files):3} moves  {len(set(files)):2} files  "
              f"{len(files) - len(set(files)):3} returns")
        if "-v" in sys.argv:
            print("    " + "\n    ".join(files))
