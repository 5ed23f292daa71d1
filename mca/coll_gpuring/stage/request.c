/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Staged calls under way: all of them are watched, and the non-blocking and persistent ones are
 * moved on, by a progress callback. A request of ours holds the previous module's request, which
 * works on the bounce buffers:
 *
 *     IDLE       of a persistent call that is not started
 *     CALLING    until the previous module's request is complete
 *     COPYING    until the result is with the user
 *
 * The data is copied in before the previous module's function or its start is called, not
 * asynchronously: the order of those calls is what pairs them with the other ranks'.
 */
#include "mca/coll_gpuring/request.h"

#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/stage/call.h"
#include "mca/coll_gpuring/stage/stage.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/list.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define LOOKS_PER_CLOCK 64
#define REPORT_SECONDS  300                  /* without coll_gpuring_timeout */
#define AWAY            (5 * GPURING_SECOND) /* MPI was not called for so long: waits begin anew */

typedef struct gpuring_stage_request {
    struct gpuring_collective_request super;
    struct gpuring_stage stage;
    ompi_request_t *inner; /* the previous module's */
    enum { IDLE, CALLING, COPYING } phase;
    int outcome; /* MPI error code */
} stage_request_t;
static OBJ_CLASS_INSTANCE(stage_request_t, ompi_request_t, NULL, NULL);

static struct {
    pthread_mutex_t lock; /* guards all */
    struct gpuring_list list;
    bool registered;
    unsigned looks;
    uint64_t last; /* time of the last look at the clock */
} calls = {.lock = PTHREAD_MUTEX_INITIALIZER, .list = GPURING_LIST_INIT(calls.list)};

static ompi_request_t *base(stage_request_t *self)
{
    return &self->super.super;
}

/* The previous module is done: its request ends, and its result is copied out. A status. */
static int end_inner(stage_request_t *self)
{
    self->outcome = self->inner->req_status.MPI_ERROR;
    if (self->inner->req_persistent) {
        self->inner->req_state = OMPI_REQUEST_INACTIVE;
    }
    if (!base(self)->req_persistent) {
        ompi_request_free(&self->inner);
    }
    self->phase = COPYING;
    return self->outcome == MPI_SUCCESS ? gpuring_stage_start_out(&self->stage) : GPURING_OK;
}

/* Move one on; true: it is done, and holds what a persistent one needs for its next start. */
static bool advance(stage_request_t *self)
{
    int status = GPURING_OK;

    if (self->phase == CALLING) {
        if (!REQUEST_COMPLETE(self->inner)) {
            return false;
        }
        status = end_inner(self);
    }
    if (status == GPURING_OK) {
        status = gpuring_stage_poll_out(&self->stage);
    }
    if (status == GPURING_AGAIN) {
        return false;
    }
    if (self->outcome == MPI_SUCCESS) {
        self->outcome = gpuring_compat_error(status);
    }
    self->phase = IDLE;
    if (base(self)->req_persistent) {
        gpuring_stage_rest(&self->stage);
    } else {
        gpuring_stage_release(&self->stage);
    }
    return true;
}

/* The previous module waits, and nothing ends that but the other ranks. */
static void report(struct gpuring_stage *stage, uint64_t waited)
{
    char text[320];

    stage->reported = true;
    gpuring_warn("[stage-stalled] %s, staged through host memory, has waited %llu s for other "
                 "ranks and goes on waiting; look in their logs for one that failed, or does not "
                 "make this call",
                 gpuring_stage_text(stage->module, stage->what, text),
                 (unsigned long long) (waited / GPURING_SECOND));
}

static void look(uint64_t now)
{
    uint64_t limit =
        gpuring_params.timeout > 0 ? (uint64_t) gpuring_params.timeout : REPORT_SECONDS;
    bool away = now - calls.last >= AWAY;
    struct gpuring_stage *stage;

    calls.last = now;
    GPURING_LIST_EACH(stage, &calls.list, struct gpuring_stage, node)
    {
        if (away) {
            stage->since = now;
        } else if (!stage->reported && now - stage->since >= limit * GPURING_SECOND) {
            report(stage, now - stage->since);
        }
    }
}

/* Outside of the lock: it may end in a user's callback or free a communicator. */
static int complete_all(struct gpuring_list *done)
{
    struct gpuring_stage *stage;
    int count = 0;

    while ((stage = GPURING_LIST_FIRST(done, struct gpuring_stage, node)) != NULL) {
        stage_request_t *self = stage->request;
        struct ompi_communicator_t *comm = base(self)->req_mpi_object.comm;

        gpuring_list_remove(&stage->node);
        base(self)->req_status.MPI_ERROR = self->outcome;
        ompi_request_complete(base(self), true);
        OBJ_RELEASE(comm); /* of the start */
        count++;
    }
    return count;
}

/* Called by opal_progress, by several threads at once. */
static int progress_callback(void)
{
    struct gpuring_list done = GPURING_LIST_INIT(done), *next;

    if (__atomic_load_n(&calls.list.next, __ATOMIC_RELAXED) == &calls.list ||
        pthread_mutex_trylock(&calls.lock) != 0) {
        return 0;
    }
    for (struct gpuring_list *node = calls.list.next; node != &calls.list; node = next) {
        struct gpuring_stage *stage = GPURING_LIST_ENTRY(node, struct gpuring_stage, node);

        next = node->next;
        if (stage->request != NULL && advance(stage->request)) {
            gpuring_list_remove(node);
            gpuring_list_append(&done, node);
        }
    }
    if (++calls.looks % LOOKS_PER_CLOCK == 0) {
        look(gpuring_now_ns());
    }
    pthread_mutex_unlock(&calls.lock);
    return complete_all(&done);
}

void gpuring_stage_wait_begin(struct gpuring_stage *stage)
{
    pthread_mutex_lock(&calls.lock);
    stage->since = gpuring_now_ns();
    stage->reported = false;
    if (gpuring_list_empty(&calls.list)) {
        calls.last = stage->since;
    }
    gpuring_list_append(&calls.list, &stage->node);
    if (!calls.registered) {
        calls.registered = opal_progress_register(progress_callback) == OPAL_SUCCESS;
    }
    pthread_mutex_unlock(&calls.lock);
}

void gpuring_stage_wait_end(struct gpuring_stage *stage)
{
    pthread_mutex_lock(&calls.lock);
    gpuring_list_remove(&stage->node);
    pthread_mutex_unlock(&calls.lock);
}

void gpuring_stage_close(void)
{
    if (calls.registered) {
        opal_progress_unregister(progress_callback);
        calls.registered = false;
    }
}

static void activate(stage_request_t *self)
{
    self->phase = CALLING;
    gpuring_request_activate(base(self));
    OBJ_RETAIN(base(self)->req_mpi_object.comm); /* until it is complete */
    gpuring_stage_wait_begin(&self->stage);
}

static int restart(stage_request_t *self)
{
    int result = MPI_SUCCESS;

    gpuring_stage_copy_in(&self->stage);
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
        int result = gpuring_request_active(requests[i]) ? MPI_ERR_REQUEST
                                                         : restart((stage_request_t *) requests[i]);

        if (result != MPI_SUCCESS) {
            return result;
        }
    }
    return OMPI_SUCCESS;
}

static int request_free(ompi_request_t **request)
{
    stage_request_t *self = (stage_request_t *) *request;

    if ((*request)->req_persistent && !gpuring_request_active(*request)) {
        ompi_request_free(&self->inner);
        gpuring_stage_release(&self->stage);
    }
    return gpuring_request_free(request);
}

int gpuring_stage_request(mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                          enum gpuring_stage_form form, struct gpuring_arguments *arguments,
                          struct ompi_info_t *info, ompi_request_t **request)
{
    bool persistent = form == GPURING_PERSISTENT;
    struct gpuring_stage stage;
    stage_request_t *self;
    int result;

    gpuring_stage_describe(&stage, module, what, arguments);
    if (!gpuring_stage_is_on_gpu(&stage)) {
        return gpuring_stage_call_previous(module, what, form, arguments, info, request);
    }
    self = OBJ_NEW(stage_request_t);
    if (self == NULL) {
        (void) gpuring_stage_log_memory(module, what, sizeof *self);
        return MPI_ERR_NO_MEM;
    }
    if (gpuring_stage_reserve(&stage, arguments) != GPURING_OK) {
        OBJ_RELEASE(self);
        return MPI_ERR_NO_MEM;
    }
    if (!persistent) {
        gpuring_stage_copy_in(&stage);
    }
    result = gpuring_stage_call_previous(module, what, form, arguments, info, &self->inner);
    if (result != MPI_SUCCESS) {
        gpuring_stage_release(&stage);
        OBJ_RELEASE(self);
        return result;
    }
    gpuring_request_construct(&self->super, module->comm, persistent, request_free, request_start);
    self->stage = stage;
    self->stage.request = self;
    self->outcome = MPI_SUCCESS;
    self->phase = IDLE;
    if (!persistent) {
        activate(self);
    }
    *request = base(self);
    return MPI_SUCCESS;
}
