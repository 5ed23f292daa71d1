#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# walk.py BUILD [-v]: how often a call moves from file to file. Prints for each call the number of
# moves, of different files, and of returns to a file that it was in before; with -v also the files.
# A sequence that repeats, such as a loop that waits, counts once. BUILD has been configured with
# CFLAGS="-O0 -g -finstrument-functions" and made with `make all check TESTS= test/bench/walk`.
import os
import subprocess
import sys
import tempfile

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
        at = max(file.rfind("/mca/"), file.rfind("/kernels/"))
        if at >= 0 and files[-1:] != [file[at + 1:]]:
            files.append(file[at + 1:])
        for length in range(2, len(files) // 2 + 1):
            if files[-length:] == files[-2 * length:-length]:
                del files[-length:]
                break
    return files


for case, device, text in CASES:
    with tempfile.TemporaryDirectory() as work:
        traces = [os.path.join(work, name) for name in ("first", "again")]
        environment = dict(
            os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
            OMPI_MCA_mca_base_component_path=build + "/.libs:SYSTEM_DEFAULT:USER_DEFAULT",
            OMPI_MCA_coll_gpuring_algorithm="previous" if case == "alltoallv" else "auto",
            GPURING_TEST_MEMORY=device, GPURING_TEST_DRIVER=build + "/test/standin/.libs",
            GPURING_STANDIN_GPUS="2")
        subprocess.run(["mpirun", "-n", "2", "--oversubscribe", "--mca", "coll_gpuring_priority", "90",
                        "--mca", "coll_gpuring_device", device, build + "/test/bench/walk", case,
                        *traces], check=True, env=environment, stdout=subprocess.DEVNULL)
        for trace, name in zip(traces, ("first", "further")):
            files = files_of(trace)
            print(f"{text.format(name):42} {len(files):3} moves  {len(set(files)):2} files  "
                  f"{len(files) - len(set(files)):3} returns")
            if "-v" in sys.argv:
                print("    " + "\n    ".join(files))
