/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/differ.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mca/coll_gpuring/serve/note.h"
#include "mca/coll_gpuring/serve/serve.h"
#include "mca/coll_gpuring/util/status.h"

/* Fields of the word: lowest bit and mask. */
#define BYTES(word)     ((word) &GPURING_DIFFER_BYTES)
#define ROOT(word)      ((unsigned) ((word) >> 37 & 0xfff))
#define TYPE(word)      ((uint32_t) ((word) >> 49 & 0x3f))
#define OPERATION(word) ((uint32_t) ((word) >> 55 & 0xf))
#define FUNCTION(word)  ((unsigned) ((word) >> 59))

/* The MPI functions in the order of enum gpuring_staged. */
static const struct function {
    const char *name;
    bool rooted, reduces;
} functions[] = {
#define ROOTED_REDUCTION          false, true
#define ROOTED_REDUCE_SCATTER     false, true
#define ROOTED_REDUCE             true, true
#define ROOTED_BCAST              true, false
#define ROOTED_ROOTED             true, false
#define ROOTED_GATHERV            true, false
#define ROOTED_SCATTERV           true, false
#define ROOTED_EXCHANGE           false, false
#define ROOTED_ALLGATHERV         false, false
#define ROOTED_ALLTOALLV          false, false
#define ROOTED_ALLTOALLW          false, false
#define ROOTED_NEIGHBOR_ALLTOALLW false, false
#define FUNCTION_ROW(name, list)  {#name, ROOTED_##list},
    GPURING_STAGED_COLLECTIVES(FUNCTION_ROW){"reduce_local", false, true},
    {"barrier", false, false},
};
#define FUNCTIONS (sizeof functions / sizeof *functions)
_Static_assert(FUNCTIONS < 32 && GPURING_TYPE_COUNT <= 64 && GPURING_OP_COUNT <= 16,
               "the word has room for them");

void gpuring_differ_text(uint64_t word, char *text, size_t size)
{
    const struct function *function = &functions[FUNCTION(word) - 1];
    int used;

    if (FUNCTION(word) == 0 || FUNCTION(word) > FUNCTIONS) {
        snprintf(text, size, "another call");
        return;
    }
    used = snprintf(text, size, "MPI_%c%s", toupper((unsigned char) function->name[0]),
                    function->name + 1);
    if (BYTES(word) != GPURING_DIFFER_BYTES && strcmp(function->name, "barrier") != 0) {
        used += snprintf(text + used, size - (size_t) used, " of %llu bytes",
                         (unsigned long long) BYTES(word));
    }
    if (function->reduces && gpuring_op_info(OPERATION(word)) != NULL &&
        gpuring_type_info(TYPE(word)) != NULL) {
        used +=
            snprintf(text + used, size - (size_t) used, " (%s of %s)",
                     gpuring_op_info(OPERATION(word))->name, gpuring_type_info(TYPE(word))->name);
    }
    if (function->rooted) {
        snprintf(text + used, size - (size_t) used, ", root %u", ROOT(word));
    }
}

uint64_t gpuring_differ_peer(const struct gpuring_transport *transport, int peer, char *text,
                             size_t size)
{
    uint64_t operation, word;
    size_t used;

    gpuring_transport_peer_state(transport, peer, &operation, text, size);
    word = gpuring_transport_made(transport, peer, operation);
    if (word != 0) {
        char call[128];

        gpuring_differ_text(word, call, sizeof call);
        used = strlen(text);
        snprintf(text + used, size - used, " (%s)", call);
    }
    return operation;
}

void gpuring_differ_compare(uint64_t own, uint64_t other, struct gpuring_difference *difference)
{
    bool counts = (own & ~GPURING_DIFFER_BYTES) == (other & ~GPURING_DIFFER_BYTES);

    difference->status = counts ? GPURING_ERR_COUNTS : GPURING_ERR_CALLS;
    difference->code = counts ? "[counts-differ]" : "[calls-differ]";
    gpuring_differ_text(own, difference->own, sizeof difference->own);
    gpuring_differ_text(other, difference->other, sizeof difference->other);
}

int gpuring_differ_report(const mca_coll_gpuring_module_t *module, uint64_t own, int rank,
                          uint64_t other)
{
    struct gpuring_difference difference;
    char self[256];

    gpuring_module_text(module, self, sizeof self);
    gpuring_differ_compare(own, other, &difference);
    gpuring_compat_help("calls differ", difference.code, gpuring_process.hostname, (int) getpid(),
                        self, module->rank, difference.own, rank, difference.other);
    return difference.status;
}

static int look_at_operation(const mca_coll_gpuring_module_t *module)
{
    const struct gpuring_engine *engine = module->engine;
    uint64_t other = 0;
    int rank = engine->made == 0
                   ? -1
                   : gpuring_transport_differs(engine->current->program->transport,
                                               engine->operation, engine->made, &other);

    return rank < 0 ? GPURING_OK : gpuring_differ_report(module, engine->made, rank, other);
}

/*
 * Compare the next item, which waits for the vote of another rank, with an operation that the other
 * rank has started and this rank has not. If the other rank had made the call of the item before
 * that operation, its vote would be visible now.
 */
static int look_at_vote(mca_coll_gpuring_module_t *module)
{
    struct gpuring_item *item = gpuring_queue_next(&module->serve->queue);
    int rank = module->serve->missing;
    uint64_t other;

    if (item == NULL || item->pending.asks != GPURING_ASKS_PAGES || item->call.made == 0) {
        return GPURING_OK;
    }
    other =
        gpuring_transport_made(module->engine->transports[0], rank, module->engine->operation + 1);
    if (other == 0 ||
        gpuring_vote_poll(module, &item->call, &item->pending, &module->serve->missing,
                          &item->reason) ||
        module->serve->missing != rank) {
        return GPURING_OK;
    }
    return gpuring_differ_report(module, item->call.made, rank, other);
}

/* Compare the next item, whose connections are being made, with the operation of the same number
 * that another rank has started. The creation of a persistent call is not an operation. */
static int look_at_wireup(const mca_coll_gpuring_module_t *module)
{
    const struct gpuring_engine *engine = module->engine;
    const struct gpuring_item *item = gpuring_queue_next(&module->serve->queue);
    uint64_t other = 0;
    int rank;

    if (item == NULL || item->call.made == 0 || item->form == GPURING_PERSISTENT) {
        return GPURING_OK;
    }
    rank = gpuring_transport_differs(engine->transports[0], engine->operation + 1, item->call.made,
                                     &other);
    return rank < 0 ? GPURING_OK : gpuring_differ_report(module, item->call.made, rank, other);
}

int gpuring_differ_look(mca_coll_gpuring_module_t *module)
{
    if (module->state == GPURING_STATE_WIRING) {
        return look_at_wireup(module);
    }
    return module->engine->running ? look_at_operation(module) : look_at_vote(module);
}

/* Return the word of an operation of this rank, or 0. */
static uint64_t own_word(const mca_coll_gpuring_module_t *module, uint64_t operation)
{
    return gpuring_transport_made(module->engine->transports[0], module->rank, operation);
}

int gpuring_differ_look_far(const mca_coll_gpuring_module_t *module)
{
    uint64_t last = module->engine->operation;
    struct gpuring_note note = {.first =
                                    last > GPURING_NOTE_WORDS ? last - GPURING_NOTE_WORDS + 1 : 1};

    if (!module->engine->running || !gpuring_notes_possible(module)) {
        return GPURING_OK;
    }
    while (note.first + (uint64_t) note.count <= last) {
        note.words[note.count] = own_word(module, note.first + (uint64_t) note.count);
        note.count++;
    }
    gpuring_notes_open();
    gpuring_note_send(module, &note);
    if (!gpuring_note_take(module, &note)) {
        return GPURING_OK;
    }
    for (int i = 0; i < note.count; i++) {
        uint64_t own = own_word(module, note.first + (uint64_t) i);

        if (own != 0 && note.words[i] != 0 && own != note.words[i]) {
            return gpuring_differ_report(module, own, note.rank, note.words[i]);
        }
    }
    return GPURING_OK;
}
