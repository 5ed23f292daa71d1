# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
"""Compare a report of gpuring-topo with the recorded report of the reference for the same machine.

report_compare.py REFERENCE.json REPORT.json: print each difference. The exit status is 1 if there is one.

- The machine and all paths are equal (classes and hops; bandwidths within 0.1 %).
- The report has every field of the reference.
- The bandwidth of the channels is at least that of the reference.
- Rings and trees are valid.
- For predictions see predictions()."""
import json
import sys

TOLERANCE = 0.1  # permitted relative difference of predictions
differences = 0


def differ(text):
    global differences
    print(text)
    differences += 1


def is_close(wanted, got):
    return abs(wanted - got) <= 1e-3 * abs(wanted)


def kind(value):
    return float if type(value) is int else type(value)


def shape(where, wanted, got):
    """Check that `got` has every field with the same type. Only first elements of arrays are compared."""
    if kind(wanted) is not kind(got):
        differ(f"{where}: missing or of another kind")
    elif isinstance(wanted, dict):
        for key, value in wanted.items():
            # Only the reference has reductions in switches. Our rules for LL128 differ. We search rings
            # and trees together.
            if not key.startswith("NVLS") and not any(word in key for word in
                                                      ("LL128", "searchRing", "searchTree")):
                shape(f"{where}.{key}", value, got.get(key))
    elif isinstance(wanted, list):
        if bool(wanted) != bool(got):
            differ(f"{where}: empty in one of them")
        elif wanted:
            shape(f"{where}[]", wanted[0], got[0])


def equal(key, reference, report):
    if reference.get(key) != report.get(key):
        differ(f"{key}: wanted {reference.get(key)}, got {report.get(key)}")


def paths(key, reference, report):
    wanted, got = reference.get(key, []), report.get(key, [])
    if [len(row) for row in wanted] != [len(row) for row in got]:
        differ(f"{key}: other rows or columns")
        return
    for i, row in enumerate(wanted):
        for j, (group, bandwidth, hops) in enumerate(row):
            other = got[i][j]
            if (group, hops) != (other[0], other[2]) or not is_close(bandwidth, other[1]):
                differ(f"{key}[{i}][{j}] differs")


def channels(pattern, reference, report):
    """Compare the bandwidth of all channels, within a node and, if there are several, between nodes."""
    wanted, got = reference["graphs"][pattern], report["graphs"][pattern]
    for name in ("bwIntra", "bwInter")[:2 if reference["nodes"] > 1 else 1]:
        bandwidth = got["nChannels"] * got[name]
        if bandwidth < 0.999 * wanted["nChannels"] * wanted[name]:
            differ(f"{pattern}: {name} of {bandwidth} GB/s, less than the reference")
    if len(got["channels"]) != got["nChannels"]:
        differ(f"{pattern}: not as many channels as stated")


def check_tree(up, down, ranks):
    """Check that there is one root, which every rank reaches, and that parents know their children."""
    if len(up) != ranks or len(down) != ranks:
        differ(f"a tree does not have {ranks} ranks")
        return
    if sum(parent < 0 for parent in up) != 1:
        differ("a tree does not have one root")
    for rank, parent in enumerate(up):
        if parent >= 0 and down[parent].count(rank) != 1:
            differ(f"rank {rank} is no child of its parent {parent}")
        at, steps = rank, 0
        while at >= 0 and steps <= ranks:
            at, steps = up[at], steps + 1
        if steps > ranks:
            differ(f"rank {rank} does not reach the root of its tree")
            return


def check_final(report):
    final, ranks = report["final"], report["ranks"]
    lists = [final["rings"], final["treeUp"], final["treeDown"]]
    if final["nChannels"] == 0 or any(len(each) != final["nChannels"] for each in lists):
        differ(f"final: not {final['nChannels']} rings and trees")
        return
    for ring, up, down in zip(*lists):
        if sorted(ring) != list(range(ranks)):
            differ(f"a ring does not visit each rank once: {ring}")
        check_tree(up, down, ranks)


def same_channels(pattern, reference, report):
    """Return true if the channels are equal in all respects that the cost model uses."""
    a, b = reference["graphs"][pattern], report["graphs"][pattern]
    return ((reference["nodes"] == 1 or
             reference["final"]["nChannels"] == report["final"]["nChannels"]) and
            all(is_close(a[key], b[key]) for key in ("nChannels", "bwIntra", "bwInter")) and
            all(a[key] == b[key] for key in ("pattern", "typeIntra", "typeInter")))


def predictions(reference, report):
    """With the same channels, the times must be those of the reference. With other channels, which have at
    least the same bandwidth, the best of ring and tree must not be slower. Exception: the reference's best
    uses LL128 and ours cannot. Channels that reach more NICs through more distant paths have more
    bandwidth, but these paths may split 128-byte stores."""
    wanted, got = reference["allreduce_model"], report["allreduce_model"]
    same = {name: same_channels(name.lower(), reference, report) for name in ("Ring", "Tree")}
    both, compared = all(same.values()), 0
    if len(wanted) != len(got) or not wanted:
        differ(f"allreduce_model has {len(got)} sizes, not {len(wanted)}")
        return
    for a, b in zip(wanted, got):
        equal("bytes", a, b)
        for key, us in a["us"].items():
            if same.get(key.split("/")[0]):
                compared += 1
                if not abs(b["us"].get(key, 0) - us) <= TOLERANCE * us:
                    differ(f"{key} at {a['bytes']} bytes: {b['us'].get(key)} us, not {us}")
        best, ours = a["best_ring_tree"], b["best_ring_tree"]["us"]
        excused = best["proto"] == "LL128" and not both
        if (not (0 < ours <= (1 + TOLERANCE) * best["us"] or (ours > 0 and excused)) or
                (both and ours < (1 - TOLERANCE) * best["us"])):
            differ(f"best at {a['bytes']} bytes: {ours} us, the reference says {best['us']}")
    print(f"{compared} predicted times compared")


def main():
    reference, report = (json.load(open(path, encoding="utf-8")) for path in sys.argv[1:3])
    shape("report", reference, report)
    for key in "name", "nodes", "ranks", "nvlink_p2p", "cpu", "gpus", "nets":
        equal(key, reference, report)
    for key in "gpu_to_gpu", "gpu_to_net", "net_to_gpu":
        paths(key, reference, report)
    for pattern in "ring", "tree":
        channels(pattern, reference, report)
    check_final(report)
    predictions(reference, report)
    for key in "ag_nvlink", "ar_nvlink", "ag_all", "ar_all":
        bound = report["bound"][key]
        if bound is not None and not bound > 0:
            differ(f"bound.{key} is neither null nor a bandwidth")
    return differences > 0


sys.exit(main())
