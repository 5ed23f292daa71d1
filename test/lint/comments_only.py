#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
"""comments_only.py BASE [--texts]: check that the working tree differs from commit BASE in comments alone.

Compares each changed file without its comments and its white space, so that the compiler sees the
same tokens before and after. Documents may change freely. --texts: string literals may differ as
well (log messages, parameter help). Exit status 1 and one line per file whose code has changed.
"""
import ast
import os
import re
import subprocess
import sys

from prose import C_TOKEN


def code_of(path, text, texts):
    """The code of a file, in a form in which comments and white space make no difference."""
    if path.endswith((".c", ".h", ".cu", ".cuh")):
        def keep(match):
            token = match.group()
            if token[0] == "/":
                return " "
            return "" if texts and token[0] == '"' else token
        stripped = C_TOKEN.sub(keep, text)
        # clang-format may wrap a line elsewhere, but a directive ends with its line.
        lines = [re.sub(r"\s+", " ", line).strip() for line in re.sub(r"\\\n", " ", stripped).split("\n")]
        directives = [line for line in lines if line.startswith("#")]
        rest = re.sub(r"\s+", "", "".join(line for line in lines if not line.startswith("#")))
        return directives, rest
    if path.endswith(".py"):
        tree = ast.parse(text)
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list) and body and isinstance(body[0], ast.Expr) and isinstance(
                    getattr(body[0], "value", None), ast.Constant):
                body.pop(0)
        return ast.dump(tree)
    return [line.strip() for line in text.split("\n")
            if line.strip() and not re.match(r"\s*(#(?!!)|dnl)", line)]


def main():
    base, texts = sys.argv[1], "--texts" in sys.argv[2:]
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    names = subprocess.run(["git", "diff", "--name-status", "--no-renames", base], capture_output=True,
                           text=True, check=True).stdout
    status = 0
    for row in names.splitlines():
        kind, path = row.split("\t")
        if path.endswith((".md", ".1", ".txt")) or path in ("README", "NEWS", "CONTRIBUTING"):
            continue
        if kind == "M":
            before = subprocess.run(["git", "show", f"{base}:{path}"], capture_output=True, text=True,
                                    check=True).stdout
            with open(path, encoding="utf-8") as file:
                after = file.read()
            if code_of(path, before, texts) == code_of(path, after, texts):
                continue
        print(f"{path}: more than comments has changed")
        status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
