/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Forked ranks hand each other the letters of their transports through shared memory. */
#ifndef GPURING_TEST_LETTERS_H
#define GPURING_TEST_LETTERS_H

#include <string.h>

#include "mca/coll_gpuring/transport/transport.h"
#include "mca/coll_gpuring/util/status.h"

#define LETTERS_RANKS 8
#define LETTERS_ROOM  4096 /* of one letter */

struct letters {
    size_t bytes[LETTERS_RANKS][LETTERS_RANKS]; /* [from][to] */
    uint8_t text[LETTERS_RANKS][LETTERS_RANKS][LETTERS_ROOM];
};

/* False if a letter is longer than it may be. */
static inline bool letters_post(struct letters *letters, int rank,
                                const struct gpuring_transport *transport)
{
    for (int i = 0; i < gpuring_transport_neighbours(transport); i++) {
        const struct gpuring_transport_letter *letter = gpuring_transport_letter(transport, i);

        if (letter->bytes > letter->room || letter->bytes > LETTERS_ROOM) {
            return false;
        }
        memcpy(letters->text[rank][letter->peer], letter->data, letter->bytes);
        letters->bytes[rank][letter->peer] = letter->bytes;
    }
    return true;
}

/* When all have posted theirs. */
static inline int letters_connect(const struct letters *letters, int rank,
                                  struct gpuring_transport *transport)
{
    int status = GPURING_OK;

    for (int i = 0; status == GPURING_OK && i < gpuring_transport_neighbours(transport); i++) {
        const struct gpuring_transport_letter *letter = gpuring_transport_letter(transport, i);

        status = gpuring_transport_connect(transport, i, letters->text[letter->peer][rank],
                                           letters->bytes[letter->peer][rank]);
    }
    return status == GPURING_OK ? gpuring_transport_connected(transport) : status;
}

#endif
