/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/note.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/oob/oob.h"
#include "mca/coll_gpuring/util/status.h"

#define KEPT 16 /* notes of different communicators that were not taken; older ones are lost */

static struct {
    pthread_mutex_t lock; /* guards all */
    bool open, ended;     /* ended: MPI_Finalize was called, or MPI reported an error */
    unsigned progressing; /* number of threads in opal_progress */
    struct gpuring_message in, out;
    struct gpuring_note received, sent;
    struct gpuring_note kept[KEPT]; /* count 0: none */
    unsigned next;
} notes = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Cancel the messages at the beginning of MPI_Finalize, and wait until no thread progresses MPI for
 * them. */
static void notes_close(void)
{
    pthread_mutex_lock(&notes.lock);
    notes.ended = true;
    (void) gpuring_message_mpi.cancel(&notes.in);
    (void) gpuring_message_mpi.cancel(&notes.out);
    while (notes.progressing > 0) {
        pthread_mutex_unlock(&notes.lock);
        sched_yield();
        pthread_mutex_lock(&notes.lock);
    }
    pthread_mutex_unlock(&notes.lock);
}

/* Keep a note instead of an earlier one of the same communicator, or instead of the oldest. */
static void keep_note(const struct gpuring_note *note)
{
    unsigned at = 0;

    while (at < KEPT && memcmp(notes.kept[at].id, note->id, sizeof note->id) != 0) {
        at++;
    }
    notes.kept[at < KEPT ? at : notes.next++ % KEPT] = *note;
}

static bool is_whole(const struct gpuring_note *note, size_t bytes)
{
    return bytes == sizeof *note && note->count > 0 && note->count <= GPURING_NOTE_WORDS;
}

void gpuring_notes_open(void)
{
    bool opened;

    pthread_mutex_lock(&notes.lock);
    opened = notes.open;
    notes.open = true;
    pthread_mutex_unlock(&notes.lock);
    if (!opened && !gpuring_compat_on_finalize(notes_close)) {
        notes_close();
    }
}

/* Receive what has arrived. Called with the lock. */
static void receive(void)
{
    int status = GPURING_OK;

    while (status == GPURING_OK && !notes.ended) {
        if (notes.in.request == NULL) {
            notes.in = (struct gpuring_message){
                .peer = MPI_ANY_SOURCE, .data = &notes.received, .bytes = sizeof notes.received};
            status = gpuring_message_mpi.start(MPI_COMM_WORLD, GPURING_TAG_NOTE, &notes.in);
        }
        if (status == GPURING_OK) {
            status = gpuring_message_mpi.finish(&notes.in);
        }
        if (status == GPURING_OK && is_whole(&notes.received, notes.in.bytes)) {
            keep_note(&notes.received);
        }
    }
    notes.ended = notes.ended || status < GPURING_OK;
}

void gpuring_notes_progress(void)
{
    bool exist;

    pthread_mutex_lock(&notes.lock);
    exist = notes.open && !notes.ended;
    notes.progressing += exist;
    pthread_mutex_unlock(&notes.lock);
    if (exist) {
        gpuring_message_mpi.progress();
        pthread_mutex_lock(&notes.lock);
        notes.progressing--;
        pthread_mutex_unlock(&notes.lock);
    }
}

bool gpuring_notes_possible(const mca_coll_gpuring_module_t *module)
{
    return module->engine->choice_config.nnodes > 1 && gpuring_compat_world_exists() &&
           gpuring_compat_world_rank(module->comm, (module->rank + 1) % module->nranks) >= 0;
}

void gpuring_note_send(const mca_coll_gpuring_module_t *module, struct gpuring_note *note)
{
    int status;

    memcpy(note->id, gpuring_transport_id(module->engine->transports[0]), sizeof note->id);
    note->rank = module->rank;
    pthread_mutex_lock(&notes.lock);
    receive();
    if (!notes.ended &&
        (notes.out.request == NULL || gpuring_message_mpi.finish(&notes.out) != GPURING_AGAIN)) {
        notes.sent = *note;
        notes.out = (struct gpuring_message){
            .peer = gpuring_compat_world_rank(module->comm, (module->rank + 1) % module->nranks),
            .sent = true,
            .data = &notes.sent,
            .bytes = sizeof notes.sent};
        status = gpuring_message_mpi.start(MPI_COMM_WORLD, GPURING_TAG_NOTE, &notes.out);
        notes.ended = status != GPURING_OK;
    }
    pthread_mutex_unlock(&notes.lock);
}

bool gpuring_note_take(const mca_coll_gpuring_module_t *module, struct gpuring_note *note)
{
    const uint64_t *id = gpuring_transport_id(module->engine->transports[0]);
    bool found = false;

    pthread_mutex_lock(&notes.lock);
    receive();
    for (int i = 0; i < KEPT && !found; i++) {
        found = notes.kept[i].count > 0 && memcmp(notes.kept[i].id, id, sizeof note->id) == 0;
        if (found) {
            *note = notes.kept[i];
        }
    }
    pthread_mutex_unlock(&notes.lock);
    return found;
}
