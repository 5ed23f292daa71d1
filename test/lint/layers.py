# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
"""layers.py [BUILD]: check that the parts of the source tree use each other only as arrows.txt permits.

Prints each include that arrows.txt does not permit and, given a finished build folder, each such use of
a function or variable. Also prints circles of parts and of files.
"""

import fnmatch
import os
import re
import subprocess
import sys

TOPS = ("mca", "kernels", "tools")
DEFINED = "TDBRVWGS"  # letters of nm for global symbols that a file defines


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
    for top in TOPS:
        for folder, _, files in os.walk(top):
            for file in files:
                if file.endswith((".c", ".h", ".cu")):
                    yield os.path.join(folder, file)


def includes(file):
    for line in open(file):
        found = re.match(r' *# *include *"([^"]*)"', line)
        if found:
            beside = os.path.join(os.path.dirname(file), found.group(1))
            yield beside if os.path.exists(beside) else found.group(1)


def source_of(folder, object_file):
    """Return the source file that an object was compiled from. Automake may have prepended "target-"."""
    stem = object_file[:-2]
    for name in (stem, stem.partition("-")[2]):
        source = os.path.join(folder, name + ".c")
        if name and os.path.exists(source):
            return source
    return None


def objects(build):
    """Yield (source, object) for each source file that has not changed since it was compiled."""
    for top in TOPS:
        for folder, _, files in os.walk(os.path.join(build, top)):
            inner = folder.removesuffix("/.libs")
            for file in files:
                source = source_of(os.path.relpath(inner, build), file) if file.endswith(".o") else None
                path = os.path.join(folder, file)
                if source and os.path.getmtime(source) <= os.path.getmtime(path):
                    yield source, path


def uses(build):
    """Yield (user, definer, symbol) for each function and variable that one file uses and another defines."""
    defined, used = {}, {}
    for source, file in objects(build):
        for line in subprocess.run(["nm", file], capture_output=True, text=True).stdout.splitlines():
            kind, name = line.split()[-2:]
            if kind in DEFINED:
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
    allowed = {name: names for name, _, names in rows}
    for name in allowed:
        unknown = allowed[name] - set(allowed)
        if unknown:
            print(f"arrows.txt: {name} may use {' '.join(sorted(unknown))}, which are no parts")

    def arrow(source, target, how):
        a, b = parts.get(source), parts.get(target)
        if a and b and a != b and b not in allowed[a]:
            print(f"{source} ({a}) {how} ({b})")
        if a and b:
            between.setdefault(source, set()).add(target)

    for file in sorted(parts):
        for target in includes(file):
            arrow(file, target, f"includes {target}")
    for circle in circles(allowed):
        print("arrows.txt: a circle of parts: " + " ".join(circle))
    if build is None:
        return
    for source, target, name in uses(build):
        arrow(source, target, f"uses {name} of {target}")
    for circle in circles(between):
        print(f"a circle of {len(circle)} files: " + " ".join(circle))


main()
