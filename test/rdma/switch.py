# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
"""switch.py SOCKET MACHINES PORT_PREFIX: an Ethernet switch between the datagram sockets of QEMU.

Machine i has the address 52:54:00:90:00:0(i+1) and listens on PORT_PREFIXi.
"""
import socket
import sys


def main():
    own, count, prefix = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    ports = [prefix + str(i) for i in range(count)]
    wire = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    wire.bind(own)
    while True:
        frame, sender = wire.recvfrom(65536)
        machine = frame[5] - 1 if frame[:5] == b"\x52\x54\x00\x90\x00" else -1
        for port in [ports[machine]] if 0 <= machine < count else ports:
            if port != sender:
                try:
                    wire.sendto(frame, port)
                except OSError:
                    pass  # not there yet, or no longer


main()
