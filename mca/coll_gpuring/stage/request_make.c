/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* How the requests of staged calls are made, started and freed. */
#include "mca/coll_gpuring/stage/request_state.h"

#include "mca/coll_gpuring/oob/oob.h"
#include "mca/coll_gpuring/request.h"
#include "mca/coll_gpuring/stage/agree.h"
#include "mca/coll_gpuring/stage/notice.h"
#include "mca/coll_gpuring/stage/request.h"
#include "mca/coll_gpuring/util/status.h"

static void construct(gpuring_stage_request_t *self)
{
    self->agreement = NULL;
    self->link = NULL;
}

static void destruct(gpuring_stage_request_t *self)
{
    gpuring_agreement_free(self->agreement);
}

OBJ_CLASS_INSTANCE(gpuring_stage_request_t, ompi_request_t, construct, destruct);

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

static gpuring_stage_request_t *request_new(void)
{
    gpuring_stage_request_t *self = OBJ_NEW(gpuring_stage_request_t);

    return self != NULL ? self : take_spare();
}

void gpuring_stage_spares_close(void)
{
    for (gpuring_stage_request_t *spare = take_spare(); spare != NULL; spare = take_spare()) {
        OBJ_RELEASE(spare);
    }
}

static int restart(gpuring_stage_request_t *self)
{
    int result = MPI_SUCCESS;

    if (self->inner == NULL) { /* abandoned */
        return MPI_ERR_REQUEST;
    }
    self->stage.start++;
    self->stage.noticed = self->stage.absent;
    gpuring_stage_attach(&self->stage);
    (void) gpuring_stage_fetch(&self->stage); /* what fails is told when it is complete */
    self->state = HELD;
    if (self->stage.receipt == NULL) {
        result = gpuring_stage_request_begin(self);
    }
    if (result == MPI_SUCCESS) {
        gpuring_stage_request_activate(self);
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

int gpuring_stage_request_free(ompi_request_t **request)
{
    gpuring_stage_request_t *self = (gpuring_stage_request_t *) *request;

    if ((*request)->req_persistent && !gpuring_request_active(*request)) {
        if (self->inner != NULL) {
            ompi_request_free(&self->inner);
        }
        gpuring_stage_release(&self->stage);
        gpuring_stage_request_forget(self);
    }
    return gpuring_request_free(request);
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
    verdict = gpuring_agreement_wait(staging->nonblocking, stage->party, status, 0);
    __atomic_store_n(&staging->ended, turn + 1, __ATOMIC_RELEASE);
    gpuring_stage_tell(stage->module, stage->what, &verdict, "failed on all ranks");
    return verdict.failure;
}

/* No memory for a request, nor a spare one: the call, which the other ranks take part in, ends
 * here. A persistent one has not begun; to free what was made is local, and the others are told
 * that this rank takes no part. */
static int finish_without_request(struct gpuring_stage *stage, ompi_request_t *inner,
                                  bool persistent, uint32_t turn, ompi_request_t **request)
{
    int result = MPI_SUCCESS, status;

    if (persistent) {
        gpuring_notice_give(stage, GPURING_ERR_NOMEM, GPURING_NOTICE_ABSENT);
        ompi_request_free(&inner);
        gpuring_stage_release(stage);
        return MPI_ERR_NO_MEM;
    }
    *request = &ompi_request_empty;
    if (stage->deferred) {
        gpuring_notices_wait(stage);
        result = inner->req_type != OMPI_REQUEST_NOOP ? inner->req_start(1, &inner) : MPI_SUCCESS;
    }
    if (result == MPI_SUCCESS) {
        result = ompi_request_wait(&inner, MPI_STATUS_IGNORE);
    }
    if (stage->deferred) {
        ompi_request_free(&inner);
    }
    status = gpuring_stage_close_here(stage, result);
    if (stage->agrees) {
        status = agree_now(stage, turn, status);
    } else {
        gpuring_notice_mail_look();
        status = gpuring_stage_requests_settle(stage, status);
    }
    return result == OMPI_SUCCESS ? gpuring_compat_error(status) : result;
}

int gpuring_stage_request(struct gpuring_stage *stage, int result, ompi_request_t *inner,
                          ompi_request_t **request)
{
    gpuring_stage_request_t *self = stage->request;
    bool persistent = inner != NULL && inner->req_persistent && !stage->deferred;
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
    if (!persistent && stage->agrees) {
        turn = stage->module->staging.begun++;
    }
    stage->request = NULL;
    self = self != NULL ? self : request_new();
    if (self == NULL) {
        return finish_without_request(stage, inner, persistent, turn, request);
    }
    gpuring_request_construct(&self->super, stage->module->comm, persistent,
                              gpuring_stage_request_free, request_start);
    self->stage = *stage;
    self->inner = inner;
    self->error = MPI_SUCCESS;
    self->turn = turn;
    if (persistent) {
        gpuring_stage_request_keep(self);
    } else {
        self->state = stage->deferred ? HELD : RUNNING;
        gpuring_stage_request_activate(self);
    }
    *request = gpuring_stage_request_base(self);
    return OMPI_SUCCESS;
}
