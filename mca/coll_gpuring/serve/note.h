/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Notes compare the calls of ranks of different nodes, which do not see each other's status pages
 * (differ.h). A rank that waits for long sends the words of its operations to the next rank of the
 * communicator, in a ring. Ranks of a node compare their calls among themselves. Therefore, if the
 * calls of two nodes differ, neighbours in the ring differ, too.
 *
 * A note is an MPI message on MPI_COMM_WORLD. On the communicator itself, a note could be in flight
 * when the receiver frees it, and Open MPI would deliver it to the next communicator with the same
 * number. A process posts the receive for all notes when it first uses them.
 *
 * Only threads that may call MPI call these functions.
 */
#ifndef GPURING_SERVE_NOTE_H
#define GPURING_SERVE_NOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/coll_gpuring/module.h"

#define GPURING_NOTE_SECONDS 1 /* of waiting, and between two notes of a communicator */
#define GPURING_NOTE_WORDS   8

struct gpuring_note {
    uint64_t id[2];  /* of the communicator's connections */
    uint64_t first;  /* number of the operation of words[0] */
    uint64_t before; /* hash of the words of all operations before it; 0: unknown */
    uint64_t words[GPURING_NOTE_WORDS];
    int32_t count, rank;
};
_Static_assert(sizeof(struct gpuring_note) == 104, "sent to other ranks");

/* Return true if notes are useful and possible: the ranks of the connected module are on several
 * nodes, and MPI_COMM_WORLD exists, which it does not in a program that uses only sessions. */
bool gpuring_notes_possible(const mca_coll_gpuring_module_t *module);

/* Let the process use notes. It is called before the other functions, by a thread that holds no
 * lock which another thread with an attribute of MPI may need. */
void gpuring_notes_open(void);

/* Send a note, with `first`, `before`, `words` and `count`, unless an earlier one of the process is
 * still being sent. Does not wait. */
void gpuring_note_send(const mca_coll_gpuring_module_t *module, struct gpuring_note *note);

/* Progress the messages of notes, if there are any. Called without locks. */
void gpuring_notes_progress(void);

/* Get the last note that was received for this module. Returns false if there is none. */
bool gpuring_note_take(const mca_coll_gpuring_module_t *module, struct gpuring_note *note);

#endif
