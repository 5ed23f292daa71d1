/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Messages between single ranks, all at once: each rank sends and expects what it listed before.
 * Nothing blocks. All memory is taken when the list is made, before any rank relies on it.
 */
#ifndef GPURING_OOB_LETTERS_H
#define GPURING_OOB_LETTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/coll_gpuring/compat.h"

struct gpuring_letter {
    int peer;
    bool sent; /* by this rank; else expected */
    bool done;
    uint8_t *data;
    size_t bytes; /* expected: room, then what came */
    ompi_request_t *request;
};

struct gpuring_letters {
    struct ompi_communicator_t *comm;
    struct gpuring_letter *letter; /* in the order in which they were added */
    int count;
    bool started;
    int status; /* of those that are done */
    uint8_t *memory;
    size_t used;
};

/* Room for `count` letters of `bytes` bytes in all. 0 or GPURING_ERR_NOMEM. */
int gpuring_letters_init(struct gpuring_letters *letters, struct ompi_communicator_t *comm,
                         int count, size_t bytes);
/* Each rank expects one letter of another at most: data is copied; expected ones have `room`. */
void gpuring_letters_send(struct gpuring_letters *letters, int peer, const void *data,
                          size_t bytes);
void gpuring_letters_expect(struct gpuring_letters *letters, int peer, size_t room);

/* Start, and move on. 0: all sent and received; GPURING_AGAIN; GPURING_ERR_NET (logged): some
 * were not, the others are done. */
int gpuring_letters_progress(struct gpuring_letters *letters);

/* A rank that is awaited, or -1. */
int gpuring_letters_awaits(const struct gpuring_letters *letters);

/* Gives up what is under way; memory that the network may still use is kept. */
void gpuring_letters_free(struct gpuring_letters *letters);

#endif
