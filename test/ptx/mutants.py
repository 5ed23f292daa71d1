#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
"""
Weaken each fence, acquire, release, barrier and line access of the kernels, one at a time, and check that
memory_order detects it. Prints a table in Markdown for doc/results/memory-order.md.

    mutants.py PTX MEMORY_ORDER [--only REGEX] [--part I/N] [--jobs N]

PTX is a file with line information (nvcc -lineinfo). Copies of a site that were inlined several times into
a kernel are weakened together. --part runs every Nth mutant, beginning with the Ith. As many mutants run
simultaneously as there are processors, unless --jobs specifies another number. If a mutant survives all
cases, the exit status is 1.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

PROTOCOLS = ("simple", "ll", "ll128")
CASES = 80  # the first one that fails ends the run
SECONDS = 900

# Patterns and their replacements. None removes the whole instruction.
WEAKER = (
    (r"fence\.acq_rel\.sys", (("no fence", None), ("fence of one GPU", "fence.acq_rel.gpu"))),
    (r"ld\.acquire\.sys", (("relaxed", "ld.relaxed.sys"), ("acquire of one GPU", "ld.acquire.gpu"))),
    (r"ld\.relaxed\.sys", (("ordinary", "ld"),)),
    (r"st\.relaxed\.sys", (("ordinary", "st"), ("of one GPU", "st.relaxed.gpu"))),
    (r"ld\.volatile(?=\.global\.(v2\.)?u64.*)", (("ordinary", "ld"),)),
    (r"st\.volatile", (("ordinary", "st"),)),
    (r"bar\.sync", (("no barrier", None),)),
    (r"bar\.arrive", (("no barrier", None),)),
    (r"bar\.warp\.sync", (("no barrier", None),)),
    (r"bar\.red\.and\.pred\s+(%p\d+), 0, (%p\d+)", (("no barrier", r"mov.pred \1, \2"),)),
    (r"vote\.sync\.all\.pred\s+(%p\d+), (%p\d+), %r\d+", (("no vote", r"mov.pred \1, \2"),)),
)


def read_lines(path):
    """Return the instructions of the kernels that memory_order uses: text, kernel, place."""
    files, lines, kernel, place, skip, callers = {}, [], None, None, False, {}
    with open(path, encoding="utf-8") as ptx:
        text = ptx.read().split("\n")
    for line in text:
        found = re.match(r'\s*\.file\s+(\d+) "(.*)"', line)
        if found:
            files[int(found.group(1))] = found.group(2)
    for line in text:
        found = re.match(r"\.visible \.entry gpuring_(\w+?)_(\w+)\(", line)
        if found:
            kernel = found.group(1) if found.group(2) == "sum_u64" else None
            skip = kernel is None
        if re.match(r"\s*\.section", line):
            break
        found = re.match(r"\s*\.loc\s+(\d+) (\d+) \d+(?:.*inlined_at (\d+) (\d+))?", line)
        if found:
            place = (files[int(found.group(1))], int(found.group(2)))
            if found.group(3):
                callers[place] = (files[int(found.group(3))], int(found.group(4)))
            place = chain_of(place, callers)
        elif not skip and not re.match(r"\s*\.file", line):
            lines.append((line, kernel, place))
    return lines


def chain_of(place, callers):
    """Return the place of an instruction, followed by the place where that was inlined, and so on."""
    chain = [place]
    while chain[-1] in callers and callers[chain[-1]] not in chain:
        chain.append(callers[chain[-1]])
    return chain


def site_of(place):
    """Return the source line: the caller of a function of exec_cuda.h or of the toolkit."""
    for path, number in place:
        if os.path.basename(path) != "exec_cuda.h" and "/kernels/" in path:
            break
    with open(path, encoding="utf-8") as source:
        text = source.read().split("\n")[number - 1].strip()
    return "%s:%d" % (os.path.basename(path), number), text


def find_mutants(lines):
    """Return {(protocol, place, source, instruction, change): [(line, new text)]}."""
    mutants = {}
    for i, (line, kernel, place) in enumerate(lines):
        for pattern, changes in WEAKER if kernel else ():
            if not re.search(pattern, line):
                continue
            name = re.search(pattern, line).group(0).split()[0]
            if "volatile" in name and os.path.basename(place[0][0]).endswith(".cu"):
                continue  # tables, copied at the beginning
            for what, new in changes:
                text = "" if new is None else re.sub(pattern, new, line)
                key = (kernel,) + site_of(place) + (name, what)
                mutants.setdefault(key, []).append((i, text))
    return mutants


def run(program, path, *options):
    """Return the message of memory_order, or None if it detects nothing."""
    command = [program, path, "--cases", str(CASES), "--protocol", *options]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=SECONDS, universal_newlines=True, check=False)
    except subprocess.TimeoutExpired:
        return "does not end"
    if done.returncode == 0:
        return None
    seed = re.search(r"not ok - seed (\d+)", done.stdout)
    text = done.stdout.strip().split("\n")[-1].lstrip("# ")
    return "seed %s: %s" % (seed.group(1), text) if seed else text


def kind_of(message):
    """Return a short form of a message."""
    for text, kind in (("has accessed since the last barrier", "race within a block"),
                       ("neither is ordered", "access without order"),
                       ("data of a line whose flag", "line with old data"),
                       ("is wrong", "wrong result"), ("another size", "old size"),
                       ("lanes that never come", "warp does not meet"),
                       ("barrier", "barrier that is not met"),
                       ("cannot go on", "barrier that is not met"),
                       ("no thread has written", "shared memory that is not written"),
                       ("to their ends", "no end"), ("not end", "no end")):
        if text in message:
            seed = re.match(r"seed (\d+)", message)
            return kind + (", seed %s" % seed.group(1) if seed else "")
    return message


def try_mutant(program, lines, key, changes):
    """Run a mutant. Return its row of the table, and true if it survives."""
    text = [line for line, _, _ in lines]
    for i, new in changes:
        text[i] = new
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as mutant:
        mutant.write("\n".join(text) + "\n")
        mutant.flush()
        message = run(program, mutant.name, key[0]) or run(program, mutant.name, key[0], "--stops")
        if message is None and key[0] == "simple":
            message = run(program, mutant.name, "mapped") or run(program, mutant.name, "mapped", "--stops")
    row = (key[0], key[1], "`%s`" % key[2].replace("|", "\\|"), key[3], key[4], len(changes),
           "**survived**" if message is None else kind_of(message))
    return "| %s |" % " | ".join(map(str, row)), message is None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("ptx")
    parser.add_argument("memory_order")
    parser.add_argument("--only", default="", help="run the mutants whose row matches an expression")
    parser.add_argument("--part", default="1/1", help="run every Nth mutant, beginning with the Ith (I/N)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="mutants that run simultaneously")
    options = parser.parse_args()
    first, step = map(int, options.part.split("/"))
    lines = read_lines(options.ptx)
    mutants = sorted(find_mutants(lines).items())
    mutants = [m for m in mutants if re.search(options.only, " ".join(m[0]))][first - 1::step]
    survivors = 0
    print("| protocol | where | source | instruction | changed to | sites | verdict |")
    print("|---|---|---|---|---|--:|---|")
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for row, survives in pool.map(lambda m: try_mutant(options.memory_order, lines, *m), mutants):
            survivors += survives
            print(row, flush=True)
    print("\n%d mutants, %d survived." % (len(mutants), survivors))
    return 1 if survivors else 0


sys.exit(main())
