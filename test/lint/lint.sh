#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# lint.sh [BUILD]: check rules that a compiler does not check. Prints TAP. Checks of calls and of exported
# symbols need BUILD, a finished build folder.
cd "$(dirname "$0")/../.." || exit 1
build=${1-}
checks=0
found=$(mktemp) || exit 99
trap 'rm -f "$found" "$found.names"' EXIT

# Print the files of the project that match a pattern. Without git, these are all files outside build
# folders.
files() { # PATTERN (extended regular expression on the path)
    if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
        git ls-files --cached --others --exclude-standard
    else
        find . -path './build*' -prune -o -type f -print | sed 's,^\./,,'
    fi | grep -E "$1" | while IFS= read -r file; do
        [ ! -f "$file" ] || printf '%s\n' "$file"
    done
}

# verdict TEXT: pass if $found is empty; otherwise fail and show $found.
verdict() {
    checks=$((checks + 1))
    if [ -s "$found" ]; then
        echo "not ok $checks - $1"
        head -n 50 "$found" | sed 's/^/# /'
    else
        echo "ok $checks - $1"
    fi
    : >"$found"
}

skip() { # REASON TEXT
    checks=$((checks + 1))
    echo "ok $checks - $2 # SKIP $1"
    : >"$found"
}

# arrows.txt has the table of parts. Calls are checked only if there is a finished build.
if command -v python3 >/dev/null 2>&1; then
    python3 test/lint/layers.py "$build" >"$found" 2>&1
    verdict "parts use each other as arrows.txt says, and no circles"
else
    skip "python3 is not installed" "parts use each other as arrows.txt says, and no circles"
fi

{
    files '^(kernels|mca/coll_gpuring/(util|plan|device|net|transport))/.*\.(c|h|cu)$' |
        xargs grep -nE '^ *# *include *[<"](mpi\.h|mpi-ext\.h|ompi|opal|orte|pmix)'
    files '^mca/topo_pci/.*\.[ch]$' | grep -v '/topo_pci[_.]' |
        xargs grep -nE '^ *# *include *[<"](mpi\.h|ompi|opal|orte|pmix|cuda|infiniband)'
} >"$found"
verdict "the core and the topology engine know nothing of Open MPI"

files '\.(c|h|cu)$' | grep -Ev '(/|_)compat\.' | xargs grep -nE \
    '# *if.*((OMPI|OPAL)_(MAJOR|MINOR|RELEASE)_VERSION|MCA_COLL_|COLL_SELF_INSTALLS)' >"$found"
verdict "versions of Open MPI are told apart in the compat files only"

files '\.(c|h|cu|sh|m4|mk|am|ac|py)$|^\.ci/' | while IFS= read -r file; do
    head -n 4 "$file" | grep -q 'SPDX-License-Identifier: BSD-3-Clause' || echo "$file: no SPDX line"
    head -n 4 "$file" | grep -q 'Copyright (c) 2026 The coll/gpuring authors' ||
        echo "$file: no copyright line"
done >"$found"
verdict "every file says its licence"

files '\.(c|h|cu)$' | while IFS= read -r file; do
    lines=$(wc -l <"$file")
    [ "$lines" -le 600 ] || echo "$file: $lines lines"
done >"$found"
verdict "no file is longer than 600 lines"

# printf builds the pattern, so that this file does not match it.
leftovers=$(printf '/%s/(main|wt-|tmp|shared)|%s_jobs|\\b%s\\b|\\b%s\\b|[Cc]o-authored-%s' \
    work bash TO''DO FIX''ME by)
tab=$(printf '\t')
{
    files '.' | xargs grep -nIE "$leftovers"
    files '\.(c|h|cu)$' | xargs grep -nE "$tab| \$"
    files '^(mca|kernels|tools)/.*\.(c|h|cu)$' | xargs grep -nE '\b(strcpy|strcat|sprintf|vsprintf|gets|alloca)\('
} >"$found"
verdict "no left-overs, no tabs in C, no unbounded string functions in the product"

if command -v clang-format >/dev/null 2>&1; then
    files '\.(c|h|cu)$' | xargs -P "$(nproc)" -n 16 clang-format --dry-run -Werror >"$found" 2>&1
    verdict "clang-format has nothing to change"
else
    skip "clang-format is not installed" "clang-format has nothing to change"
fi

{
    files '^(mca|kernels|tools)/.*\.(c|h|cu)$' | sed 's,.*/,,' | sort | uniq -d | sed 's/$/: several files have this name/'
    # net/net.h hides the structures of a net, so each net may define its own struct gpuring_net.
    files '^(mca|kernels|tools)/.*\.h$' | xargs sed -nE 's/^(struct|enum|union) ([a-z_0-9]+) \{.*/\2/p' | sort | uniq -d |
        grep -vxE 'gpuring_net(_link)?' | sed 's/$/: several structures have this tag/'
    # A debugger shows the name alone.
    files '^(mca|tools)/.*\.c$' | xargs sed -nE '/__attribute__/!s/^static [^(=]*[ *]([a-z]+)\(.*/\1/p' | sort | uniq -d |
        sed 's/$/: several static functions have this name; add the object to it/'
} >"$found"
verdict "no two headers declare one tag, no two files have one name, and no two functions one word as their name"

if command -v shellcheck >/dev/null 2>&1; then
    files '\.sh$|^\.ci/run$|^debian/tests/(allreduce|versions)$|^test/rdma/(run|prepare|on-host)$' |
        xargs -P "$(nproc)" -n 4 shellcheck -x -S warning -f gcc >"$found" 2>&1
    verdict "shellcheck has no warning"
else
    skip "shellcheck is not installed" "shellcheck has no warning"
fi

if command -v groff >/dev/null 2>&1; then
    files '\.1$' | while IFS= read -r page; do
        groff -man -ww -z -Tutf8 "$page" 2>&1 | sed "s|^|$page: |"
    done >"$found"
    verdict "man pages are well-formed"
else
    skip "groff is not installed" "man pages are well-formed"
fi

for tool in perf topo; do
    files "^tools/gpuring-$tool.*\.c\$" |
        xargs sed -n 's/{"\([a-z0-9-]*\)", *\(no\|required\)_argument/\n--\1\n/gp' | grep '^--' |
        while IFS= read -r option; do
            tr -d '\\' <"doc/man/gpuring-$tool.1" | grep -Eq -- "$option([^a-z-]|\$)" ||
                echo "gpuring-$tool $option is not in its man page"
        done
done >"$found"
verdict "man pages tell every option"

if command -v python3 >/dev/null 2>&1; then
    python3 doc/parameters.py - | diff doc/user/parameters.md - >"$found" 2>&1 ||
        echo "doc/parameters.py writes it anew" >>"$found"
    verdict "doc/user/parameters.md is what doc/parameters.py makes"

    python3 test/lint/doc_paths.py >"$found" 2>&1
    verdict "every path that the documentation names exists"

    python3 test/lint/prose.py >"$found" 2>&1
    verdict "no folder has more turns of phrase than prose_limits.txt allows (doc/hacking/style.md)"
else
    skip "python3 is not installed" "doc/user/parameters.md is what doc/parameters.py makes"
    skip "python3 is not installed" "every path that the documentation names exists"
    skip "python3 is not installed" "no folder has more turns of phrase than prose_limits.txt allows"
fi

lines=$(wc -l <README)
[ "$lines" -le 200 ] || echo "README: $lines lines" >"$found"
files '^doc/.*\.(md|py)$' | while IFS= read -r file; do
    grep -qF "$file" doc/local.mk || echo "$file is not in doc/local.mk"
done >>"$found"
verdict "README has at most 200 lines, and the distribution all of doc/"

# A message that a test looks for begins with a code in brackets, "[no-peer] ...". Tests match the code
# and values, but no prose.
{
    files '^test/.*\.sh$' | xargs grep -ohE '\\\[[a-z][a-z0-9-]+\\\]'
    files '^test/.*\.[ch]$' | xargs grep -ohE '"\[[a-z][a-z0-9-]+\]'
} | tr -d '"[\\]' | sort -u >"$found.names"
files '^(mca|kernels|tools|test/(standin|unit/net_mock))' | xargs grep -ohE '\[[a-z][a-z0-9-]+\]' |
    tr -d '[]' | sort -u | comm -23 "$found.names" - |
    sed 's/.*/tests look for [&], with which no message begins/' >"$found"
verdict "the codes that tests look for are those of messages"

# Users search the page of symptoms for the code of an error or warning.
{
    files '^mca/.*\.c$' | xargs grep -hA1 -E 'gpuring_(error|warn)\(' | grep -oE '"\[[a-z][a-z0-9-]+\]'
    grep -oE '^coll/gpuring \[[a-z][a-z0-9-]+\]' mca/coll_gpuring/help-mpi-coll-gpuring.txt
} | sed 's/.*\[/[/' | sort -u | while IFS= read -r code; do
    grep -qF "$code" doc/user/symptoms.md || echo "doc/user/symptoms.md lacks $code"
done >"$found"
verdict "the page of symptoms has each error and warning"

# The build uses no wildcards, so a source file that no local.mk lists is dead. Programs of one file are
# listed without its suffix.
files 'local\.mk$' | xargs cat >"$found.names"
files '^(mca|kernels|tools|test)/.*\.(c|h|cu|sh)$' | while IFS= read -r file; do
    grep -qE "(^|[ =/])${file%.c}(\.c)?( |\$)" "$found.names" || echo "$file is in no local.mk"
done >"$found"
verdict "every source file is part of the build or of the distribution"

component=$build/.libs/mca_coll_gpuring.so
if [ -n "$build" ] && [ -f "$component" ]; then
    for name in coll_gpuring topo_pci; do
        nm -D --defined-only "$build/.libs/mca_$name.so" | awk '{print $3}' >"$found.names"
        grep -vx -e "mca_${name}_component" -e mca_coll_gpuring_stream "$found.names" | sed "s/^/mca_$name.so exports /"
        grep -qx "mca_${name}_component" "$found.names" ||
            echo "mca_$name.so does not export mca_${name}_component"
    done >"$found"
    verdict "each component exports one symbol"

    for name in coll_gpuring topo_pci; do
        readelf -d "$build/.libs/mca_$name.so" |
            grep -E 'NEEDED.*(libcuda|libstdc|libnvidia|libibverbs|libuc[pst]|libxml2|libicu)' |
            sed "s/^/mca_$name.so: /"
    done >"$found"
    verdict "no component needs a CUDA, verbs, UCX, libxml2 or C++ library to be loaded"

    # A build folder has the same file names as a build in the source tree. Without git there is nothing
    # to check.
    if git rev-parse --git-dir >/dev/null 2>&1; then
        (cd "$build" && find . -type f) | sed 's,^\./,,' | sort >"$found.names"
        git check-ignore --no-index --stdin <"$found.names" | sort | comm -23 "$found.names" - |
            sed 's/^/.gitignore does not have /' >"$found"
        verdict "git ignores every file of a build"
    fi

    standin=$build/test/standin/.libs/libcuda.so.1
    text="the stand-in driver has the entry points that the component loads and no others"
    if [ -f "$standin" ]; then
        sed -n 's/^    X([a-z_]*, \(cu[A-Za-z0-9_]*\),.*/\1/p' \
            mca/coll_gpuring/device/cuda/driver.h | sort >"$found.names"
        # Only applications query events and capture streams, see test/standin/application.
        nm -D --defined-only "$standin" | awk '$3 ~ /^cu[A-Z]/ { print $3 }' | sort |
            grep -vx 'cuEventQuery\|cuStreamBeginCapture_v2\|cuStreamEndCapture' |
            diff "$found.names" - >"$found"
        verdict "$text"
    else
        skip "built without CUDA" "$text"
    fi
else
    for text in "each component exports one symbol" \
        "no component needs a CUDA, verbs, UCX, libxml2 or C++ library to be loaded" \
        "the stand-in driver has the entry points that the component loads and no others"; do
        skip "no finished build folder was given" "$text"
    done
fi

echo "1..$checks"
