#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
"""Count instructions in the machine code of nvcc, for kernels/report.sh.

    kernels/machine_code.py FILE.cubin               a line for each kernel: name, counts
    kernels/machine_code.py --prove NVCC ARCH...     test the table below on these architectures

Not every toolkit has nvdisasm, so this script reads cubins itself. They are ELF files with a section
.text.NAME for each kernel NAME. From compute capability 7.0 on, an instruction has 16 bytes. The lowest
12 bits are the opcode with the form of its operands, bits 73 to 75 the width of an access (6: 128
bits), and bits 76 and 77 the scope of a memory barrier (3: system).

--prove verifies the table: small kernels contain a PTX instruction a known number of times, and exactly
this number of its opcode must be found, and no other opcode of the table. `make check` does the same with
the installed nvcc, so a compiler with another encoding is detected.
"""
import collections
import os
import struct
import subprocess
import sys
import tempfile

# The name of each counted opcode. Each instruction has two forms: with an address in registers, or with a
# descriptor.
OPCODES = {
    0x381: 'load', 0x981: 'load',
    0x386: 'store', 0x986: 'store',
    0x380: 'generic', 0x980: 'generic', 0x385: 'generic', 0x985: 'generic',
    0x983: 'spill', 0x387: 'spill',
    0x992: 'fence',
}
COLUMNS = ('load128', 'store128', 'generic', 'fence', 'fence_sys', 'spill', 'bytes')
INSTRUCTION = 16
WIDTH_128 = 6
SCOPE_SYSTEM = 3


def sections(data):
    """Return the names and contents of the sections of an ELF file."""
    if data[:5] != b'\x7fELF\x02':
        sys.exit('machine_code.py: not a cubin')
    (at,) = struct.unpack_from('<Q', data, 0x28)
    size, count, names = struct.unpack_from('<HHH', data, 0x3A)
    headers = [struct.unpack_from('<IIQQQQ', data, at + i * size) for i in range(count)]
    for name, kind, _, _, offset, length in headers:
        start = headers[names][4] + name
        text = data[start : data.index(b'\0', start)].decode()
        yield text, data[offset : offset + length] if kind == 1 else b''


def count(code):
    """Return the counts of one kernel's code."""
    found = collections.Counter(bytes=len(code))
    for at in range(0, len(code) - INSTRUCTION + 1, INSTRUCTION):
        low, high = struct.unpack_from('<QQ', code, at)
        kind = OPCODES.get(low & 0xFFF)
        if kind in ('load', 'store'):
            found[kind + '128'] += (high >> 9 & 7) == WIDTH_128
        elif kind is not None:
            found[kind] += 1
            found['fence_sys'] += kind == 'fence' and (high >> 12 & 3) == SCOPE_SYSTEM
    return found


def kernels(path):
    with open(path, 'rb') as file:
        for name, code in sections(file.read()):
            if name.startswith('.text.'):
                yield name[len('.text.') :], count(code)


REPEATED = 3
LOAD = '{ asm volatile("%s" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(a + %d) : "memory");' \
    ' sum += v.x + v.y + v.z + v.w; }'
STORE = 'asm volatile("%s" :: "l"(a + %d), "r"(sum) : "memory");'
PROBES = {  # kernel: body, what is expected of its own instructions
    'none': ('', {}),
    'load128': ((LOAD, 'ld.global.v4.u32 {%0, %1, %2, %3}, [%4];'), {'load128': REPEATED}),
    'volatile128': ((LOAD, 'ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];'),
                    {'load128': REPEATED}),
    'load32': ((LOAD, 'ld.global.u32 %0, [%4]; mov.u32 %1, %0; mov.u32 %2, %0; mov.u32 %3, %0;'),
               {}),
    'store128': ((STORE, 'st.global.v4.u32 [%0], {%1, %1, %1, %1};'), {'store128': REPEATED}),
    'store32': ((STORE, 'st.global.u32 [%0], %1;'), {}),
    'generic_load': ((LOAD, 'ld.v4.u32 {%0, %1, %2, %3}, [%4];'), {'generic': REPEATED}),
    'generic_store': ((STORE, 'st.u32 [%0], %1;'), {'generic': REPEATED}),
    'fence_sys': ((STORE, 'st.global.u32 [%0], %1; fence.acq_rel.sys;'),
                  {'fence': REPEATED, 'fence_sys': REPEATED}),
    'fence_gpu': ((STORE, 'st.global.u32 [%0], %1; fence.acq_rel.gpu;'), {'fence': REPEATED}),
    'local_store': (('own[sum + %d] = 1;', None), {'spill': REPEATED}),
    'local_load': (('sum += own[sum + %d];', None), {'spill': REPEATED}),
}


def probe_source():
    for name, (body, _) in PROBES.items():
        lines = []
        for i in range(REPEATED if body else 0):
            form, text = body
            lines.append(form % ((text, 16 * i) if text else i))
        yield 'extern "C" __global__ void %s(uint4 *a, unsigned *b) {' % name
        yield 'uint4 v; unsigned sum = b[0]; volatile unsigned own[64]; (void) v; (void) own;'
        yield '\n'.join(lines) + '\nb[1] = sum; }'


def prove(nvcc, arch):
    """Return 0 if the table finds exactly the instructions of the probes."""
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = os.path.join(folder, 'probe.cu'), os.path.join(folder, 'probe.cubin')
        with open(source, 'w') as file:
            file.write('\n'.join(probe_source()))
        subprocess.run([nvcc, '-w', '-cubin', '-arch=sm_' + arch, '-o', cubin, source], check=True)
        found = dict(kernels(cubin))
    for name, (_, expected) in PROBES.items():
        counts = {k: v for k, v in found[name].items() if v > 0 and k != 'bytes'}
        if counts != expected:
            print('sm_%s, %s: found %s, expected %s' % (arch, name, counts, expected))
            wrong = 1
    return wrong


def main(arguments):
    if len(arguments) > 2 and arguments[0] == '--prove':
        return max([prove(arguments[1], arch) for arch in arguments[2:]])
    if len(arguments) != 1 or arguments[0].startswith('-'):
        print(__doc__, file=sys.stderr)
        return 2
    for name, found in kernels(arguments[0]):
        print(name, *[found[column] for column in COLUMNS])
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
