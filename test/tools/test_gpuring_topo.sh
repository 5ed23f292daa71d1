#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Test gpuring-topo through its command line: every command, wrong usage, bad files and full disks. Compare
# its reports on real machines with recorded ones.
# shellcheck source=test/tools/lib.sh
. "${top_srcdir:-.}/test/tools/lib.sh"
# shellcheck source=test/bad_files.sh
. "$top_srcdir/test/bad_files.sh"
topo=$top_builddir/tools/gpuring-topo

run() { # ARGS...: status in $status, output in $work/out, messages in $work/err
    timeout -k 5 60 "$topo" "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    return 0
}

ends() { [ "$status" -eq "$1" ]; }
says() { grep -q -- "$1" "$work/out"; }
says_png() { [ "$(wc -c <"$1")" -gt 20000 ] && head -c 4 "$1" | grep -q PNG; }
tells() { [ "$status" -ne 0 ] && [ -s "$work/err" ] && grep -q -- "$1" "$work/err"; }

skip() { # TEXT REASON
    checks=$((checks + 1))
    echo "ok $checks - $1 # SKIP $2"
}

# A small machine: a NIC and two GPUs on a switch. Four NVLinks connect the GPUs.
cat >"$work/two.xml" <<'XML'
<system version="1">
  <cpu numaid="0" affinity="f" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="106">
    <pci busid="0000:10:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:11:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1"><nvlink target="0000:12:00.0" count="4" tclass="0x030200"/></gpu>
      </pci>
      <pci busid="0000:12:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="80" rank="1" gdr="1"><nvlink target="0000:11:00.0" count="4" tclass="0x030200"/></gpu>
      </pci>
      <pci busid="0000:13:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="100000" port="1" guid="0x1" gdr="1"/></nic>
      </pci>
    </pci>
  </cpu>
</system>
XML

# All commands on the machine that runs the test. Its content is unknown, so only the status is checked.
run show
grep -q ' 0 GPUs' "$work/out" && of_gpus=1 || of_gpus=0
for command in show matrix channels predict report svg html xml; do
    run $command
    case $command in channels | predict) expected=$of_gpus ;; *) expected=0 ;; esac
    check "$command of this machine" ends $expected
done

run show -t "$work/two.xml"
check "show names the NVLinks" says "NVLink x4 to GPU 1"
run matrix -t "$work/two.xml"
check "matrix shows four NVLinks" says "GPU0    X      NV4"
sed 's/<gpu dev="1"/<gpu dev="0"/' "$work/two.xml" >"$work/hosts.xml"
run matrix -t "$work/hosts.xml"
check "GPUs that share a device number go by rank" says "GPU1    NV4    X"
run html -t "$work/hosts.xml"
check "and in a browser by both" says "<th>GPU 0, rank 1</th>"
run channels -t "$work/two.xml" -n 2
check "channels of two nodes pass the NIC" says "NET0 "
run predict -t "$work/two.xml" -s 8K,1M
check "predict has the sizes asked for" says " 8K "
run report -t "$work/two.xml" -s 8K,1M
check "report has the sizes asked for" says '"bytes":1048576'
run predict -t "$work/two.xml" -s 8K
check "predict says what a time consists of" says "(launch [0-9.]*, steps [0-9.]*, data [0-9.]* by "
run predict -t "$work/two.xml" -s 8K -m reference
check "the reference's model has no such parts" says "LL x[0-9]* [0-9.]* us, [0-9.]* GB/s, bus [0-9.]* GB/s$"
run predict -t "$work/two.xml" -C bcast -S 2 -s 8K
check "predict of another collective, for ranks that share GPUs" says "bcast, 4 ranks on 2 GPUs"
run predict -t "$work/two.xml" -C barrier
check "a collective that is not predicted is refused" ends 2
run predict -t "$work/two.xml" -C bcast -n 2 -s 8K
check "a broadcast between nodes is predicted" says "bcast, 4 ranks .*"
run predict -t "$work/two.xml" -C scan -n 2
check "other collectives are predicted on one node" ends 2
run report -t "$work/two.xml" -p no
check "report knows that peer access is refused" says '"nvlink_p2p":"no"'
# The rows and columns of the paths have the order of the file, even if ranks and devices have another one.
cat >"$work/order.xml" <<'XML'
<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="1">
    <pci busid="0000:11:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
      <gpu dev="1" sm="80" rank="1" gdr="1"/>
    </pci>
    <pci busid="0000:13:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
      <nic><net name="mlx5_1" dev="1" speed="100000" port="1" gdr="1"/></nic>
    </pci>
  </cpu>
  <cpu numaid="1" arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="1">
    <pci busid="0000:01:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="80" rank="0" gdr="1"/>
    </pci>
    <pci busid="0000:03:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
      <nic><net name="mlx5_0" dev="0" speed="200000" port="1" gdr="1"/></nic>
    </pci>
  </cpu>
</system>
XML
run report -t "$work/order.xml"
check "paths are in the order of the file" \
    says '"gpu_to_net":\[\[\["PHB",12.5,3\],\["SYS",16,4\]\],\[\["SYS",12.5,4\],\["PHB",24,3\]\]\]'
check "which is told" says '"gpu_order":\[1,0\],"net_order":\[1,0\]'
run svg -t "$work/two.xml" -o "$work/two.svg"
check "svg into a file" grep -q '</svg>' "$work/two.svg"
run svg -t "$work/two.xml" -n 2
check "svg of several nodes tells the speed between them" says '>Rings: .* 12.5 GB/s between nodes'
check "and what arrows and circles are" says '>Circle around a GPU: the root'
run svg -t "$top_srcdir/test/data/topo/two-sockets-fast-nics.xml"
check "svg of a node that NICs join from parts has the channels of each" says '>NET1 2 3 NET1'

# The page for a browser is complete and well-formed, and loads nothing from elsewhere.
run html -t "$work/two.xml" -n 2 -o "$work/two.html"
check "html into a file" ends 0
cat >"$work/page.py" <<'PYTHON'
import re
import sys
import xml.etree.ElementTree as tree

text = open(sys.argv[1], encoding="utf-8").read()
names = [element.tag.split("}")[-1] for element in tree.fromstring(text).iter()]
headings = re.findall("<h2>([^<]*)", text)
for name, count in ("svg", 5), ("table", 4), ("pre", 1):
    assert names.count(name) == count, (name, names.count(name))
assert len(headings) == 5 and headings[0] == "Machine", headings
assert '<section class="wide"><h2>Machine' in text, "the picture of the machine has half the width"
assert not {"script", "link", "img", "iframe", "object"} & set(names), names
assert not re.search(r"(href|src|url\(|@import)", text), "something to fetch"
assert set(re.findall(r"\w+://[^\"]*", text)) == {"http://www.w3.org/2000/svg"}, "an address"
assert "nan" not in re.findall(r"[\d.]+|nan|inf", text), "not a number"
PYTHON
if command -v python3 >/dev/null 2>&1; then
    check "the page is well-formed, whole and has nothing to fetch" python3 "$work/page.py" "$work/two.html"
else
    skip "the page is well-formed, whole and has nothing to fetch" "python3 is not installed"
fi
if command -v chromium >/dev/null 2>&1; then
    timeout 60 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$work/chromium" \
        --screenshot="$work/two.png" --window-size=1400,1000 "file://$work/two.html" >"$work/out" 2>"$work/err"
    check "chromium draws it" says_png "$work/two.png"
else
    skip "chromium draws it" "chromium is not installed"
fi
run xml -t "$work/two.xml" -o "$work/again.xml"
run report -t "$work/again.xml"
check "the dump can be read again" ends 0
run simulate -t "$work/two.xml" -n 64
check "simulate 64 nodes" says "^ *64 *128 "
run simulate -t "$top_srcdir/test/data/topo/cube-single-links.xml" -n 16384
check "131072 ranks: each holds less than 64 MiB" \
    awk '$2 == 131072 { held = $NF } END { exit !(held > 0 && held < 64) }' "$work/out"
run simulate -t "$work/two.xml" -n 2 -g 1 -c
check "simulate one GPU a node" says "^ *2 *2 "
run simulate -t "$work/two.xml" -g 1 -n 1
check "simulate a single rank" says "^ *1 *1 "
run simulate -t "$work/two.xml" -n 2 -d "$work/graph.xml"
check "simulate writes the channels" grep -q 'ranks="4" nodes="2" source="topology"' "$work/graph.xml"
for bad in "show -d x" "simulate -d x" "show -c" "simulate -n 16385" "simulate -s 1K" "simulate -m x" \
    "matrix -s 1K" "show -m x" "html -f x"; do
    # shellcheck disable=SC2086
    run $bad
    check "$bad is refused with status 2" ends 2
done

# The child that measures a job ends if its parent is killed. It runs only for some milliseconds, so stop
# it as soon as it has used CPU time, and start another one if it has already ended.
child_running() { # true once it has used a tick
    read -r line <"/proc/$child/stat" || return 1
    # shellcheck disable=SC2086
    set -- $line
    [ $((${14} + ${15})) -gt 0 ]
}
child_stopped() { # sets $child, and ends its parent
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        "$topo" simulate -t "$work/two.xml" -n 16000 >/dev/null 2>&1 &
        parent=$!
        while kill -0 $parent; do
            read -r child _ <"/proc/$parent/task/$parent/children"
            if [ -n "$child" ] && child_running && kill -STOP "$child"; then
                kill -TERM $parent
                wait $parent
                return 0
            fi
        done 2>/dev/null
        wait $parent
    done
    return 1
}
child_ended() {
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        case $(cat "/proc/$child/stat" 2>/dev/null) in
        "" | *") Z "*) return 0 ;;
        esac
        sleep 0.5
    done
    kill -KILL "$child"
    return 1
}
if [ -e "/proc/$$/task/$$/children" ]; then
    check "a child that measures was stopped" child_stopped
    check "and ends with its parent" child_ended
else
    skip "simulate ends its child" "this kernel does not list children (CONFIG_PROC_CHILDREN)"
fi

# GPUs that are not used are listed with the reason.
sed 's/ rank="1"//' "$work/two.xml" >"$work/unranked.xml"
for command in show matrix channels predict svg html; do
    run $command -t "$work/two.xml" -g 1
    check "$command names the GPU that was not chosen" says "Omitted, not in --gpus: GPU 0 (0000:11:00.0)"
done
run matrix -t "$work/unranked.xml"
check "matrix names a GPU without a rank" says "^Omitted, without a rank.*: GPU 1 (0000:12:00.0)$"
run report -t "$work/two.xml" -g 1
check "the report names it, too" \
    says '"omitted_gpus":\[{"dev":0,"rank":0,"busid":"0000:11:00.0","reason":"not in --gpus"}\]'
check "one GPU of two" says '"ranks":1,'
run predict -t "$work/two.xml" -g 1
check "one GPU has nothing to exchange" says "^One GPU"
run predict -t "$work/two.xml" -n 2
check "predict shows only what is offered" says "^   bytes .*Ring/Simple.*best$"
if grep -q Two-shot "$work/out"; then status=1; fi
check "and not a two-shot exchange, which is for one node" ends 0
run channels -t "$work/two.xml" -n 2
if grep -q ' $' "$work/out"; then status=1; fi
check "no line ends in a blank" ends 0
HWLOC_SYNTHETIC="pack:2 [numa] core:2 pu:1" timeout 60 "$topo" show >"$work/out" 2>"$work/err"
check "an invented machine" says "^2 CPUs, 0 GPUs"
HWLOC_XMLFILE=$work/missing.xml
export HWLOC_XMLFILE
run show
unset HWLOC_XMLFILE
check "an hwloc file that is not there is named, and not this machine shown" tells "missing.xml"

run
check "no command is a mistake" ends 2
run fly
check "an unknown command is named" tells "fly"
run shwo
check "a misspelt command gets the one that it is like" tells "did you mean 'show'"
run show --topp x
check "so does a misspelt option" tells "did you mean --topo"
run show -n 2
check "an option that does nothing is refused" tells "nodes does nothing for 'show'"
run show --topo
check "a missing value is a mistake" ends 2
for bad in "-n 0" "-n x" "-g 0,0" "-g a" "-p maybe" "-f xml" "--p2p-level FAR"; do
    # shellcheck disable=SC2086
    run show -t "$work/two.xml" $bad
    check "$bad is refused with status 2" ends 2
done
run predict -t "$work/two.xml" -s 1Q
check "a wrong size is named" tells "1Q"
run show extra words
check "a second word is refused" ends 2
run --help
check "--help" says "Usage: gpuring-topo"
run --version
check "--version" says "^gpuring-topo "

bad_files 64
while read -r file pattern; do
    run show -t "$work/bad/$file"
    check "a topology file: $file" tells "$pattern"
done <"$work/bad/list"
: >"$work/empty.xml"
run show -t "$work/empty.xml"
check "an empty topology file" tells "empty.xml: topology XML is empty"
printf '<system version="1">\0</system>' >"$work/zero.xml"
run show -t "$work/zero.xml"
check "a topology file with a zero byte" tells "zero.xml: topology XML, line 1: not XML in UTF-8"
run show -t -
check "nothing on standard input" tells "standard input: topology XML is empty"
printf '<system version="1"><cpu' >"$work/torn.xml"
run show -t "$work/torn.xml"
check "a torn file is a message, not a crash" ends 1
# Print a machine with 8 sockets, GPUS GPUs in total on an NVSwitch, and DISKS disks on each socket.
machine() { # GPUS DISKS
    awk -v gpus="$1" -v disks="$2" 'BEGIN {
        print "<system version=\"1\">"
        for (c = 0; c < 8; c++) {
            printf "<cpu numaid=\"%d\" arch=\"x86_64\" vendor=\"AuthenticAMD\">\n", c
            for (g = c * gpus / 8; g < (c + 1) * gpus / 8; g++)
                printf "<pci busid=\"%04x:01:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"%d\" sm=\"90\" rank=\"%d\" gdr=\"1\"><nvlink target=\"fffffff:ffff:ff\" count=\"18\" tclass=\"0x068000\"/></gpu></pci>\n", g, g, g
            for (d = 0; d < disks; d++)
                printf "<pci busid=\"%04x:%02x:%02x.%d\" class=\"0x010802\" link_speed=\"32.0 GT/s PCIe\" link_width=\"4\" vendor=\"0x144d\" device=\"0xa80a\" subsystem_vendor=\"0x144d\" subsystem_device=\"0xa801\"/>\n", 8192 + c, d / 256, d / 8 % 32, d % 8
            print "</cpu>"
        }
        print "</system>"
    }'
}
machine 256 0 >"$work/many.xml"
run report -t "$work/many.xml" -n 2
check "256 GPUs on two nodes" says '"ranks":512,'
machine 8 8000 >"$work/large.xml"
check "10 MB of XML are made" [ "$(wc -c <"$work/large.xml")" -gt 10000000 ]
run report -t "$work/large.xml"
check "and answered: the disks do not matter" says '"ag_nvlink":211.885714,'
machine 0 1 >"$work/none.xml"
run report -t "$work/none.xml"
check "no GPU" says '"ranks":0,'
for command in channels predict simulate; do
    run $command -t "$work/none.xml"
    check "no GPU: $command fails" tells '\[no-gpu\]'
    check "no GPU: $command prints nothing" [ ! -s "$work/out" ]
done
run html -t "$top_srcdir/test/data/topo/nvswitch.xml"
check "html: the matrices have the whole width" says '<section class="wide"><h2>Paths</h2>'
check "html: no label of the picture is above its edge" sh -c "! grep -Eq '<text x=\"[0-9.]*\" y=\"(-|[0-8]\\.)' '$work/out'"
run html -t "$work/none.xml"
check "no GPU: the page says so" says "The topology has no GPU"
check "no GPU: the page has no empty table" sh -c "! grep -q '<table>' '$work/out'"
cat >"$work/template.xml" <<'XML'
<system version="1"><cpu numaid="0" arch="x86_64" vendor="AuthenticAMD">
  <pci busid="0000:10:1c.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
</cpu></system>
XML
run channels -t "$work/template.xml"
check "a provider's template is called one" tells '\[template\]'
run show -t "$work/template.xml"
check "and shown with the advice" says "^This file has places for GPUs and no GPU: it is a template"

# Unused devices, unknown speeds, and a bus id of zeros.
cat >"$work/odd.xml" <<'XML'
<system version="1"><cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
  <pci busid="0000:00:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
    <gpu dev="0" sm="80" rank="0"/><gpu dev="7" sm="80" rank="7"/></pci>
  <pci busid="0000:02:00.0" class="0x030200" link_speed="" link_width="0"><gpu dev="1" sm="80" rank="1"/></pci>
  <nic><net name="eth0" guid="0x1"/><net name="eth1" dev="0" guid="0x2" speed="-1"/></nic>
</cpu></system>
XML
run show -v -t "$work/odd.xml"
check "bus id 0000:00:00.0 is one" says "PCI 0000:00:00.0"
check "a second GPU of a PCI device is named" says "^Omitted, .*: GPU 7 (0000:00:00.0)$"
check "and with -v" grep -q 'more than one gpu element' "$work/err"
check "a port without dev is named" says "^Omitted, .*: NET eth0$"
check "and with -v" grep -q 'net "eth0" has no device number' "$work/err"
check "a speed that is not known is marked" says "NET 0  eth1  10 Gb/s (assumed)"
check "also that of a PCI link" says "PCI 0000:02:00.0  link of unknown speed (8 GT/s assumed)"
check "-v lists both" sh -c "grep -q '(eth1): its speed is not known' '$work/err' &&
    grep -q '0000:02:00.0: link_speed or link_width is not known' '$work/err'"
for command in matrix channels predict; do
    run $command -t "$work/odd.xml"
    check "$command names what is assumed" says "^Assumed, .*: NET 0 (eth1) 10 Gb/s, PCI links of 1 device"
done
run svg -t "$work/odd.xml"
check "the picture marks it" sh -c "grep -q '>1.25 GB/s?  eth1<' '$work/out' && grep -q '>12?<' '$work/out'"
check "and explains the mark" says ">?: assumed, "
run report -t "$work/odd.xml"
check "JSON marks it" says '"speedAssumed":true'
sed 's/ speed="-1"/ speed="10000" speed_assumed="1"/' "$work/odd.xml" >"$work/assumed.xml"
run show -t "$work/assumed.xml"
check "the mark in a file is read" says "NET 0  eth1  10 Gb/s (assumed)"
for bad in "cycle:below itself" "twice:belongs to two GPUs" "rank:same rank" "entity:line 1: DOCTYPE" \
    "version:only version 1"; do
    run report -t "$top_srcdir/test/data/topo/bad-${bad%%:*}.xml"
    check "bad-${bad%%:*}.xml is a message that names the file" tells "data/topo/bad-.*${bad#*:}"
done
sed 's/target="0000:12:00.0"/target="0000:99:00.0"/' "$work/two.xml" >"$work/dangling.xml"
run report -v -t "$work/dangling.xml"
check "a dangling NVLink is told" grep -q "NVLink of GPU .* to 0000:99:00.0" "$work/err"
check "and survived" ends 0

run show -t "$work/two.xml" -g 7
check "a GPU that is not there is told" ends 1
bad_files 1
while read -r file pattern; do
    run predict -t "$work/two.xml" -m "$work/bad/$file"
    check "a table of constants: $file" tells "$pattern"
done <"$work/bad/list"
printf 'hop\0\n' >"$work/zero.table"
run predict -t "$work/two.xml" -m "$work/zero.table"
check "a table with a zero byte" tells "zero.table: line 1: word 1 .* null byte"
: >"$work/empty.table"
run predict -t "$work/two.xml" -m "$work/empty.table"
check "an empty table changes nothing" ends 0
if [ -c /dev/full ]; then
    timeout 60 "$topo" show -t "$work/two.xml" >/dev/full 2>"$work/err"
    status=$?
    check "a full disk is told" tells "No space left"
    run show -t "$work/two.xml" -o /dev/full
    check "a full disk is told for -o too" tells "No space left"
fi
echo keep >"$work/kept"
run show -t "$work/missing.xml" -o "$work/kept"
check "a failure leaves the output file as it was" grep -q keep "$work/kept"
run show -t "$work/two.xml" -o "$work/no/such/folder"
check "a folder that is not there is told" ends 1

# Compare with the recorded reports of real machines.
folder=${GPURING_TOPOLOGIES:-}
if [ ! -d "$folder/expected" ]; then
    skip "reports of real machines" "needs the folder of topology files (GPURING_TOPOLOGIES)"
elif ! command -v python3 >/dev/null 2>&1; then
    skip "reports of real machines" "python3 is not installed"
else
    for expected in "$folder"/expected/*.json; do
        base=$(basename "$expected" .json)
        machine=${base%.[0-9]*node*}
        nodes=${base#"$machine".}
        nodes=${nodes%%node*}
        p2p=ok
        case $base in *.nop2p) p2p=no ;; esac
        timeout 120 "$topo" report -t "$folder/$machine.xml" -n "$nodes" -p $p2p -m reference >"$work/report" 2>"$work/err"
        python3 "$top_srcdir/test/tools/report_compare.py" "$expected" "$work/report" >"$work/out" 2>&1
        status=$?
        check "$base: as the reference, or better" ends 0
    done
fi
echo "1..$checks"
