/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The state of a call before it can run. It belongs to the call's item in the queue, or to the
 * function that makes a blocking call. No MPI. */
#ifndef GPURING_AGREE_PENDING_H
#define GPURING_AGREE_PENDING_H

#include <stdint.h>

/* How this rank can still find out where the buffers of the other ranks are (agree.h). */
enum gpuring_asks {
    GPURING_ASKS_NOBODY,
    GPURING_ASKS_TURN,     /* not decided until the call is the next one */
    GPURING_ASKS_PAGES,    /* the ranks vote on their status pages */
    GPURING_ASKS_MESSAGES, /* the ranks agree by messages */
    GPURING_ASKS_WORD,     /* persistent calls: the ranks combine words (serve/tracks.h) */
    GPURING_ASKS_OFFERS,   /* persistent calls: they gather offers of buffers (serve/offers.h) */
};

struct gpuring_pending {
    enum gpuring_asks asks;
    /* Number of the call while this rank asks: among the votes if it asks PAGES, otherwise among
     * all calls, or GPURING_AGREE_PERSISTENT. If it asks WORD: its word, then the result. */
    uint64_t vote;
    struct gpuring_offers *offers; /* if this rank asks OFFERS, otherwise NULL */
    uint64_t number; /* number of the call on its communicator (mixed_memory.c); 0: not counted */
};

#endif
