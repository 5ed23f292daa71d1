/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 *     IDLE          of a persistent request that is not started
 *     COPYING_IN    of a send: until its data is in the bounce buffer, and its turn has come
 *     MOVING        until the PML's request is complete
 *     COPYING_OUT   of a receive: until the data is with the user
 *
 * Large sends alone are seen COPYING_IN; others wait for the copy, which takes about as long as to
 * ask for its end.
 */
#include "mca/coll_gpuring/p2p/request.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "mca/coll_gpuring/util/list.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "ompi/mca/pml/base/pml_base_request.h"

#define ASYNCHRONOUS ((size_t) 64 << 10) /* bytes; some 3 us on a link of 25 GB/s, as a model */

struct p2p_request {
    mca_pml_base_request_t super; /* what Open MPI's fault tolerance reads of any such request */
    struct gpuring_p2p_message message;
    struct gpuring_p2p_envelope envelope;
    ompi_request_t *inner; /* the PML's */
    ompi_status_public_t status;
    enum { IDLE, COPYING_IN, MOVING, COPYING_OUT } phase;
    bool issuing;   /* a thread gives it to the PML */
    bool freed;     /* by the program, before it was complete */
    bool finishing; /* by this thread, without the lock: */
    pthread_t finisher;
    struct gpuring_list node; /* of `copying` or `moving` */
};
typedef struct p2p_request p2p_request_t;
static OBJ_CLASS_INSTANCE(p2p_request_t, ompi_request_t, NULL, NULL);

static struct {
    pthread_mutex_t lock;        /* guards all, and the requests but those of phase IDLE */
    struct gpuring_list copying; /* in the order of the calls */
    struct gpuring_list moving;  /* phases MOVING and COPYING_OUT */
    bool registered;
} active = {.lock = PTHREAD_MUTEX_INITIALIZER,
            .copying = GPURING_LIST_INIT(active.copying),
            .moving = GPURING_LIST_INIT(active.moving)};

int gpuring_p2p_requests_copying;
static bool unseen_sends; /* atomic */

void gpuring_p2p_request_unseen_sends(void)
{
    __atomic_store_n(&unseen_sends, true, __ATOMIC_RELAXED);
}

static ompi_request_t *base(p2p_request_t *self)
{
    return &self->super.req_ompi;
}

static void release(p2p_request_t *self)
{
    struct ompi_communicator_t *comm = self->envelope.comm;

    gpuring_p2p_message_release(&self->message);
    OMPI_REQUEST_FINI(base(self));
    OBJ_RELEASE(self);
    OBJ_RELEASE(comm);
}

/* Has its turn come? No earlier send to the same process is still in the list. */
static bool is_first(const struct gpuring_list *node, const struct ompi_communicator_t *comm,
                     int peer)
{
    for (struct gpuring_list *n = active.copying.next; n != node; n = n->next) {
        const p2p_request_t *other = GPURING_LIST_ENTRY(n, p2p_request_t, node);

        if (other->envelope.comm == comm && other->envelope.peer == peer) {
            return false;
        }
    }
    return true;
}

void gpuring_p2p_request_wait_turn(const struct ompi_communicator_t *comm, int peer)
{
    bool first;

    for (;;) {
        pthread_mutex_lock(&active.lock);
        first = is_first(&active.copying, comm, peer);
        pthread_mutex_unlock(&active.lock);
        if (first) {
            return;
        }
        opal_progress();
    }
}

/* The PML gets the message. An MPI error code. */
static int issue(p2p_request_t *self)
{
    const struct gpuring_p2p_envelope *to = &self->envelope;
    void *host = gpuring_p2p_message_host(&self->message);
    size_t bytes = self->message.bytes;

    if (to->sends) {
        return gpuring_p2p_previous.pml_isend(host, bytes, MPI_BYTE, to->peer, to->tag, to->mode,
                                              to->comm, &self->inner);
    }
    if (to->matched != NULL) {
        return gpuring_p2p_previous.pml_imrecv(host, bytes, MPI_BYTE, to->matched, &self->inner);
    }
    return gpuring_p2p_previous.pml_irecv(host, bytes, MPI_BYTE, to->peer, to->tag, to->comm,
                                          &self->inner);
}

/* The PML's request ends. True: so does ours. */
static bool end_inner(p2p_request_t *self)
{
    int code, status;

    self->status = self->inner->req_status;
    code = self->status.MPI_ERROR;
    ompi_request_free(&self->inner);
    if (self->envelope.sends || self->status._cancelled || self->status._ucount == 0 ||
        (code != MPI_SUCCESS && code != MPI_ERR_TRUNCATE)) {
        return true;
    }
    status = gpuring_p2p_message_start_out(&self->message, self->status._ucount);
    if (status != GPURING_OK) {
        self->status.MPI_ERROR = gpuring_compat_error(status);
        return true;
    }
    self->phase = COPYING_OUT;
    return false;
}

/* Move one on; true: it is done. */
static bool advance(p2p_request_t *self)
{
    int status;

    if (self->phase == MOVING && (!REQUEST_COMPLETE(self->inner) || end_inner(self))) {
        return self->inner == MPI_REQUEST_NULL;
    }
    status = gpuring_p2p_message_poll(&self->message);
    if (status == GPURING_AGAIN) {
        return false;
    }
    if (status != GPURING_OK) {
        self->status.MPI_ERROR = gpuring_compat_error(status);
    }
    return true;
}

/* With the lock: it is done, and in no list. */
static void finish(p2p_request_t *self, struct gpuring_list *done)
{
    self->phase = IDLE;
    base(self)->req_status = self->status;
    self->super.req_pml_complete = true;
    self->finishing = true;
    self->finisher = pthread_self();
    gpuring_list_append(done, &self->node);
}

/* Without the lock: it may end in a callback of another component, or free a communicator. */
static int complete_all(struct gpuring_list *done)
{
    p2p_request_t *self;
    int count = 0;

    while ((self = GPURING_LIST_FIRST(done, p2p_request_t, node)) != NULL) {
        gpuring_list_remove(&self->node);
        if (self->freed) {
            release(self);
        } else {
            ompi_request_complete(base(self), true);
        }
        count++;
    }
    return count;
}

/* The next send that is copied and first, or that cannot be copied; NULL: there is none. */
static p2p_request_t *next_copied(void)
{
    p2p_request_t *self;

    GPURING_LIST_EACH(self, &active.copying, p2p_request_t, node)
    {
        int status = GPURING_OK;

        if (self->issuing) {
            continue;
        }
        if (self->message.stream != NULL) {
            status = gpuring_p2p_message_poll(&self->message);
        }
        if (status < GPURING_OK) {
            self->status.MPI_ERROR = gpuring_compat_error(status);
        }
        if (status != GPURING_AGAIN &&
            is_first(&self->node, self->envelope.comm, self->envelope.peer)) {
            return self;
        }
    }
    return NULL;
}

/* Give the PML what is copied: without the lock, as it may call others, but still in the list. */
static void issue_copied(struct gpuring_list *done)
{
    p2p_request_t *self;

    while ((self = next_copied()) != NULL) {
        self->issuing = true;
        if (self->status.MPI_ERROR == MPI_SUCCESS) {
            pthread_mutex_unlock(&active.lock);
            self->status.MPI_ERROR = issue(self);
            pthread_mutex_lock(&active.lock);
        }
        self->issuing = false;
        gpuring_list_remove(&self->node);
        __atomic_sub_fetch(&gpuring_p2p_requests_copying, 1, __ATOMIC_RELAXED);
        if (self->status.MPI_ERROR == MPI_SUCCESS) {
            self->phase = MOVING;
            gpuring_list_append(&active.moving, &self->node);
        } else {
            finish(self, done);
        }
    }
}

/* Called by opal_progress, by several threads at once. */
static int progress_callback(void)
{
    struct gpuring_list done = GPURING_LIST_INIT(done), *next;

    if ((__atomic_load_n(&active.moving.next, __ATOMIC_RELAXED) == &active.moving &&
         __atomic_load_n(&active.copying.next, __ATOMIC_RELAXED) == &active.copying) ||
        pthread_mutex_trylock(&active.lock) != 0) {
        return 0;
    }
    issue_copied(&done);
    for (struct gpuring_list *node = active.moving.next; node != &active.moving; node = next) {
        p2p_request_t *self = GPURING_LIST_ENTRY(node, p2p_request_t, node);

        next = node->next;
        if (advance(self)) {
            gpuring_list_remove(node);
            finish(self, &done);
        }
    }
    pthread_mutex_unlock(&active.lock);
    return complete_all(&done);
}

static void enlist(p2p_request_t *self, struct gpuring_list *list)
{
    pthread_mutex_lock(&active.lock);
    gpuring_list_append(list, &self->node);
    if (list == &active.copying) {
        __atomic_add_fetch(&gpuring_p2p_requests_copying, 1, __ATOMIC_RELAXED);
    }
    if (!active.registered) {
        active.registered = opal_progress_register(progress_callback) == OPAL_SUCCESS;
    }
    pthread_mutex_unlock(&active.lock);
}

/* May the call return while the data of a send is copied? */
static bool may_copy_later(const p2p_request_t *self)
{
    return self->message.bytes >= ASYNCHRONOUS &&
           self->envelope.mode != MCA_PML_BASE_SEND_BUFFERED &&
           !__atomic_load_n(&unseen_sends, __ATOMIC_RELAXED);
}

/* Begin a message; an MPI error code, and then nothing of it is under way. */
static int begin(p2p_request_t *self)
{
    const struct gpuring_p2p_envelope *to = &self->envelope;
    int status = GPURING_OK, code;

    if (to->sends) {
        status = gpuring_p2p_message_start_in(&self->message);
        if (status == GPURING_OK && may_copy_later(self)) {
            self->phase = COPYING_IN;
            enlist(self, &active.copying);
            return MPI_SUCCESS;
        }
        status = status == GPURING_OK ? gpuring_p2p_message_wait(&self->message) : status;
        if (status != GPURING_OK) {
            return gpuring_compat_error(status);
        }
        gpuring_p2p_request_wait_turn(to->comm, to->peer);
    }
    code = issue(self);
    if (code != MPI_SUCCESS) {
        return code;
    }
    self->phase = MOVING;
    if (to->sends && REQUEST_COMPLETE(self->inner) && end_inner(self)) {
        self->phase = IDLE;
        base(self)->req_status = self->status;
        base(self)->req_complete = REQUEST_COMPLETED;
    } else {
        enlist(self, &active.moving);
    }
    return MPI_SUCCESS;
}

static int start(p2p_request_t *self)
{
    int code;

    base(self)->req_complete = REQUEST_PENDING;
    base(self)->req_state = OMPI_REQUEST_ACTIVE;
    base(self)->req_status = (ompi_status_public_t){
        .MPI_SOURCE = MPI_ANY_SOURCE, .MPI_TAG = MPI_ANY_TAG, .MPI_ERROR = MPI_SUCCESS};
    self->status = base(self)->req_status;
    self->super.req_pml_complete = false;
    self->finishing = false;
    code = begin(self);
    if (code != MPI_SUCCESS) {
        base(self)->req_complete = REQUEST_COMPLETED;
        base(self)->req_state = OMPI_REQUEST_INACTIVE;
    }
    return code;
}

/* MPI_Start and MPI_Startall. */
static int request_start(size_t count, ompi_request_t **requests)
{
    for (size_t i = 0; i < count; i++) {
        int code = start((p2p_request_t *) requests[i]);

        if (code != MPI_SUCCESS) {
            return code;
        }
    }
    return MPI_SUCCESS;
}

/* The PML has it: MPI_Cancel and MPI_Request_free are for the PML then. */
static void wait_issued(p2p_request_t *self)
{
    while (__atomic_load_n(&self->phase, __ATOMIC_RELAXED) == COPYING_IN) {
        opal_progress();
    }
}

static int request_cancel(ompi_request_t *request, int flag)
{
    p2p_request_t *self = (p2p_request_t *) request;
    int code = MPI_SUCCESS;

    wait_issued(self);
    pthread_mutex_lock(&active.lock);
    if (self->phase == MOVING && self->inner->req_cancel != NULL) {
        code = self->inner->req_cancel(self->inner, flag);
    }
    pthread_mutex_unlock(&active.lock);
    return code;
}

static int request_free(ompi_request_t **request)
{
    p2p_request_t *self = (p2p_request_t *) *request;

    *request = MPI_REQUEST_NULL;
    wait_issued(self);
    pthread_mutex_lock(&active.lock);
    if (!REQUEST_COMPLETE(base(self)) && !self->finishing) {
        self->freed = true; /* the progress callback does the rest */
        pthread_mutex_unlock(&active.lock);
        return MPI_SUCCESS;
    }
    pthread_mutex_unlock(&active.lock);
    /* This may be a callback of its completion; else another thread is about to complete it. */
    while (!REQUEST_COMPLETE(base(self)) && !pthread_equal(self->finisher, pthread_self())) {
        sched_yield();
    }
    release(self);
    return MPI_SUCCESS;
}

static p2p_request_t *create(struct gpuring_p2p_message *message,
                             const struct gpuring_p2p_envelope *envelope, bool persistent)
{
    p2p_request_t *self = OBJ_NEW(p2p_request_t);
    size_t behind = offsetof(mca_pml_base_request_t, req_ompi) + sizeof(ompi_request_t);

    if (self == NULL) {
        gpuring_error("[p2p-no-memory] a send or receive on GPU memory returns MPI_ERR_NO_MEM: "
                      "there is no memory for its request");
        gpuring_p2p_message_release(message);
        return NULL;
    }
    memset((char *) self + behind, 0, sizeof *self - behind);
    OMPI_REQUEST_INIT(base(self), persistent);
    base(self)->req_type = OMPI_REQUEST_PML;
    base(self)->req_mpi_object.comm = envelope->comm;
    base(self)->req_free = request_free;
    base(self)->req_cancel = request_cancel;
    base(self)->req_start = request_start;
    base(self)->req_f_to_c_index = MPI_UNDEFINED;
    self->super.req_type = envelope->sends ? MCA_PML_REQUEST_SEND : MCA_PML_REQUEST_RECV;
    self->super.req_comm = envelope->comm;
    self->super.req_peer = envelope->peer;
    self->super.req_tag = envelope->tag;
    self->message = *message;
    self->envelope = *envelope;
    self->inner = MPI_REQUEST_NULL;
    OBJ_RETAIN(envelope->comm);
    return self;
}

int gpuring_p2p_request_init(struct gpuring_p2p_message *message,
                             const struct gpuring_p2p_envelope *envelope, ompi_request_t **request)
{
    p2p_request_t *self = create(message, envelope, true);

    if (self == NULL) {
        return MPI_ERR_NO_MEM;
    }
    *request = base(self);
    return MPI_SUCCESS;
}

int gpuring_p2p_request_start(struct gpuring_p2p_message *message,
                              const struct gpuring_p2p_envelope *envelope, ompi_request_t **request)
{
    p2p_request_t *self = create(message, envelope, false);
    int code = self != NULL ? start(self) : MPI_ERR_NO_MEM;

    if (code == MPI_SUCCESS) {
        *request = base(self);
    } else if (self != NULL) {
        release(self);
    }
    return code;
}

bool gpuring_p2p_request_ours(const ompi_request_t *request)
{
    return request->req_start == request_start;
}

void gpuring_p2p_requests_close(void)
{
    pthread_mutex_lock(&active.lock);
    if (active.registered) {
        opal_progress_unregister(progress_callback);
        active.registered = false;
    }
    pthread_mutex_unlock(&active.lock);
}
