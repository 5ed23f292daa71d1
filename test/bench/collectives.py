#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
"""collectives.py FOLDER RANKS: print the measurements of collectives.sh as Markdown.

The time of a job is its lower quartile, and the time of a program is the minimum over the rounds. A
virtual machine may move to other cores between jobs, but each program gets good cores in some round.
"""
import collections
import glob
import os
import statistics
import sys

NAMES = ["gpuring", "tuned", "sm", "mpich"]


def read(folder):
    """Return {collective: {bytes: {name: {round: microseconds}}}}."""
    times = collections.defaultdict(
        lambda: collections.defaultdict(lambda: collections.defaultdict(dict)))
    for path in glob.glob(os.path.join(folder, "*.txt")):
        name, collective, number = os.path.basename(path).split(".")[:3]
        with open(path, encoding="utf-8") as file:
            for line in file:
                fields = line.split()
                times[collective][int(fields[0])][name][number] = float(fields[1])
    return times


def row_of(names):
    """Return the times of a size, and the ratios of Open MPI's best component and of MPICH to ours."""
    ours, *others = [min(names[n].values()) if names.get(n) else None for n in NAMES]
    tuned, sm, mpich = others
    stock = [time for time in (tuned, sm) if time]
    return [ours] + others, [min(stock) / ours if stock else None, mpich / ours if mpich else None]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    means = []
    for collective, sizes in sorted(read(sys.argv[1]).items()):
        print(f"## {collective}, {sys.argv[2]} ranks\n")
        print("| bytes | gpuring us | tuned us | sm us | MPICH us | best of Open MPI / ours "
              "| MPICH / ours |\n|--:|--:|--:|--:|--:|--:|--:|")
        ratios = []
        for size, names in sorted(sizes.items()):
            cells, both = row_of(names)
            text = [f"{c:.2f}" if c is not None else "" for c in cells + both]
            print(f"| {size} | " + " | ".join(text) + " |")
            ratios.append((size, both))
        print()
        for which, least in ((0, 0), (0, 4096), (1, 4096)):
            values = [r[which] for size, r in ratios if size >= least and r[which]]
            means.append(statistics.geometric_mean(values) if values else 0)
        means.append(collective)
    print("| Collective | all sizes | from 4 KiB | against MPICH, from 4 KiB |\n|---|--:|--:|--:|")
    for i in range(0, len(means), 4):
        print(f"| {means[i + 3]} | {means[i]:.2f} | {means[i + 1]:.2f} | {means[i + 2]:.2f} |")


main()
