/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Compare collectives with those of ranks of other nodes (serve/note.h). Kernels cannot do this,
 * because calls of equal size differ only in their meaning, and ranks that wait for each other send
 * nothing.
 *
 * A note has the words of the operations around the one that waits, or of the last ones, and a hash
 * of all earlier words. Therefore an earlier difference is found, too.
 */
#include "mca/coll_gpuring/stream/stream_state.h"

#include <stdio.h>

#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/serve/differ.h"
#include "mca/coll_gpuring/serve/note.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/status.h"

#define AHEAD 3 /* words in a note after that of the operation that waits */

static struct gpuring_stream_made *made_at(struct gpuring_stream_state *state, uint64_t operation)
{
    return &state->made[operation % GPURING_STREAM_MADE];
}

void gpuring_stream_notes_add(struct gpuring_stream_state *state)
{
    const struct gpuring_engine *engine = state->module->engine;
    uint64_t hash = (state->hash ^ engine->made) * UINT64_C(0x9e3779b97f4a7c15);

    state->hash = hash ^ hash >> 32;
    *made_at(state, engine->operation) =
        (struct gpuring_stream_made){.word = engine->made, .hash = state->hash};
}

/* Return what is known of an operation. Its members are 0 if it was not made or is too old. */
static struct gpuring_stream_made find_made(struct gpuring_stream_state *state, uint64_t operation)
{
    uint64_t last = state->module->engine->operation;

    return operation <= last && last - operation < GPURING_STREAM_MADE
               ? *made_at(state, operation)
               : (struct gpuring_stream_made){.word = 0};
}

static int compare_note(struct gpuring_stream_state *state, const struct gpuring_note *note,
                        char *why, size_t size)
{
    struct gpuring_difference difference;
    uint64_t hash = find_made(state, note->first - 1).hash;

    if (note->before != 0 && hash != 0 && note->before != hash) {
        snprintf(why, size,
                 "[calls-differ] this rank and rank %d made different calls before operation %llu",
                 note->rank, (unsigned long long) note->first);
        return GPURING_ERR_CALLS;
    }
    for (int i = 0; i < note->count; i++) {
        uint64_t own = find_made(state, note->first + (uint64_t) i).word;

        if (own != 0 && note->words[i] != 0 && own != note->words[i]) {
            gpuring_differ_compare(own, note->words[i], &difference);
            snprintf(why, size, "%s this rank has queued %s, and rank %d %s, as operation %llu",
                     difference.code, difference.own, note->rank, difference.other,
                     (unsigned long long) note->first + (unsigned) i);
            return difference.status;
        }
    }
    return GPURING_OK;
}

/* Send a note about the operations around `at`. */
static void send_note(struct gpuring_stream_state *state, uint64_t at)
{
    uint64_t last = state->module->engine->operation;
    uint64_t end = last - at > AHEAD ? at + AHEAD : last;
    struct gpuring_note note = {.first =
                                    end > GPURING_NOTE_WORDS ? end - GPURING_NOTE_WORDS + 1 : 1};

    note.before = find_made(state, note.first - 1).hash;
    while (note.first + (uint64_t) note.count <= end) {
        note.words[note.count] = find_made(state, note.first + (uint64_t) note.count).word;
        note.count++;
    }
    gpuring_note_send(state->module, &note);
}

int gpuring_stream_notes(struct gpuring_stream_state *state, uint64_t at, char *why, size_t size)
{
    uint64_t now = gpuring_now_ns(), last = state->module->engine->operation;
    struct gpuring_note note;
    bool due = now - state->noted.time >= GPURING_NOTE_SECONDS * GPURING_SECOND &&
               (last != state->noted.last || state->since != 0);

    if (last == 0 || !gpuring_notes_possible(state->module)) {
        return GPURING_OK;
    }
    if (due) {
        send_note(state, at);
        state->noted.time = now;
        state->noted.last = last;
    }
    return gpuring_note_take(state->module, &note) ? compare_note(state, &note, why, size)
                                                   : GPURING_OK;
}
