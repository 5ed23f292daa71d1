# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
"""layers.py [BUILD]: check that the parts of the source tree use each other only as arrows.txt permits.

Prints each include that arrows.txt does not permit and, given a finished build folder, each such call.
Also prints circles: none are permitted between parts, and none of more than four files within a part.
"""

import fnmatch
import os
import re
import subprocess
import sys

LARGEST_CIRCLE = 4


def read_rows(path):
    rows = []
    for line in open(path):
        line = line.split("#")[0].strip()
        if line:
            name, rest = line.split("=", 1)
            patterns, uses = rest.split(":")
            rows.append((name.strip(), patterns.split(), set(uses.split())))
    return rows


def part_of(rows, file):
    for name, patterns, uses in rows:
        if any(matches(file, pattern) for pattern in patterns):
            return name, uses
    return None, None


def matches(file, pattern):
    """Match a shell pattern. A pattern that ends with /* also matches files in subfolders."""
    if pattern.endswith("/*"):
        return file.startswith(pattern[:-1])
    return os.path.dirname(file) == os.path.dirname(pattern) and fnmatch.fnmatch(file, pattern)


def sources():
    for top in ("mca", "kernels"):
        for folder, _, files in os.walk(top):
            for file in files:
                if file.endswith((".c", ".h", ".cu")):
                    yield os.path.join(folder, file)


def includes(file):
    for line in open(file):
        found = re.match(r' *# *include *"((?:mca|kernels)/[^"]*)"', line)
        if found:
            yield found.group(1)


def objects(build):
    """Yield (source, object) for each source file of the components and libraries."""
    for top in ("mca", "kernels"):
        for folder, _, files in os.walk(os.path.join(build, top)):
            if os.path.basename(folder) != ".libs":
                continue
            source_folder = os.path.relpath(os.path.dirname(folder), build)
            for file in files:
                stem = re.sub(r"^[a-z_0-9]*_la-", "", file)
                source = os.path.join(source_folder, stem[:-2] + ".c")
                if file.endswith(".o") and os.path.exists(source):
                    yield source, os.path.join(folder, file)


def calls(build):
    """Yield (caller, callee, function) for each function that one file calls and another one defines."""
    defined, used = {}, {}
    for source, file in objects(build):
        for line in subprocess.run(["nm", file], capture_output=True, text=True).stdout.splitlines():
            kind, name = line.split()[-2:]
            if kind == "T":
                defined[name] = source
            elif kind == "U":
                used.setdefault(source, set()).add(name)
    for source, names in sorted(used.items()):
        for name in sorted(names):
            if name in defined and defined[name] != source:
                yield source, defined[name], name


def circles(arrows):
    """Return the strongly connected sets of more than one node (Tarjan's algorithm)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for to in sorted(arrows.get(node, ())):
            if to not in index:
                visit(to)
                low[node] = min(low[node], low[to])
            elif to in stack:
                low[node] = min(low[node], index[to])
        if low[node] == index[node]:
            members = []
            while not members or members[-1] != node:
                members.append(stack.pop())
            if len(members) > 1:
                found.append(sorted(members))

    for node in sorted(arrows):
        if node not in index:
            visit(node)
    return found


def main():
    rows = read_rows(os.path.join(os.path.dirname(os.path.abspath(__file__)), "arrows.txt"))
    build = sys.argv[1] if len(sys.argv) > 1 and sys.argv[1] else None
    sys.setrecursionlimit(10000)
    parts, between = {}, {}
    for file in sources():
        parts[file], _ = part_of(rows, file)
        if parts[file] is None:
            print(f"{file}: in no row of arrows.txt")
    allowed = {name: uses for name, _, uses in rows}
    for name in allowed:
        unknown = allowed[name] - set(allowed)
        if unknown:
            print(f"arrows.txt: {name} may use {' '.join(sorted(unknown))}, which are no parts")

    def arrow(source, target, how):
        a, b = parts.get(source), parts.get(target)
        if a and b and a != b and b not in allowed[a]:
            print(f"{source} ({a}) {how} ({b})")

    for file in sorted(parts):
        for target in includes(file):
            arrow(file, target, f"includes {target}")
    for circle in circles(allowed):
        print("arrows.txt: a circle of parts: " + " ".join(circle))
    if build is None:
        return
    for source, target, name in calls(build):
        arrow(source, target, f"calls {name} of {target}")
        if parts[source] == parts[target]:
            between.setdefault(source, set()).add(target)
    for circle in circles(between):
        if len(circle) > LARGEST_CIRCLE:
            print(f"a circle of {len(circle)} files: " + " ".join(circle))


main()
