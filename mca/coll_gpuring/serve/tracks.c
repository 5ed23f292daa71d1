/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/serve.h"

#include "mca/coll_gpuring/oob/oob.h"
#include "mca/coll_gpuring/serve/offers.h"
#include "mca/coll_gpuring/util/status.h"

/* The word with which a rank takes part in the agreement on a track: the bits of the tracks that it
 * cannot use, and whether it has no memory for another one. */
#define ALL_TRACKS UINT64_C(0xffffffff)
#define NO_MEMORY  (UINT64_C(1) << GPURING_TRACKS)
_Static_assert(ALL_TRACKS == NO_MEMORY - 1, "a word has a bit for each track");

static bool is_in_state(const mca_coll_gpuring_module_t *track, enum gpuring_state state)
{
    return track != NULL && track->state == state;
}

static uint64_t own_word(const struct gpuring_tracks *tracks)
{
    /* Partner: gpuring_track_leave. */
    uint64_t word = __atomic_load_n(&tracks->used, __ATOMIC_ACQUIRE);

    for (int i = 0; i < GPURING_TRACKS; i++) {
        bool lost = is_in_state(tracks->all[i], GPURING_STATE_FAILED) ||
                    is_in_state(tracks->all[i], GPURING_STATE_DEAD);

        word |= lost ? UINT64_C(1) << i : 0;
    }
    return tracks->spare != NULL ? word : word | NO_MEMORY;
}

/* Agree on a track, and set *track to it, or to NULL if there is none. */
static int choose(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                  mca_coll_gpuring_module_t **track, enum gpuring_reason *reason)
{
    struct gpuring_tracks *tracks = &module->serve->tracks;
    struct gpuring_pending pending = {.asks = GPURING_ASKS_WORD};
    int status, at;

    *track = NULL;
    if (tracks->spare == NULL) {
        tracks->spare = module->add_track(module);
    }
    pending.vote = own_word(tracks);
    status = gpuring_progress_call(module, call, &pending, GPURING_PERSISTENT, reason);
    if (status != GPURING_OK || *reason != GPURING_REASON_NONE || pending.vote >= ALL_TRACKS) {
        return status;
    }
    at = __builtin_ctzll(~pending.vote);
    if (tracks->all[at] == NULL) {
        tracks->all[at] = tracks->spare;
        tracks->all[at]->oob->track = at + 1;
        tracks->spare = NULL;
    }
    __atomic_fetch_or(&tracks->used, UINT32_C(1) << at, __ATOMIC_RELAXED);
    *track = tracks->all[at];
    return GPURING_OK;
}

/* Connect the track for a call. If that is not possible for mapped buffers, the call works without
 * them. All ranks get the same result. */
static int connect_track(mca_coll_gpuring_module_t *track, const struct gpuring_call *call,
                         struct gpuring_mapping **mapping, enum gpuring_reason *reason)
{
    struct gpuring_pending pending = {.asks = GPURING_ASKS_NOBODY};
    struct gpuring_call own = *call;
    int status;

    own.selected = false; /* the track has its own connections */
    own.mapping = *mapping;
    status = gpuring_progress_call(track, &own, &pending, GPURING_PERSISTENT, reason);
    if (status == GPURING_OK && *reason == GPURING_REASON_DEAD && *mapping != NULL) {
        gpuring_mapping_free(*mapping);
        *mapping = own.mapping = NULL;
        *reason = GPURING_REASON_NONE;
        status = gpuring_progress_call(track, &own, &pending, GPURING_PERSISTENT, reason);
    }
    return status;
}

int gpuring_track_take(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                       mca_coll_gpuring_module_t **track, struct gpuring_mapping **mapping,
                       enum gpuring_reason *reason)
{
    int status = choose(module, call, track, reason);

    *mapping = NULL;
    if (*track == NULL) {
        *reason = *reason == GPURING_REASON_NONE ? GPURING_REASON_TRACKS : *reason;
        return status;
    }
    status = gpuring_offers_exchange(module, call, mapping);
    if (status == GPURING_OK) {
        status = connect_track(*track, call, mapping, reason);
    }
    if (status != GPURING_OK || *reason != GPURING_REASON_NONE) {
        gpuring_mapping_free(*mapping);
        gpuring_track_leave(*track);
        *mapping = NULL;
        *track = NULL;
        return status;
    }
    /* Earlier calls of this track, with or without a mapping, may have had the same shape. */
    gpuring_engine_forget((*track)->engine);
    return GPURING_OK;
}

void gpuring_track_leave(mca_coll_gpuring_module_t *track)
{
    __atomic_fetch_and(&track->owner->serve->tracks.used, ~(UINT32_C(1) << (track->oob->track - 1)),
                       __ATOMIC_RELEASE);
}

bool gpuring_tracks_failed(const struct gpuring_tracks *tracks)
{
    bool failed = false;

    for (int i = 0; i < GPURING_TRACKS; i++) {
        failed = failed || is_in_state(tracks->all[i], GPURING_STATE_FAILED);
    }
    return failed;
}

void gpuring_tracks_close(struct gpuring_tracks *tracks)
{
    for (int i = 0; i < GPURING_TRACKS; i++) {
        if (tracks->all[i] != NULL) {
            OBJ_RELEASE(tracks->all[i]);
        }
    }
    if (tracks->spare != NULL) {
        OBJ_RELEASE(tracks->spare);
    }
}
