/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Socket through which two test processes exchange connection info. Every function reports its
 * errors on stderr. */
#ifndef TEST_PAIR_SOCKET_H
#define TEST_PAIR_SOCKET_H

#include <stddef.h>
#include <stdint.h>

struct pair_message {
    size_t bytes;
    uint8_t data[16384];
};

int pair_local(int fds[2]);
int pair_serve(const char *port); /* waits up to 60 s for the peer; returns a socket or -1 */
int pair_connect(const char *host_and_port); /* tries for 60 s; returns a socket or -1 */

/* Send `mine` and receive `theirs`. Return 0 or -1. */
int pair_exchange(int fd, const struct pair_message *mine, struct pair_message *theirs);
int pair_barrier(int fd);

#endif
