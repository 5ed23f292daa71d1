#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
"""doc_paths.py: print each path and each message code that the documentation names although it does
not exist.

A path is text in `backquotes` that has a slash or the ending of a source file, and also the target
of a link. Paths are relative to the top of the tree, a component's folder or the page's folder. A
pattern (*, {a,b}) must match at least one file. A path may have a placeholder <name>, or begin with a
folder in CAPITALS that the reader chooses. A code is `[like-this]`.
"""
import glob
import os
import re
import sys

BASES = ["", "mca/coll_gpuring", "mca/topo_pci"]
ENDING = re.compile(r"\.(c|h|cu|sh|py|m4|mk|ac|am|md|txt|1)$")
PLAIN = re.compile(r"^(?![A-Z]+/)[A-Za-z0-9_.{},*/-]+$")
# A path in plain text without backquotes begins with a folder of the tree.
BARE = re.compile(r"(?<![\w/.-])((?:doc|test|mca|kernels|tools|config)/[A-Za-z0-9_./-]*[A-Za-z0-9_/-])")


def expand(path):
    """Expand a{b,c}d to abd and acd."""
    match = re.search(r"\{([^{}]*)\}", path)
    if not match:
        return [path]
    return [rest for part in match.group(1).split(",")
            for rest in expand(path[:match.start()] + part + path[match.end():])]


def exists(path, bases):
    return any(glob.glob(os.path.join(base, path)) for base in bases)


def message_codes():
    """Return all [codes] in the sources, also those that a format inserts ("calls-differ")."""
    codes = set()
    for path in (glob.glob("mca/**/*.[ch]", recursive=True) + glob.glob("mca/**/*.txt", recursive=True) +
                 glob.glob("tools/*.[ch]") + glob.glob("tools/*.in")):
        with open(path, encoding="utf-8") as source:
            text = source.read()
            codes.update(re.findall(r"\[[a-z0-9-]+\]", text))
            codes.update("[%s]" % word for word in re.findall(r'"([a-z]+(?:-[a-z]+)+)"', text))
    return codes


def check(file, text, codes):
    folder = os.path.dirname(file)
    for number, line in enumerate(text.split("\n"), 1):
        named = [word for word in re.findall(r"`([^`]+)`", line)
                 if PLAIN.match(word) and not word.startswith("/") and
                 ("/" in word or ENDING.search(word))]
        if not file.endswith(".md"):
            named += BARE.findall(line)
        for word in named:
            for path in expand(word):
                if not exists(path, BASES + [folder]):
                    print("%s:%d: %s does not exist" % (file, number, path))
        for code in re.findall(r"`(\[[a-z0-9-]+\])`", line):
            if code not in codes:
                print("%s:%d: no message has the code %s" % (file, number, code))
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", line):
            if not os.path.exists(os.path.join(folder, link)):
                print("%s:%d: the link to %s leads nowhere" % (file, number, link))


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    files = ["README", "CONTRIBUTING"] + sorted(
        glob.glob("doc/*.md") + glob.glob("doc/user/*.md") + glob.glob("doc/hacking/*.md"))
    codes = message_codes()
    for file in files:
        with open(file, encoding="utf-8") as text:
            check(file, text.read(), codes)


if __name__ == "__main__":
    sys.exit(main())
