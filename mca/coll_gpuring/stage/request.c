/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* How the requests of staged calls move on. */
#include "mca/coll_gpuring/stage/request_state.h"

#include "mca/coll_gpuring/request.h"
#include "mca/coll_gpuring/stage/abandon.h"
#include "mca/coll_gpuring/stage/agree.h"
#include "mca/coll_gpuring/stage/notice.h"
#include "mca/coll_gpuring/stage/request.h"
#include "mca/coll_gpuring/util/status.h"

/* The active ones; under its lock, which also guards those that are abandoned. */
static struct {
    pthread_mutex_t lock;
    gpuring_stage_request_t *first, **last;
    gpuring_stage_request_t *kept; /* the persistent ones */
    bool registered;
} active = {.lock = PTHREAD_MUTEX_INITIALIZER, .last = &active.first};

/* Of a notice: is its call at work here, or will a persistent one be? With the lock held. */
static bool is_open(const mca_coll_gpuring_module_t *module, const struct gpuring_notice *notice)
{
    bool open = false;

    if ((notice->start & GPURING_STAGE_APART) != 0) {
        return false;
    }
    for (const gpuring_stage_request_t *i = active.first; i != NULL && !open; i = i->next) {
        open = i->stage.module == module && i->stage.call == notice->call &&
               i->stage.start == notice->start;
    }
    if ((notice->start & GPURING_STAGE_BESIDE) != 0) {
        return open;
    }
    for (const gpuring_stage_request_t *i = active.kept; i != NULL && !open; i = i->next_kept) {
        open = i->stage.module == module && i->stage.call == notice->call &&
               (i->stage.start < notice->start || notice->kind == GPURING_NOTICE_ABSENT);
    }
    return open;
}

int gpuring_stage_requests_settle(const struct gpuring_stage *stage, int status)
{
    if (!gpuring_notice_box_filled()) {
        return gpuring_notices_settle(stage, status, is_open);
    }
    pthread_mutex_lock(&active.lock);
    status = gpuring_notices_settle(stage, status, is_open);
    pthread_mutex_unlock(&active.lock);
    return status;
}

/* The call is done. */
static bool finish(gpuring_stage_request_t *self, int status)
{
    status = gpuring_notices_settle(&self->stage, status, is_open);
    if (self->error == MPI_SUCCESS && status != GPURING_OK) {
        self->error = gpuring_compat_error(status);
    }
    if (gpuring_stage_request_base(self)->req_persistent) {
        gpuring_stage_rest(&self->stage);
    } else {
        gpuring_stage_release(&self->stage);
    }
    return true;
}

static bool agree(gpuring_stage_request_t *self)
{
    struct gpuring_staging *staging = &self->stage.module->staging;
    bool own = self->agreement != NULL;
    struct gpuring_agreement *agreement = own ? self->agreement : staging->nonblocking;
    struct gpuring_verdict verdict;

    if (self->state == WAITING) {
        if (!own && __atomic_load_n(&staging->ended, __ATOMIC_ACQUIRE) != self->turn) {
            return false;
        }
        self->state = AGREEING;
        gpuring_agreement_begin(agreement, self->stage.party, self->status, 0);
    }
    if (gpuring_agreement_progress(agreement, &verdict) == GPURING_AGAIN) {
        return false;
    }
    if (!own) {
        __atomic_store_n(&staging->ended, self->turn + 1, __ATOMIC_RELEASE);
    }
    gpuring_stage_tell(self->stage.module, self->stage.what, &verdict, "failed on all ranks");
    return finish(self, verdict.failure);
}

/* The copies have ended or could not be started. */
static bool conclude(gpuring_stage_request_t *self, int status)
{
    if (!self->stage.agrees) {
        return finish(self, status);
    }
    self->status =
        self->error == MPI_SUCCESS || status != GPURING_OK ? status : GPURING_ERR_ABORTED;
    self->state = WAITING;
    return agree(self);
}

/* Open MPI gives up its references to types and operations when the request ends, but the previous
 * module goes on with them: they are never given up. */
static void keep_objects(gpuring_stage_request_t *self)
{
    if (gpuring_stage_request_base(self)->req_persistent) {
        gpuring_stage_request_base(self)->req_free = gpuring_stage_request_free;
    } else {
        gpuring_stage_request_base(self)->req_complete_cb = NULL;
    }
}

/* The previous module is not done, and perhaps never is. Where the ranks agree, the verdict is to
 * name the rank that takes no part. */
static bool end_without(gpuring_stage_request_t *self)
{
    int status = gpuring_stage_look_for_absence(&self->stage, &self->inner);

    if (status == GPURING_OK) {
        return false;
    }
    keep_objects(self);
    return conclude(self, self->stage.agrees ? GPURING_OK : status);
}

int gpuring_stage_request_begin(gpuring_stage_request_t *self)
{
    self->state = RUNNING;
    /* A module that has nothing to do for a call gives a request without functions. */
    return self->inner->req_type != OMPI_REQUEST_NOOP ? self->inner->req_start(1, &self->inner)
                                                      : MPI_SUCCESS;
}

/* The previous module is done with it. */
static void put_inner(gpuring_stage_request_t *self)
{
    if (self->inner->req_persistent) {
        self->inner->req_state = OMPI_REQUEST_INACTIVE;
    }
    if (!gpuring_stage_request_base(self)->req_persistent) {
        ompi_request_free(&self->inner);
    }
}

/* Move one on; true: it is done. */
static bool advance(gpuring_stage_request_t *self)
{
    int status;

    if (self->state >= WAITING) {
        return agree(self);
    }
    if (self->state == HELD) {
        if (!gpuring_notices_answered(&self->stage)) {
            return false;
        }
        self->error = gpuring_stage_request_begin(self);
        if (self->error != MPI_SUCCESS) {
            put_inner(self);
            return conclude(self, gpuring_stage_failure(&self->stage));
        }
    }
    if (self->state == RUNNING) {
        if (!REQUEST_COMPLETE(self->inner)) {
            return end_without(self);
        }
        self->error = self->inner->req_status.MPI_ERROR;
        status = gpuring_stage_failure(&self->stage);
        put_inner(self);
        if (self->error != MPI_SUCCESS || status != GPURING_OK) {
            return conclude(self, status);
        }
        status = gpuring_stage_start_out(&self->stage);
        if (status != GPURING_OK) {
            return conclude(self, gpuring_stage_deliver(&self->stage));
        }
        self->state = COPYING;
    }
    status = gpuring_stage_poll(&self->stage);
    if (status == GPURING_AGAIN) {
        return false;
    }
    return conclude(self, status == GPURING_OK ? status : gpuring_stage_deliver(&self->stage));
}

/* Tell Open MPI. Outside of the lock: it may end in a user's callback or free a communicator. */
static int complete_all(gpuring_stage_request_t *done)
{
    int count = 0;

    while (done != NULL) {
        gpuring_stage_request_t *next = done->next;
        struct ompi_communicator_t *comm = gpuring_stage_request_base(done)->req_mpi_object.comm;

        gpuring_stage_request_base(done)->req_status.MPI_ERROR = done->error;
        ompi_request_complete(gpuring_stage_request_base(done), true);
        OBJ_RELEASE(comm); /* of the start */
        count++;
        done = next;
    }
    return count;
}

/* Called by opal_progress, by several threads at once. */
static int progress_callback(void)
{
    gpuring_stage_request_t *done = NULL, **end = &done, **link = &active.first, *self;

    if ((__atomic_load_n(&active.first, __ATOMIC_RELAXED) == NULL &&
         !gpuring_stage_abandoned_any()) ||
        pthread_mutex_trylock(&active.lock) != 0) {
        return 0;
    }
    gpuring_notice_mail_look();
    gpuring_stage_abandoned_clear();
    while ((self = *link) != NULL) {
        if (advance(self)) {
            *link = self->next;
            self->next = NULL;
            *end = self;
            end = &self->next;
        } else {
            link = &self->next;
        }
    }
    active.last = link;
    pthread_mutex_unlock(&active.lock);
    return complete_all(done);
}

void gpuring_stage_request_activate(gpuring_stage_request_t *self)
{
    self->next = NULL;
    gpuring_request_activate(gpuring_stage_request_base(self));
    OBJ_RETAIN(gpuring_stage_request_base(self)->req_mpi_object.comm); /* until it is complete */
    pthread_mutex_lock(&active.lock);
    __atomic_store_n(active.last, self, __ATOMIC_RELAXED);
    active.last = &self->next;
    if (!active.registered) {
        active.registered = opal_progress_register(progress_callback) == OPAL_SUCCESS;
    }
    pthread_mutex_unlock(&active.lock);
}

void gpuring_stage_requests_close(void)
{
    pthread_mutex_lock(&active.lock);
    if (active.registered) {
        opal_progress_unregister(progress_callback);
        active.registered = false;
    }
    pthread_mutex_unlock(&active.lock);
    gpuring_stage_spares_close();
    gpuring_stage_abandoned_close();
}

void gpuring_stage_request_keep(gpuring_stage_request_t *self)
{
    pthread_mutex_lock(&active.lock);
    self->next_kept = active.kept;
    self->link = &active.kept;
    if (self->next_kept != NULL) {
        self->next_kept->link = &self->next_kept;
    }
    active.kept = self;
    pthread_mutex_unlock(&active.lock);
}

void gpuring_stage_request_forget(gpuring_stage_request_t *self)
{
    pthread_mutex_lock(&active.lock);
    *self->link = self->next_kept;
    if (self->next_kept != NULL) {
        self->next_kept->link = self->link;
    }
    pthread_mutex_unlock(&active.lock);
}
