/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Requests of staged calls. Each holds the previous module's request on the places:
 *
 *     RUNNING    until that one is complete        COPYING  until the result is with the user
 *     WAITING    until it is its turn to agree     AGREEING with the other ranks on the outcome
 *
 * The last two with module->together. Non-blocking calls of a communicator agree one after the
 * other, in the order of the calls; persistent ones, which may be started in any order, have an
 * agreement each.
 *
 * The data is copied in before the previous module's function or its start is called, not
 * asynchronously: the order of those calls is what pairs them with the other ranks'.
 */
#include "mca/coll_gpuring/gpuring.h"
#include "mca/coll_gpuring/request.h"
#include "mca/coll_gpuring/message.h"
#include "mca/coll_gpuring/stage.h"
#include "mca/coll_gpuring/stage_agree.h"
#include "mca/coll_gpuring/stage_request.h"
#include "mca/coll_gpuring/util/status.h"

struct gpuring_stage_request {
    struct gpuring_collective_request super;
    struct gpuring_stage stage;
    ompi_request_t *inner; /* the previous module's */
    enum { RUNNING, COPYING, WAITING, AGREEING } state;
    int status;                          /* of this rank's part; 0 or a gpuring_status */
    int error;                           /* MPI error code of the call */
    uint32_t turn;                       /* among the non-blocking calls of the communicator; or: */
    struct gpuring_agreement *agreement; /* a persistent one's own */
    struct gpuring_stage_request *next;
};
typedef struct gpuring_stage_request gpuring_stage_request_t;

static void construct(gpuring_stage_request_t *self)
{
    self->agreement = NULL;
}

static void destruct(gpuring_stage_request_t *self)
{
    gpuring_agreement_free(self->agreement);
}

static OBJ_CLASS_INSTANCE(gpuring_stage_request_t, ompi_request_t, construct, destruct);

/* The active ones; under its lock. */
static struct {
    pthread_mutex_t lock;
    gpuring_stage_request_t *first, **last;
    bool registered;
} active = {.lock = PTHREAD_MUTEX_INITIALIZER, .last = &active.first};

/*
 * Requests for calls that find no memory, of the whole process, as the shortage is: a call that has
 * none would have to end before it returns, which the other ranks need not be able to do in the
 * order of their calls.
 */
#define SPARES 8
static struct {
    pthread_mutex_t lock; /* guards all; count is atomic, too */
    gpuring_stage_request_t *first;
    int count;
} spares = {.lock = PTHREAD_MUTEX_INITIALIZER};

void gpuring_stage_requests_reserve(void)
{
    gpuring_stage_request_t *spare = NULL;

    if (__atomic_load_n(&spares.count, __ATOMIC_RELAXED) == SPARES) {
        return;
    }
    pthread_mutex_lock(&spares.lock);
    while (spares.count < SPARES && (spare = OBJ_NEW(gpuring_stage_request_t)) != NULL) {
        spare->next = spares.first;
        spares.first = spare;
        __atomic_store_n(&spares.count, spares.count + 1, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&spares.lock);
}

static gpuring_stage_request_t *take_spare(void)
{
    gpuring_stage_request_t *spare;

    pthread_mutex_lock(&spares.lock);
    spare = spares.first;
    if (spare != NULL) {
        spares.first = spare->next;
        __atomic_store_n(&spares.count, spares.count - 1, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&spares.lock);
    return spare;
}

static ompi_request_t *base_of(gpuring_stage_request_t *self)
{
    return &self->super.super;
}

/* The call is done. */
static bool finish(gpuring_stage_request_t *self, int status)
{
    if (self->error == MPI_SUCCESS && status != GPURING_OK) {
        self->error = gpuring_compat_error(status);
    }
    if (base_of(self)->req_persistent) {
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
        gpuring_agreement_begin(agreement, self->status, 0);
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

/* Move one on; true: it is done. */
static bool advance(gpuring_stage_request_t *self)
{
    int status;

    if (self->state >= WAITING) {
        return agree(self);
    }
    if (self->state == RUNNING) {
        if (!REQUEST_COMPLETE(self->inner)) {
            return false;
        }
        self->error = self->inner->req_status.MPI_ERROR;
        status = gpuring_stage_failure(&self->stage);
        if (base_of(self)->req_persistent) {
            self->inner->req_state = OMPI_REQUEST_INACTIVE;
        } else {
            ompi_request_free(&self->inner);
        }
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
        struct ompi_communicator_t *comm = base_of(done)->req_mpi_object.comm;

        base_of(done)->req_status.MPI_ERROR = done->error;
        ompi_request_complete(base_of(done), true);
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

    if (__atomic_load_n(&active.first, __ATOMIC_RELAXED) == NULL ||
        pthread_mutex_trylock(&active.lock) != 0) {
        return 0;
    }
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

/* The previous module works on it now. */
static void activate(gpuring_stage_request_t *self)
{
    self->next = NULL;
    self->state = RUNNING;
    gpuring_request_activate(base_of(self));
    OBJ_RETAIN(base_of(self)->req_mpi_object.comm); /* until it is complete */
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
    for (gpuring_stage_request_t *spare = take_spare(); spare != NULL; spare = take_spare()) {
        OBJ_RELEASE(spare);
    }
}

static int restart(gpuring_stage_request_t *self)
{
    int result = MPI_SUCCESS;

    self->stage.failed = self->stage.lacking;
    (void) gpuring_stage_fetch(&self->stage); /* what fails is told when it is complete */
    /* A module that has nothing to do for a call gives a request without functions. */
    if (self->inner->req_type != OMPI_REQUEST_NOOP) {
        result = self->inner->req_start(1, &self->inner);
    }
    if (result == MPI_SUCCESS) {
        activate(self);
    } else {
        gpuring_stage_rest(&self->stage);
    }
    return result;
}

/* MPI_Start and MPI_Startall. */
static int request_start(size_t count, ompi_request_t **requests)
{
    for (size_t i = 0; i < count; i++) {
        int result = gpuring_request_active(requests[i])
                         ? MPI_ERR_REQUEST
                         : restart((gpuring_stage_request_t *) requests[i]);

        if (result != MPI_SUCCESS) {
            return result;
        }
    }
    return OMPI_SUCCESS;
}

static int request_free(ompi_request_t **request)
{
    gpuring_stage_request_t *self = (gpuring_stage_request_t *) *request;

    if ((*request)->req_persistent && !gpuring_request_active(*request)) {
        ompi_request_free(&self->inner);
        gpuring_stage_release(&self->stage);
    }
    return gpuring_request_free(request);
}

static gpuring_stage_request_t *request_new(void)
{
    gpuring_stage_request_t *self = OBJ_NEW(gpuring_stage_request_t);

    return self != NULL ? self : take_spare();
}

int gpuring_stage_request_take(struct gpuring_stage *stage)
{
    stage->request = request_new();
    if (stage->request != NULL) {
        stage->request->agreement = gpuring_agreement_create();
    }
    return stage->request != NULL && stage->request->agreement != NULL ? GPURING_OK
                                                                       : GPURING_ERR_NOMEM;
}

void gpuring_stage_request_name(struct gpuring_stage *stage)
{
    mca_coll_gpuring_module_t *module = stage->module;

    gpuring_agreement_use(stage->request->agreement, module->comm,
                          GPURING_TAG_PERSISTENT(module->staging.persistent++));
}

void gpuring_stage_request_drop(struct gpuring_stage *stage)
{
    if (stage->request != NULL) {
        OBJ_RELEASE(stage->request);
        stage->request = NULL;
    }
}

/* Agree without a request, when it is this call's turn. */
static int agree_now(struct gpuring_stage *stage, uint32_t turn, int status)
{
    struct gpuring_staging *staging = &stage->module->staging;
    struct gpuring_verdict verdict;

    while (__atomic_load_n(&staging->ended, __ATOMIC_ACQUIRE) != turn) {
        opal_progress();
    }
    verdict = gpuring_agreement_wait(staging->nonblocking, status, 0);
    __atomic_store_n(&staging->ended, turn + 1, __ATOMIC_RELEASE);
    gpuring_stage_tell(stage->module, stage->what, &verdict, "failed on all ranks");
    return verdict.failure;
}

/* No memory for a request, nor a spare one: the call, which the other ranks take part in, ends
 * here. A persistent one has not begun; to free what was made is local. */
static int finish_without_request(struct gpuring_stage *stage, ompi_request_t *inner, uint32_t turn,
                                  ompi_request_t **request)
{
    int result, status;

    if (inner->req_persistent) {
        ompi_request_free(&inner);
        gpuring_stage_release(stage);
        return MPI_ERR_NO_MEM;
    }
    *request = &ompi_request_empty;
    result = ompi_request_wait(&inner, MPI_STATUS_IGNORE);
    status = gpuring_stage_close_here(stage, result);
    if (stage->agrees) {
        status = agree_now(stage, turn, status);
    }
    return result == OMPI_SUCCESS ? gpuring_compat_error(status) : result;
}

int gpuring_stage_request(struct gpuring_stage *stage, int result, ompi_request_t *inner,
                          ompi_request_t **request)
{
    gpuring_stage_request_t *self = stage->request;
    uint32_t turn = 0;

    if (result != OMPI_SUCCESS) {
        gpuring_stage_release(stage);
        return result;
    }
    if (!gpuring_stage_uses_gpu(stage) && !stage->agrees) { /* at no rank, as all have agreed */
        gpuring_stage_request_drop(stage);
        *request = inner;
        return OMPI_SUCCESS;
    }
    if (!inner->req_persistent && stage->agrees) {
        turn = stage->module->staging.begun++;
    }
    stage->request = NULL;
    self = self != NULL ? self : request_new();
    if (self == NULL) {
        return finish_without_request(stage, inner, turn, request);
    }
    gpuring_request_construct(&self->super, stage->module->comm, inner->req_persistent,
                              request_free, request_start);
    self->stage = *stage;
    self->inner = inner;
    self->error = MPI_SUCCESS;
    self->turn = turn;
    if (!inner->req_persistent) {
        activate(self);
    }
    *request = base_of(self);
    return OMPI_SUCCESS;
}
