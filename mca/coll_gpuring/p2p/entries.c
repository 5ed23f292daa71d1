/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The functions in the PML's table. While no driver can be in the process they do nothing but call
 * the PML; all else is in functions of their own, so that this is a few instructions.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr */
#endif
#include "mca/coll_gpuring/p2p/p2p.h"

#include <dlfcn.h>

#include "mca/coll_gpuring/memory_kind.h"
#include "mca/coll_gpuring/p2p/message.h"
#include "mca/coll_gpuring/p2p/request.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "ompi/message/message.h"

mca_pml_base_module_t gpuring_p2p_previous;

#define SLOW __attribute__((noinline)) int

static void wait_turn(const struct ompi_communicator_t *comm, int peer)
{
    if (__atomic_load_n(&gpuring_p2p_requests_copying, __ATOMIC_RELAXED) > 0) {
        gpuring_p2p_request_wait_turn(comm, peer);
    }
}

/* Is the buffer on a GPU? Then the message has its bounce buffer, or *code says why not. */
static bool find(struct gpuring_p2p_message *message, const void *buffer, size_t count,
                 struct ompi_datatype_t *type, int *code)
{
    if (!gpuring_p2p_message_find(message, buffer, count, type)) {
        return false;
    }
    *code = gpuring_compat_error(gpuring_p2p_message_reserve(message, count, type));
    return true;
}

/* The arguments of the PML's functions: of all, and of sends, receives and matched receives. */
#define BUFFER          size_t count, struct ompi_datatype_t *type
#define TO              int peer, int tag, mca_pml_base_send_mode_t mode, struct ompi_communicator_t *comm
#define FROM            int peer, int tag, struct ompi_communicator_t *comm
#define MATCHED         struct ompi_message_t **matched
#define SEND_ARGUMENTS  const void *buffer, BUFFER, TO
#define RECV_ARGUMENTS  void *buffer, BUFFER, FROM
#define MRECV_ARGUMENTS void *buffer, BUFFER, MATCHED
#define SEND_VALUES     buffer, count, type, peer, tag, mode, comm
#define RECV_VALUES     buffer, count, type, peer, tag, comm
#define MRECV_VALUES    buffer, count, type, matched
#define SEND_ENVELOPE                \
    (&(struct gpuring_p2p_envelope){ \
        .comm = comm, .peer = peer, .tag = tag, .sends = true, .mode = mode})
#define RECV_ENVELOPE (&(struct gpuring_p2p_envelope){.comm = comm, .peer = peer, .tag = tag})
#define MRECV_ENVELOPE                                        \
    (&(struct gpuring_p2p_envelope){.comm = (*matched)->comm, \
                                    .matched = matched,       \
                                    .peer = (*matched)->peer, \
                                    .tag = MPI_ANY_TAG})

/* A send that is not on a GPU is the PML's, when its turn has come. */
static SLOW send_slow(SEND_ARGUMENTS)
{
    struct gpuring_p2p_message message;
    int code;

    if (!find(&message, buffer, count, type, &code)) {
        wait_turn(comm, peer);
        return gpuring_p2p_previous.pml_send(SEND_VALUES);
    }
    if (code == MPI_SUCCESS) {
        code = gpuring_compat_error(gpuring_p2p_message_copy_in(&message));
        if (code == MPI_SUCCESS) {
            wait_turn(comm, peer);
            code = gpuring_p2p_previous.pml_send(gpuring_p2p_message_host(&message), message.bytes,
                                                 MPI_BYTE, peer, tag, mode, comm);
        }
        gpuring_p2p_message_release(&message);
    }
    return code;
}

/* A blocking receive; what has arrived goes to the user. */
static int receive(struct gpuring_p2p_message *message, const struct gpuring_p2p_envelope *from,
                   ompi_status_public_t *status)
{
    void *host = gpuring_p2p_message_host(message);
    ompi_status_public_t own = {0};
    int code, copied = GPURING_OK;

    status = status != MPI_STATUS_IGNORE ? status : &own;
    code =
        from->matched != NULL
            ? gpuring_p2p_previous.pml_mrecv(host, message->bytes, MPI_BYTE, from->matched, status)
            : gpuring_p2p_previous.pml_recv(host, message->bytes, MPI_BYTE, from->peer, from->tag,
                                            from->comm, status);
    if ((code == MPI_SUCCESS || code == MPI_ERR_TRUNCATE) && status->_ucount > 0) {
        copied = gpuring_p2p_message_copy_out(message, status->_ucount);
    }
    gpuring_p2p_message_release(message);
    return copied == GPURING_OK ? code : gpuring_compat_error(copied);
}

/*
 * The functions in the table. A tag below 0 is another component's; of receives, MPI_ANY_TAG is -1.
 * A message that is on a GPU goes to `stage`, which takes it over; the PML's sends wait for their
 * turn.
 */
#define SEND_TURN  wait_turn(comm, peer)
#define RECV_TURN  ((void) 0)
#define MRECV_TURN ((void) 0)
#define ENTRY(name, list, lowest, stage, last_type, last)                               \
    static SLOW name##_slow(list##_ARGUMENTS, last_type last)                           \
    {                                                                                   \
        struct gpuring_p2p_message message;                                             \
        int code;                                                                       \
                                                                                        \
        if (find(&message, buffer, count, type, &code)) {                               \
            return code == MPI_SUCCESS ? stage(&message, list##_ENVELOPE, last) : code; \
        }                                                                               \
        list##_TURN;                                                                    \
        return gpuring_p2p_previous.pml_##name(list##_VALUES, last);                    \
    }                                                                                   \
    static int name##_entry(list##_ARGUMENTS, last_type last)                           \
    {                                                                                   \
        if (OPAL_UNLIKELY((lowest) && gpuring_memory_possible())) {                     \
            return name##_slow(list##_VALUES, last);                                    \
        }                                                                               \
        return gpuring_p2p_previous.pml_##name(list##_VALUES, last);                    \
    }
ENTRY(isend, SEND, tag >= 0, gpuring_p2p_request_start, ompi_request_t **, request)
ENTRY(recv, RECV, tag >= MPI_ANY_TAG, receive, ompi_status_public_t *, status)
ENTRY(mrecv, MRECV, true, receive, ompi_status_public_t *, status)
ENTRY(irecv, RECV, tag >= MPI_ANY_TAG, gpuring_p2p_request_start, ompi_request_t **, request)
ENTRY(imrecv, MRECV, true, gpuring_p2p_request_start, ompi_request_t **, request)
ENTRY(irecv_init, RECV, tag >= MPI_ANY_TAG, gpuring_p2p_request_init, ompi_request_t **, request)

static int send_entry(SEND_ARGUMENTS)
{
    if (OPAL_UNLIKELY(tag >= 0 && gpuring_memory_possible())) {
        return send_slow(SEND_VALUES);
    }
    return gpuring_p2p_previous.pml_send(SEND_VALUES);
}

/*
 * A buffer stays of one kind as long as a request may use it, so one in host memory is the PML's
 * for good. Nobody sees how a send of it starts: once there is one, no send may be left behind
 * whose data is still copied, for it would be overtaken.
 */
static int isend_init_entry(SEND_ARGUMENTS, ompi_request_t **request)
{
    struct gpuring_p2p_message message;
    int code;

    if (tag >= 0 && gpuring_memory_possible() && find(&message, buffer, count, type, &code)) {
        return code == MPI_SUCCESS ? gpuring_p2p_request_init(&message, SEND_ENVELOPE, request)
                                   : code;
    }
    gpuring_p2p_request_unseen_sends();
    wait_turn(comm, peer);
    return gpuring_p2p_previous.pml_isend_init(SEND_VALUES, request);
}

/* Of components; MPI_Start calls a request's own function. */
static int start_entry(size_t count, ompi_request_t **requests)
{
    int code = MPI_SUCCESS;

    for (size_t i = 0; i < count && code == MPI_SUCCESS; i++) {
        code = gpuring_p2p_request_ours(requests[i])
                   ? requests[i]->req_start(1, &requests[i])
                   : gpuring_p2p_previous.pml_start(1, &requests[i]);
    }
    return code;
}

#define ENTRIES(X) \
    X(send) X(recv) X(mrecv) X(isend) X(irecv) X(imrecv) X(isend_init) X(irecv_init) X(start)

static bool installed;

void gpuring_p2p_open(void)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;

    if (installed || gpuring_params.p2p == GPURING_PARAM_P2P_OFF || ops == NULL ||
        ops->possible == NULL || mca_pml.pml_send == NULL) {
        return;
    }
    if (gpuring_params.p2p == GPURING_PARAM_P2P_AUTO && gpuring_compat_cuda_aware()) {
        gpuring_info("[p2p-own] this Open MPI was built with CUDA: its own point-to-point calls "
                     "take GPU buffers");
        return;
    }
    if (MCA_ompi_pml_DIRECT_CALL) {
        gpuring_warn("[p2p-direct] this Open MPI was built to call one PML directly: "
                     "point-to-point calls do not take GPU buffers");
        return;
    }
    gpuring_p2p_previous = mca_pml;
#define INSTALL(name) mca_pml.pml_##name = name##_entry;
    ENTRIES(INSTALL)
#undef INSTALL
    installed = true;
}

bool gpuring_p2p_serves(void)
{
    return installed;
}

/* Someone has put functions of his own before ours, and still calls these: the code stays. */
static void stay_loaded(void)
{
    Dl_info info;

    gpuring_info("[p2p-kept] another component uses the point-to-point functions of coll/gpuring, "
                 "which stays loaded therefore");
    if (dladdr(&installed, &info) == 0 ||
        dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE) == NULL) {
        gpuring_warn("[p2p-kept] coll/gpuring cannot stay loaded: %s", dlerror());
    }
}

void gpuring_p2p_close(void)
{
    bool all = true;

    gpuring_p2p_requests_close();
    if (!installed) {
        return;
    }
#define RESTORE(name)                                         \
    if (mca_pml.pml_##name == name##_entry) {                 \
        mca_pml.pml_##name = gpuring_p2p_previous.pml_##name; \
    } else {                                                  \
        all = false;                                          \
    }
    ENTRIES(RESTORE)
#undef RESTORE
    installed = false;
    if (!all) {
        stay_loaded();
    }
}
