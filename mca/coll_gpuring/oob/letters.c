/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/oob/letters.h"

#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/oob/message.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

int gpuring_letters_init(struct gpuring_letters *letters, struct ompi_communicator_t *comm,
                         int count, size_t bytes)
{
    size_t room = bytes + 8 * (size_t) count; /* each starts on a multiple of 8 */

    *letters = (struct gpuring_letters){
        .comm = comm,
        .letter = calloc((size_t) count + 1, sizeof *letters->letter),
        .memory = malloc(room + 1),
    };
    if (letters->letter == NULL || letters->memory == NULL) {
        gpuring_error("out of memory for %d messages of %zu bytes in all", count, bytes);
        gpuring_letters_free(letters);
        return GPURING_ERR_NOMEM;
    }
    return GPURING_OK;
}

static struct gpuring_letter *add(struct gpuring_letters *letters, int peer, size_t bytes)
{
    struct gpuring_letter *letter = &letters->letter[letters->count++];

    letter->peer = peer;
    letter->data = letters->memory + letters->used;
    letter->bytes = bytes;
    letters->used += (bytes + 7) / 8 * 8;
    return letter;
}

void gpuring_letters_send(struct gpuring_letters *letters, int peer, const void *data, size_t bytes)
{
    struct gpuring_letter *letter = add(letters, peer, bytes);

    letter->sent = true;
    memcpy(letter->data, data, bytes);
}

void gpuring_letters_expect(struct gpuring_letters *letters, int peer, size_t room)
{
    add(letters, peer, room);
}

static int start(struct gpuring_letters *letters, bool sent)
{
    int status = GPURING_OK;

    for (int i = 0; status == GPURING_OK && i < letters->count; i++) {
        struct gpuring_letter *letter = &letters->letter[i];

        if (letter->sent != sent) {
            continue;
        }
        status = sent ? gpuring_message_send(letters->comm, letter->data, letter->bytes,
                                             letter->peer, GPURING_TAG_LETTER, &letter->request)
                      : gpuring_message_receive(letters->comm, letter->data, letter->bytes,
                                                letter->peer, GPURING_TAG_LETTER, &letter->request);
    }
    return status;
}

int gpuring_letters_progress(struct gpuring_letters *letters)
{
    int outcome = GPURING_OK, waiting = 0;

    if (!letters->started) {
        letters->started = true;
        outcome = start(letters, false);
        if (outcome == GPURING_OK) {
            outcome = start(letters, true);
        }
    }
    for (int i = 0; i < letters->count; i++) {
        struct gpuring_letter *letter = &letters->letter[i];
        int status = letter->done ? GPURING_OK
                                  : gpuring_message_finish(&letter->request,
                                                           letter->sent ? NULL : &letter->bytes);

        letter->done = letter->done || status != GPURING_AGAIN;
        waiting += status == GPURING_AGAIN;
        if (status < 0) {
            outcome = status;
        }
    }
    letters->status = letters->status != GPURING_OK ? letters->status : outcome;
    return waiting > 0 ? GPURING_AGAIN : letters->status;
}

int gpuring_letters_awaits(const struct gpuring_letters *letters)
{
    for (int i = 0; i < letters->count; i++) {
        if (!letters->letter[i].done) {
            return letters->letter[i].peer;
        }
    }
    return -1;
}

void gpuring_letters_free(struct gpuring_letters *letters)
{
    bool quiet = true;

    for (int i = 0; letters->letter != NULL && i < letters->count; i++) {
        quiet = gpuring_message_cancel(&letters->letter[i].request) && quiet;
    }
    if (quiet) {
        free(letters->memory); /* else a message may still come or leave */
    }
    free(letters->letter);
    *letters = (struct gpuring_letters){.count = 0};
}
