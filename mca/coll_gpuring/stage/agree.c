/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/stage/agree.h"

#include <stdlib.h>
#include <time.h>

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/oob/oob.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/util/backoff.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define LOOKS_PER_CLOCK 256 /* vain ones */
#define TELL_SECONDS    300 /* with coll_gpuring_timeout 0 */

/* What the first ranks of two groups tell each other. */
struct letter {
    uint64_t facts;
    int32_t failure, rank;
};
_Static_assert(sizeof(struct letter) == 16, "travels between ranks");

enum phase { OURS, ACROSS, THEIRS, END };

struct gpuring_agreement {
    struct ompi_communicator_t *comm;
    struct gpuring_oob *oob; /* in this group */
    int tag;
    bool alone; /* the root of the call: it is its group */
    int leader; /* the rank of the other group that the letters go to */
    enum phase phase;
    bool posted; /* the letters are on their way */
    ompi_request_t *sent, *received;
    struct letter out, in;
    struct gpuring_verdict verdict;
    unsigned looks; /* vain ones */
    time_t since;   /* when the clock was first read; 0: not yet */
    bool told;      /* that it takes long */
};

struct gpuring_agreement *gpuring_agreement_create(void)
{
    struct gpuring_agreement *agreement = calloc(1, sizeof *agreement);

    if (agreement == NULL) {
        return NULL;
    }
    agreement->oob = gpuring_oob_create();
    if (agreement->oob == NULL) {
        free(agreement);
        return NULL;
    }
    return agreement;
}

void gpuring_agreement_use(struct gpuring_agreement *agreement, struct ompi_communicator_t *comm,
                           int tag)
{
    agreement->comm = comm;
    agreement->tag = tag;
    agreement->phase = END;
    gpuring_oob_use(agreement->oob, OMPI_COMM_IS_INTER(comm) ? comm->c_local_comm : comm, tag);
}

void gpuring_agreement_free(struct gpuring_agreement *agreement)
{
    bool sent, received;

    if (agreement == NULL) {
        return;
    }
    gpuring_oob_free(agreement->oob);
    sent = gpuring_message_cancel(&agreement->sent);
    received = gpuring_message_cancel(&agreement->received);
    if (sent && received) {
        free(agreement);
    } /* else a letter may still arrive or leave: it must find its memory */
}

/* The facts and the failure of this group are to be made out. */
static void begin_group(struct gpuring_agreement *self, int failure, int rank, uint64_t facts)
{
    if (failure != GPURING_OK) {
        self->oob->mark = (uint32_t) rank;
        gpuring_oob_fail(self->oob, failure);
    }
    gpuring_oob_agree(self->oob, facts);
}

void gpuring_agreement_begin(struct gpuring_agreement *agreement, struct gpuring_party party,
                             int failure, uint64_t facts)
{
    int rank = ompi_comm_rank(agreement->comm);

    agreement->verdict = (struct gpuring_verdict){.failure = GPURING_OK};
    agreement->alone = party.rooted && party.root == MPI_ROOT;
    agreement->leader = party.rooted && !agreement->alone ? party.root : 0;
    agreement->phase = agreement->alone ? ACROSS : OURS;
    agreement->posted = false;
    agreement->in = (struct letter){.failure = GPURING_OK};
    agreement->looks = 0;
    agreement->since = 0;
    agreement->told = false;
    if (agreement->alone) {
        agreement->verdict =
            (struct gpuring_verdict){.failure = failure, .rank = rank, .facts = facts};
    } else {
        begin_group(agreement, failure, rank, facts);
    }
}

/* The group has made it out; the first failure counts. */
static int end_group(struct gpuring_agreement *self, bool remote)
{
    struct gpuring_verdict *verdict = &self->verdict;
    int status = gpuring_oob_progress(self->oob), failure;

    if (status != GPURING_OK) {
        return status;
    }
    failure = gpuring_oob_failure(self->oob, NULL);
    if (failure != GPURING_OK && verdict->failure == GPURING_OK) {
        verdict->failure = failure;
        verdict->rank = (int) self->oob->failure.mark;
        verdict->remote = remote;
    }
    verdict->facts |= self->oob->words[0];
    gpuring_oob_forget(self->oob);
    return GPURING_OK;
}

static int post_letters(struct gpuring_agreement *self)
{
    int status;

    self->posted = true;
    self->out = (struct letter){
        .facts = self->verdict.facts, .failure = self->verdict.failure, .rank = self->verdict.rank};
    status = gpuring_message_receive(self->comm, &self->in, sizeof self->in, self->leader,
                                     self->tag, &self->received);
    return status != GPURING_OK ? status
                                : gpuring_message_send(self->comm, &self->out, sizeof self->out,
                                                       self->leader, self->tag, &self->sent);
}

/* One rank of a group hears of the other one here. */
static int cross(struct gpuring_agreement *self)
{
    int status = GPURING_OK;

    if (ompi_comm_rank(self->comm) != 0 && !self->alone) {
        return GPURING_OK;
    }
    if (!self->posted) {
        status = post_letters(self);
    }
    if (status == GPURING_OK) {
        status = gpuring_message_finish(&self->received, NULL);
    }
    return status == GPURING_OK ? gpuring_message_finish(&self->sent, NULL) : status;
}

/* The root has heard of the other group, and nobody hears of it but the root. */
static void end_alone(struct gpuring_agreement *self)
{
    struct gpuring_verdict *verdict = &self->verdict;

    if (verdict->failure == GPURING_OK && self->in.failure != GPURING_OK) {
        verdict->failure = self->in.failure;
        verdict->rank = self->in.rank;
        verdict->remote = true;
    }
    verdict->facts |= self->in.facts;
    self->phase = END;
}

static int move_on(struct gpuring_agreement *self)
{
    int status = GPURING_OK;

    if (self->phase == OURS) {
        status = end_group(self, false);
        if (status == GPURING_OK) {
            self->phase = OMPI_COMM_IS_INTER(self->comm) ? ACROSS : END;
        }
    }
    if (self->phase == ACROSS) {
        status = cross(self);
        if (status == GPURING_OK && self->alone) {
            end_alone(self);
        } else if (status == GPURING_OK) {
            begin_group(self, self->in.failure, self->in.rank, self->in.facts);
            self->phase = THEIRS;
        }
    }
    if (self->phase == THEIRS) {
        status = end_group(self, true);
        if (status == GPURING_OK) {
            self->phase = END;
        }
    }
    return status;
}

/* Once, when it has taken long: what is awaited. It goes on, for a rank may be late. */
static void tell_waiting(struct gpuring_agreement *self)
{
    time_t limit = gpuring_params.timeout > 0 ? gpuring_params.timeout : TELL_SECONDS;
    bool across = self->phase == ACROSS;
    int rank = across ? self->leader : gpuring_oob_awaits(self->oob);
    time_t now = (time_t) gpuring_now();

    self->since = self->since == 0 ? now : self->since;
    if (now - self->since < limit) {
        return;
    }
    self->told = true;
    gpuring_warn("communicator %s, rank %d: a call that may be staged waits for rank %d%s on host "
                 "%s since %ld s, and goes on waiting: the ranks agree on its outcome "
                 "(coll_gpuring_agree=always). Has that rank made the call, and has it the same "
                 "value of the parameter?",
                 self->comm->c_name, ompi_comm_rank(self->comm), rank,
                 across ? " of the other group" : "", gpuring_compat_host(self->comm, rank, across),
                 (long) (now - self->since));
}

int gpuring_agreement_progress(struct gpuring_agreement *agreement, struct gpuring_verdict *verdict)
{
    int status = move_on(agreement);

    if (status == GPURING_AGAIN && ++agreement->looks % LOOKS_PER_CLOCK == 0 && !agreement->told) {
        tell_waiting(agreement);
    }
    if (status < 0) {
        agreement->phase = END;
        agreement->verdict.failure = status;
        agreement->verdict.rank = ompi_comm_rank(agreement->comm);
        agreement->verdict.remote = false;
        agreement->verdict.lost = true;
    }
    if (status != GPURING_AGAIN) {
        *verdict = agreement->verdict;
    }
    return status;
}

struct gpuring_verdict gpuring_agreement_wait(struct gpuring_agreement *agreement,
                                              struct gpuring_party party, int failure,
                                              uint64_t facts)
{
    struct gpuring_verdict verdict = {.failure = GPURING_OK};
    struct gpuring_backoff pause = {.vain = 0};

    gpuring_agreement_begin(agreement, party, failure, facts);
    while (gpuring_agreement_progress(agreement, &verdict) == GPURING_AGAIN) {
        opal_progress();
        gpuring_backoff(&pause, agreement->oob->steps, false);
    }
    return verdict;
}
