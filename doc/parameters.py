#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
"""Write doc/user/parameters.md from the tables in params.h and pvars.h, with the C preprocessor.

parameters.py [PAGE]: write PAGE (default: doc/user/parameters.md; "-": standard output).
"""
import os
import re
import shlex
import subprocess
import sys

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PARAMS = "mca/coll_gpuring/params.h"
PVARS = "mca/coll_gpuring/pvars.h"
UNITS = [(1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")]

HEAD = """# Parameters and performance variables

<!-- Made by doc/parameters.py from params.h and pvars.h. Change these, then run the script. -->

All names begin with `coll_gpuring_`. You can set the timeout, for example, in one of these ways:

    gpuring-run -n 4 --mca coll_gpuring_timeout 60 ./app       (or mpirun)
    export OMPI_MCA_coll_gpuring_timeout=60                    in the environment
    coll_gpuring_timeout = 60                                  in ~/.openmpi/mca-params.conf

Sizes may end in k, m or g. `ompi_info --param coll gpuring --level 9` prints the same table; [Install](install.md) describes
how ompi_info finds a component below a prefix. [Tuning](tuning.md) explains words such as slot and channel.

Level: 1 to 3 are for all users, 4 to 6 for tuning, 7 to 9 for developers. "Equal": the value must be the same on all ranks of a
communicator, which is checked when the communicator is connected. An MPI_T tool may set `algorithm`, `protocol`, `p2p_level` and
`gdr_level` before a communicator's first call. No other parameter can change after MPI_Init.

| Parameter | Default | Values | Level | Equal | Meaning |
|---|---|---|---|---|---|
"""

PVAR_HEAD = """
## Performance variables

MPI_T tools can read these variables, whose names begin with `coll_gpuring_`, too. They count events in this process since
MPI_Init, except those marked as levels (current values) and texts.

| Variable | Meaning |
|---|---|
"""


def definitions(path, seen):
    """Return the #define and #undef lines of a header, after those of the headers of ours that it includes."""
    if path in seen or path in ("gpuring_config.h", "mca/coll_gpuring/compat.h"):
        return []
    seen.add(path)
    with open(os.path.join(TOP, path), encoding="utf-8") as file:
        text = file.read().replace("\\\n", " ")
    found = []
    for line in re.sub(r"/\*.*?\*/", " ", text, flags=re.S).split("\n"):
        include = re.match(r'# *include "(.*)"', line)
        if include:
            found += definitions(include.group(1), seen)
        elif re.match(r"# *(define|undef) ", line):
            found.append(line)
    return found


def expand(lines, macro):
    """Return the expansion of a macro by the C preprocessor after these lines."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    done = subprocess.run(compiler + ["-E", "-P", "-w", "-x", "c", "-"], check=True,
                          input="\n".join(lines + ["@", macro]), capture_output=True, text=True)
    return done.stdout.split("@", 1)[1]


def entries(text, kinds):
    """Return the calls KIND(a, b, "c" "d") in text, as [kind, a, b, "cd"]."""
    found = []
    for match in re.finditer(r"\b(%s)\(" % "|".join(kinds), text):
        values, part, depth, position = [], "", 1, match.end()
        while depth > 0:
            string = re.match(r'"((?:[^"\\]|\\.)*)"', text[position:])
            char = text[position]
            if string:
                part += re.sub(r"\\(.)", r"\1", string.group(1))
                position += string.end() - 1
                # Skip white space between two strings that C concatenates.
                rest = text[position + 1:]
                position += len(rest) - len(rest.lstrip())
            elif char == "," and depth == 1:
                values.append(part.strip())
                part = ""
            else:
                depth += {"(": 1, ")": -1}.get(char, 0)
                part += char if depth > 0 else ""
            position += 1
        found.append([match.group(1)] + values + [part.strip()])
    return found


def size(number):
    for unit, name in UNITS:
        if number >= unit and number % unit == 0:
            return "%d %s" % (number // unit, name)
    return str(number)


def row(lines, entry):
    kind, name, default, level, scope = entry[:5]
    if kind == "CHOICE":
        values = entries(expand(lines, "GPURING_VALUES_%s(V)" % entry[5]), ["V"])
        values = [value[2] for value in values]
        default = values[int(default)]
        allowed = " ".join(values)
    elif kind == "TEXT":
        allowed = ""
    else:
        show = size if kind == "SIZE" else str
        default = show(int(default))
        allowed = "%s .. %s" % (show(int(entry[5])), show(int(entry[6])))
    equal = {"SHARED": "yes", "LOCAL": ""}[scope]
    return "| `%s` | %s | %s | %s | %s | %s |\n" % (name, default, allowed, level, equal, entry[-1])


def page():
    lines = definitions(PARAMS, set())
    table = entries(expand(lines, "GPURING_PARAMS(INT, SIZE, CHOICE, TEXT)"),
                    ["INT", "SIZE", "CHOICE", "TEXT"])
    text = HEAD + "".join(row(lines, entry) for entry in table) + PVAR_HEAD
    lines = definitions(PVARS, set())
    for name, note in (("GPURING_PVARS", ""), ("GPURING_NET_PVARS", ""),
                       ("GPURING_LEVEL_PVARS", " (level)"), ("GPURING_TEXT_PVARS", " (text)")):
        for entry in entries(expand(lines, name + "(X)"), ["X"]):
            text += "| `%s` | %s%s |\n" % (entry[1], entry[2], note)
    return text


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(TOP, "doc/user/parameters.md")
    if path.startswith("-") and path != "-":
        sys.exit(__doc__)
    if path == "-":
        sys.stdout.write(page())
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(page())


if __name__ == "__main__":
    main()
