#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
"""compare.py FOLDER TITLE: print the JSON files of compare.sh as a Markdown table, and write
FOLDER/compare.dat for the plot. Each figure is the median over the rounds. If two builds of
coll/gpuring are compared, it is the minimum, because other load on the machine affects it least."""
import collections
import glob
import json
import os
import statistics
import sys


def read(folder):
    """Return {component: {(bytes, type, op): [microseconds of each round]}}, the number of wrong
    elements, and the component that served each call."""
    times = collections.defaultdict(lambda: collections.defaultdict(list))
    wrong, served = 0, {}
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        name = os.path.basename(path).split(".")[0]
        with open(path, encoding="utf-8") as file:
            for row in json.load(file)["results"]:
                key = (row["size_bytes"], row["type"], row["op"])
                times[name][key].append(row["time_us"])
                wrong += row["wrong"] or 0
                if name == "gpuring":
                    served[key] = row["served_by"]
    return times, wrong, served


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, title = sys.argv[1:]
    times, wrong, served = read(folder)
    ours = times.pop("gpuring", None)
    if not ours or not times:
        sys.exit("compare.py: no results of gpuring, or none to compare with")
    print(f"{title}\n")
    middle = min if "base" in times else statistics.median
    print("| bytes | type | op | compared with | us | gpuring us | ratio | served by |")
    print("|---:|---|---|---|---:|---:|---:|---|")
    ratios = []
    with open(os.path.join(folder, "compare.dat"), "w", encoding="utf-8") as data:
        for key in sorted(ours):
            others = {name: middle(rows[key]) for name, rows in times.items() if key in rows}
            if not others:
                continue
            best = min(others, key=others.get)
            mine = middle(ours[key])
            ratio = others[best] / mine
            ratios.append(ratio)
            size, kind, op = key
            print(f"| {size} | {kind} | {op} | {best} | {others[best]:.2f} | {mine:.2f} "
                  f"| {ratio:.2f} | {served[key]} |")
            data.write(f"{size} {others[best]} {mine} {ratio}\n")
    print(f"\nratio: the other time / gpuring time; minimum {min(ratios):.2f}, geometric mean "
          f"{statistics.geometric_mean(ratios):.2f}; wrong elements: {wrong}")


main()
