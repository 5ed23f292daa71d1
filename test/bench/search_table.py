#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
"""Compare the channel search with recorded answers: bandwidth reached and CPU time.

search_table.py GPURING-TOPO TOPOLOGIES prints a table in Markdown. For every file of
TOPOLOGIES/expected it has the total bandwidth of rings and trees (channels x bandwidth of a channel;
between nodes if there are several), and the CPU milliseconds of graph, paths and search (median of 5
runs). The recorded value is next to each of them.
"""
import json
import pathlib
import statistics
import subprocess
import sys

RUNS = 5


def total(graph, nodes):
    return graph["nChannels"] * graph["bwInter" if nodes > 1 else "bwIntra"]


def report(tool, topology, nodes, p2p):
    command = [tool, "report", "--topo", str(topology), "--nodes", str(nodes), "--p2p", p2p]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    tool, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    worst, ours_ms, recorded_ms = 1e9, 0.0, 0.0
    print("| machine | nodes | P2P | ring GB/s | recorded | tree GB/s | recorded | CPU ms "
          "| recorded | ratio |")
    print("|---|--:|---|--:|--:|--:|--:|--:|--:|--:|")
    for path in sorted((folder / "expected").glob("*.json")):
        expected = json.loads(path.read_text())
        name, nodes = expected["name"], expected["nodes"]
        p2p = "no" if ".nop2p." in path.name else "ok"
        ours = [report(tool, folder / f"{name}.xml", nodes, p2p) for _ in range(RUNS)]
        cpu = statistics.median(sum(r["search_cpu_ms"].values()) for r in ours)
        recorded = sum(expected["search_cpu_ms"].values())
        row = []
        for kind in "ring", "tree":
            mine = total(ours[0]["graphs"][kind], nodes)
            theirs = total(expected["graphs"][kind], nodes)
            worst = min(worst, mine / theirs)
            row += [f"{mine:.1f}", f"{theirs:.1f}"]
        ours_ms += cpu
        recorded_ms += recorded
        print(f"| {name} | {nodes} | {p2p} | " + " | ".join(row) +
              f" | {cpu:.2f} | {recorded:.2f} | {cpu / recorded:.3f} |")
    print(f"\nSmallest ratio of bandwidth to the recorded one: {worst:.3f}. "
          f"CPU time in all: {ours_ms:.1f} ms, recorded {recorded_ms:.1f} ms, "
          f"ratio {ours_ms / recorded_ms:.4f}.")


if __name__ == "__main__":
    main()
