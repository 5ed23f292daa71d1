#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
"""Count turns of phrase that doc/hacking/style.md advises against, per 1000 words of prose.

prose.py              compare each folder with its limit in prose_limits.txt; print the folders above it
prose.py --counts     print the count of every folder
prose.py --limits     print prose_limits.txt with today's counts as limits
prose.py --show PATH  print every match in files whose path begins with PATH, as path:line: pattern: text

Prose is what people read: comments in C, CUDA, shell, make, m4 and Python, sentences in string
literals of C (log messages, help), help texts, documents and man pages. Code in backquotes, indented
blocks of documents and lines of tables that contain no sentence do not count.
"""
import os
import re
import subprocess
import sys

LIMITS = "test/lint/prose_limits.txt"

# name: what to write instead is in doc/hacking/style.md
PATTERNS = {
    "question": r"\?(?=\s|$)",
    "opening": r"(?:^|(?<=[.:;] ))(?:Of (?!course)|What |Whether |Else\b|So (?!far)|Whom? |By whom)",
    "else": r"(?<=[,;] )else\b(?! if)",
    "for-because": r", for (?:it|they|he|there|a|the|its|their|this|that|these|those|no|each|all|only|some|such|then)\b(?! example)",
    "person": r"\b(?:[Ww]ho|[Ww]hoever|[Ww]hom|[Nn]obody|[Ee]verybody|[Ss]omebody)\b",
    "speech": r"\b(?:say|says|said|tell|tells|told|is asked|are asked|asked for)\b",
    "motion": r"\b(?:comes?|came)\b(?! (?:back|from|up|down|first|last)\b)|\b(?:goes|went)\b(?! (?:down|up|on|wrong)\b)|\b(?:to|may|must|can|will|not|and|data|messages|bytes|they|that|which) go\b(?! (?:on|down|up|wrong)\b)",
    "behind": r"\bbehind\b(?! (?:a|an|the|one|its|two|same|that) (?:[\w-]+ ){0,2}(?:switch|bridge|port|bus|root|socket|complex|NAT))",
    "beside": r"\b[Bb]eside\b",
    "at-once": r"\bat once\b",
    "anew": r"\b(?:anew|likewise|thereby|whereat)\b",
    "so-many": r"\bso (?:many|much|few|long a|large a|far as)\b",
    "is-to": r"\b(?:is|are|was|were) (?:not )?to (?:be|go|come|have|get|run|take|see|do|begin|end)\b",
    "in-place-of": r"\bin place of\b",
    "any-more": r"\b(?:any more|no more than that|no more\b(?! than))",
    "the-like": r"\b(?:the like|the most that|the how many|its like)\b",
    "what-clause": r"\b(?:[Ww]hat) (?:is|are|was|were|has|have|had|it|they|a|an|the|each|every|one|all|some|this|that|these|those|follows|needs?|others?|remains?|they|ranks?|calls?|does|no|lies|stands|may|must|can|belongs)\b",
    "own": r"\b(?<!kind )of (?:its|their|his|our) own\b",
    "stands": r"\b(?:[Ss]tands?|stood) (?:in|at|for|before|after|here|there|by|twice|once)\b|\b(?:lies|lie) (?:in|at|before|between|within)\b",
    "one-that": r"\b(?:[Tt]he one|ones|[Tt]hose|[Tt]hat) (?:that|which|of|with|without|between|by) (?:which )?(?:is|are|was|has|have|it|they|comes?|goes)\b",
    "out-of-order": r"\b(?:[Hh]ence|[Tt]hereupon|[Tt]hereof|[Ww]hereupon|[Tt]herefrom)\b",
    "yet": r"\b(?:is|are|has|have|was|were) yet to\b|\bas yet\b",
}
COMPILED = {name: re.compile(text) for name, text in PATTERNS.items()}


def tracked():
    """Return the files of the project; with git, only files that git does not ignore."""
    try:
        out = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"],
                             capture_output=True, text=True, check=True).stdout
        return [p for p in out.split("\n") if p and os.path.isfile(p)]
    except (OSError, subprocess.CalledProcessError):
        return [os.path.join(d, f)[2:] for d, dirs, names in os.walk(".") for f in names
                if not d.startswith("./build")]


C_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def prose_of_c(text):
    """Yield comments, and adjacent string literals that form a sentence of at least five words."""
    literals, end = [], 0
    for match in C_TOKEN.finditer(text):
        token = match.group()
        if token[0] == '"':
            if literals and text[end:match.start()].strip():
                yield from sentence(literals)
                literals = []
            literals.append((line_of(text, match.start()), token[1:-1]))
            end = match.end()
        elif token[0] == "/":
            body = re.sub(r"^/\*+|\*/$|^//", "", token)
            body = "\n".join(re.sub(r"^\s*\* ?", "", part) for part in body.split("\n"))
            if "SPDX-License" not in body and "Copyright (c)" not in body:
                yield line_of(text, match.start()), body
    yield from sentence(literals)


def sentence(literals):
    if not literals:
        return
    text = "".join(part for _, part in literals)
    text = re.sub(r"%[-+ #0-9.*]*(?:hh|h|ll|l|z|j|t)?[a-zA-Z]", "N", text)
    text = re.sub(r'" *PRI\w+ *"', "N", text).replace("\\n", " ").replace("\\t", " ")
    if len(WORD.findall(text)) >= 5:
        yield literals[0][0], text.replace("?", ".")  # a message may ask the user a question


def prose_of_hash(text):
    """Yield blocks of comment lines that begin with # (shell, make, Python) or dnl (m4)."""
    block, first = [], 0
    for number, line in enumerate(text.split("\n") + [""], 1):
        match = re.match(r"\s*(?:#|dnl)(?!!)(.*)", line)
        if match and "SPDX-License" not in line and "Copyright (c)" not in line:
            first = first if block else number
            block.append(match.group(1))
        elif block:
            yield first, "\n".join(block)
            block = []


def prose_of_python(text):
    yield from prose_of_hash(text)
    for match in re.finditer(r'"""(.*?)"""', text, re.S):
        yield line_of(text, match.start()), match.group(1)


def prose_of_document(text):
    """Yield the paragraphs of a document. Fenced and indented blocks are code, not prose."""
    fenced, lines = False, []
    for line in text.split("\n"):
        if line.startswith("```"):
            fenced = not fenced
            line = ""
        lines.append("" if fenced or line.startswith("    ") else line)
    number = 0
    while number < len(lines):
        first = number
        while number < len(lines) and lines[number].strip():
            number += 1
        if number > first:
            yield first + 1, "\n".join(lines[first:number])
        number += 1


def prose_of_man(text):
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith(('.\\"', "'\\\"")):
            yield number, re.sub(r"^\.\w+ ?|\\f.|\\", "", line)


def extract(path):
    """Return [(line, text)] of the prose in a file, or None if the file has no prose to judge."""
    name = os.path.basename(path)
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    if name.endswith((".c", ".h", ".cu", ".cuh")):
        return list(prose_of_c(text))
    if name.endswith(".py"):
        return list(prose_of_python(text))
    if name.endswith((".sh", ".mk", ".am", ".ac", ".m4", ".in")) or name in ("run", "prepare", "on-host"):
        return list(prose_of_hash(text))
    if name.endswith((".md", ".txt")) and path.startswith("doc/") or name in ("README", "NEWS", "CONTRIBUTING"):
        return list(prose_of_document(text))
    if name.startswith("help-") and name.endswith(".txt"):
        return [(n, line) for n, line in enumerate(text.split("\n"), 1) if not line.startswith("#")]
    if name.endswith(".1"):
        return list(prose_of_man(text))
    return None


def matches(text):
    """Yield (offset, name, matched text) of a piece of prose."""
    plain = re.sub(r"`[^`]*`|\"[^\"\n]*\"", lambda m: "x" * len(m.group()), text)
    flat = re.sub(r"\s", " ", plain)
    for name, pattern in COMPILED.items():
        for match in pattern.finditer(flat.lstrip()):
            yield match.start() + len(flat) - len(flat.lstrip()), name, match.group()


def folder_of(path):
    parts = path.split("/")[:-1]
    return "/".join(parts[:3]) if parts else "."


def main():
    show = sys.argv[2] if sys.argv[1:2] == ["--show"] else None
    words, hits = {}, {}
    for path in sorted(tracked()):
        pieces = extract(path) if path != "test/lint/prose.py" and path != "doc/hacking/style.md" else None
        if not pieces:
            continue
        folder = folder_of(path)
        for line, text in pieces:
            words[folder] = words.get(folder, 0) + len(WORD.findall(text))
            for offset, name, _ in matches(text):
                hits[folder] = hits.get(folder, 0) + 1
                if show is not None and path.startswith(show):
                    at = line + text.count("\n", 0, offset)
                    context = re.sub(r"\s+", " ", text[max(0, offset - 50):offset + 60])
                    print(f"{path}:{at}: {name}: {context.strip()}")
    if show is not None:
        return 0
    counts = {f: 1000.0 * hits.get(f, 0) / n for f, n in words.items() if n >= 50}
    if sys.argv[1:] == ["--counts"]:
        for folder, count in sorted(counts.items()):
            print(f"{count:6.1f}  {hits.get(folder, 0):5d} in {words[folder]:6d} words  {folder}")
        total = 1000.0 * sum(hits.values()) / sum(words.values())
        print(f"{total:6.1f}  {sum(hits.values()):5d} in {sum(words.values()):6d} words  all")
        return 0
    if sys.argv[1:] == ["--limits"]:
        print("# Most turns of phrase per 1000 words of prose, by folder (test/lint/prose.py). Limits may only fall.")
        for folder, count in sorted(counts.items()):
            print(f"{folder} {max(2.0, count + 0.05):.1f}")
        return 0
    limits = {}
    with open(LIMITS, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                folder, limit = line.split()
                limits[folder] = float(limit)
    for folder, count in sorted(counts.items()):
        limit = limits.get(folder, 2.0)
        if count > limit:
            print(f"{folder}: {count:.1f} turns of phrase per 1000 words, more than {limit:.1f}; "
                  f"see them with test/lint/prose.py --show {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
