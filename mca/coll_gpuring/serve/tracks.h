/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Tracks: the connections of persistent calls. MPI requires all ranks to create the persistent
 * calls of a communicator in the same order, but each rank may start them in a different order and
 * at different points among its other calls:
 *
 *     rank 0    start 1    start 2    MPI_Allreduce
 *     rank 1    start 2    MPI_Allreduce    start 1
 *
 * A rank may wait for its first call to complete before it starts the second one. Therefore no
 * fixed order of these calls is correct, and they must not share connections. Each persistent call
 * has a track until it is freed. A track is a further module of the same communicator, with a
 * separate queue, separate connections and separate message tags. Its functions are not in the
 * communicator's table. Only one call runs on it, so all ranks run the operations of the track in
 * the same order, and starting the call needs no message.
 *
 * Ranks may free persistent calls at different times. When a persistent call is created, the ranks
 * agree on the first track that is free on all of them. It keeps its connections for the next call,
 * and all tracks are closed together with the communicator's own module. If no track is free, the
 * call is delegated.
 *
 * A module's owner is the module in the communicator's table, which is the owner of itself.
 */
#ifndef GPURING_SERVE_TRACKS_H
#define GPURING_SERVE_TRACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/coll_gpuring/engine/reason.h"
#include "mca/coll_gpuring/util/message.h"

struct mca_coll_gpuring_module_t;
struct gpuring_call;
struct gpuring_mapping;

struct gpuring_tracks {
    struct mca_coll_gpuring_module_t *all[GPURING_TRACKS]; /* NULL: not used so far */
    struct mca_coll_gpuring_module_t *spare; /* the next track, allocated before the ranks agree */
    uint32_t used;                           /* bits of the tracks that have a call; atomic */
};

/*
 * Give a track to a persistent call, map its buffers if that makes it faster, and connect the ranks
 * for it. All ranks do so in the same order. Sets *track, and *mapping as in offers.h. Sets *track
 * to NULL and *reason to the reason for delegating the call if there is no track. Returns a
 * gpuring_status.
 */
int gpuring_track_take(struct mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                       struct mca_coll_gpuring_module_t **track, struct gpuring_mapping **mapping,
                       enum gpuring_reason *reason);

/* End the use of a track by a call that is not active. Any thread. */
void gpuring_track_leave(struct mca_coll_gpuring_module_t *track);

/* Return true if no call has a track of this module. */
static inline bool gpuring_tracks_idle(const struct gpuring_tracks *tracks)
{
    return __atomic_load_n(&tracks->used, __ATOMIC_ACQUIRE) == 0;
}

/* Return true if a call has failed on a track. */
bool gpuring_tracks_failed(const struct gpuring_tracks *tracks);

/* Release all tracks of a module. */
void gpuring_tracks_close(struct gpuring_tracks *tracks);

#endif
