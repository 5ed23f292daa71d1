# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
"""verbs.py FOLDER: print the results of verbs.sh as Markdown."""
import collections
import glob
import json
import os
import statistics
import sys

LARGE = 4 << 20  # bytes: from here on an allreduce is a matter of bandwidth


def allreduces(folder, name):
    """Return {bytes: [seconds]}: the mean time of a call in each round."""
    times = collections.defaultdict(list)
    for path in glob.glob(os.path.join(folder, name + ".*.json")):
        with open(path, encoding="utf-8") as file:
            for row in json.load(file)["results"]:
                if row["wrong"]:
                    sys.exit(f"verbs.py: {row['wrong']} wrong elements in {path}")
                times[row["size_bytes"]].append(row["time_us"] / 1e6)
    return times


def perftest(folder, name, column):
    """Return one column of the result line of each run of perftest."""
    values = []
    for path in glob.glob(os.path.join(folder, name + ".*.perftest")):
        with open(path, encoding="utf-8") as file:
            rows = [line.split() for line in file]
        values += [float(row[column]) for row in rows
                   if len(row) > 3 and row[0].isdigit() and row[1].isdigit()]
    return values


def exchanges(folder):
    """Return {bytes: [seconds]}: the time of a bare exchange in each round."""
    times = collections.defaultdict(list)
    for path in glob.glob(os.path.join(folder, "exchange.*.txt")):
        with open(path, encoding="utf-8") as file:
            for line in file:
                size, microseconds = line.split()
                times[int(size)].append(float(microseconds) / 1e6)
    return times


def print_compared(folder, name):
    """Print the results of gpuring-perf --compare."""
    rows, rounds = [], None
    with open(os.path.join(folder, "compare." + name), encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if line.startswith("# gpuring-perf --compare:"):
                rounds = words[-2]
            if words and words[0].isdigit():
                size, _, _, ratio, low, high = words[:6]
                served = words[7] if words[6] == "gpuring" else "TCP"
                rows.append((size, float(ratio), low, high, served))
    if not rows:
        sys.exit("verbs.py: a measurement is missing")
    print(f"| bytes | TCP / {name} | with 95 % confidence | served by |")
    print("|---:|---:|---|---|")
    for size, ratio, low, high, served in rows:
        print(f"| {size} | {ratio:.2f} | {low} to {high} | {served} |")
    print(f"\n{rounds} rounds in one job; geometric mean of the ratios "
          f"{statistics.geometric_mean(row[1] for row in rows):.3f}.\n")


def print_rounds(folder):
    ours, tcp = allreduces(folder, "gpuring"), allreduces(folder, "tcp")
    latency = perftest(folder, "write_lat", 4)  # typical, microseconds
    bandwidth = [b / 2 for b in perftest(folder, "write_bw", 3)]  # MB/s, of each direction
    bare = exchanges(folder)
    if not ours or not tcp or not latency or not bandwidth or not bare:
        sys.exit("verbs.py: a measurement is missing")
    middle = statistics.median
    print("| bytes | TCP / gpuring | TCP / bare exchange | bare exchange / gpuring | "
          "allreduce / ib_write_lat | of ib_write_bw -b |")
    print("|---:|---:|---:|---:|---:|---:|")
    for size in sorted(ours):
        mine = middle(ours[size])
        small = f"{mine * 1e6 / middle(latency):.2f}" if size <= 4096 else ""
        # Two ranks: each sends and receives the vector once.
        large = f"{size / mine / (middle(bandwidth) * (1 << 20)):.2f}" if size >= LARGE else ""
        theirs, floor = middle(tcp[size]), middle(bare[size])
        print(f"| {size} | {theirs / mine:.2f} | {theirs / floor:.2f} | {floor / mine:.2f} | "
              f"{small} | {large} |")
    print(f"\n{len(latency)} runs of ib_write_lat, slowest / fastest "
          f"{max(latency) / min(latency):.1f}; {len(bandwidth)} of ib_write_bw, "
          f"{max(bandwidth) / min(bandwidth):.1f}.")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = False
    for name in ("tuned", "verbs"):
        if os.path.exists(os.path.join(sys.argv[1], "compare." + name)):
            print_compared(sys.argv[1], name)
            found = True
    if glob.glob(os.path.join(sys.argv[1], "gpuring.*.json")):
        print_rounds(sys.argv[1])
        found = True
    if not found:
        sys.exit("verbs.py: a measurement is missing")


main()
