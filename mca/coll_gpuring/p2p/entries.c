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
#include "mca/coll_gpuring/p2p/previous.h"
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

/* Is the buffer of a send on a GPU? If not, the send is the PML's, when its turn has come. */
static bool find_send(struct gpuring_p2p_message *message, const void *buffer, size_t count,
                      struct ompi_datatype_t *type, struct ompi_communicator_t *comm, int peer)
{
    if (gpuring_p2p_message_find(message, buffer, count, type)) {
        return true;
    }
    wait_turn(comm, peer);
    return false;
}

static int reserve(struct gpuring_p2p_message *message, size_t count, struct ompi_datatype_t *type)
{
    return gpuring_compat_error(gpuring_p2p_message_reserve(message, count, type));
}

static int copy_in(struct gpuring_p2p_message *message)
{
    int status = gpuring_p2p_message_start_in(message);

    return gpuring_compat_error(status == GPURING_OK ? gpuring_p2p_message_wait(message) : status);
}

static SLOW send_slow(const void *buffer, size_t count, struct ompi_datatype_t *type, int peer,
                      int tag, mca_pml_base_send_mode_t mode, struct ompi_communicator_t *comm)
{
    struct gpuring_p2p_message message;
    int code;

    if (!find_send(&message, buffer, count, type, comm, peer)) {
        return gpuring_p2p_previous.pml_send(buffer, count, type, peer, tag, mode, comm);
    }
    code = reserve(&message, count, type);
    if (code != MPI_SUCCESS) {
        return code;
    }
    code = copy_in(&message);
    if (code == MPI_SUCCESS) {
        wait_turn(comm, peer);
        code = gpuring_p2p_previous.pml_send(gpuring_p2p_message_host(&message), message.bytes,
                                             MPI_BYTE, peer, tag, mode, comm);
    }
    gpuring_p2p_message_release(&message);
    return code;
}

/* The PML's blocking receive has returned `code`: what has arrived goes to the user. */
static int copy_out(struct gpuring_p2p_message *message, const ompi_status_public_t *status,
                    int code)
{
    int copied;

    if ((code != MPI_SUCCESS && code != MPI_ERR_TRUNCATE) || status->_ucount == 0) {
        return code;
    }
    copied = gpuring_p2p_message_start_out(message, status->_ucount);
    if (copied == GPURING_OK) {
        copied = gpuring_p2p_message_wait(message);
    }
    return copied == GPURING_OK ? code : gpuring_compat_error(copied);
}

static SLOW recv_slow(void *buffer, size_t count, struct ompi_datatype_t *type, int peer, int tag,
                      struct ompi_communicator_t *comm, ompi_status_public_t *status)
{
    struct gpuring_p2p_message message;
    ompi_status_public_t own = {0};
    int code;

    if (!gpuring_p2p_message_find(&message, buffer, count, type)) {
        return gpuring_p2p_previous.pml_recv(buffer, count, type, peer, tag, comm, status);
    }
    code = reserve(&message, count, type);
    if (code != MPI_SUCCESS) {
        return code;
    }
    status = status != MPI_STATUS_IGNORE ? status : &own;
    code = gpuring_p2p_previous.pml_recv(gpuring_p2p_message_host(&message), message.bytes,
                                         MPI_BYTE, peer, tag, comm, status);
    code = copy_out(&message, status, code);
    gpuring_p2p_message_release(&message);
    return code;
}

static SLOW mrecv_slow(void *buffer, size_t count, struct ompi_datatype_t *type,
                       struct ompi_message_t **matched, ompi_status_public_t *status)
{
    struct gpuring_p2p_message message;
    ompi_status_public_t own = {0};
    int code;

    if (!gpuring_p2p_message_find(&message, buffer, count, type)) {
        return gpuring_p2p_previous.pml_mrecv(buffer, count, type, matched, status);
    }
    code = reserve(&message, count, type);
    if (code != MPI_SUCCESS) {
        return code;
    }
    status = status != MPI_STATUS_IGNORE ? status : &own;
    code = gpuring_p2p_previous.pml_mrecv(gpuring_p2p_message_host(&message), message.bytes,
                                          MPI_BYTE, matched, status);
    code = copy_out(&message, status, code);
    gpuring_p2p_message_release(&message);
    return code;
}

static SLOW isend_slow(const void *buffer, size_t count, struct ompi_datatype_t *type, int peer,
                       int tag, mca_pml_base_send_mode_t mode, struct ompi_communicator_t *comm,
                       ompi_request_t **request)
{
    struct gpuring_p2p_envelope to = {
        .comm = comm, .peer = peer, .tag = tag, .sends = true, .mode = mode};
    struct gpuring_p2p_message message;
    int code;

    if (!find_send(&message, buffer, count, type, comm, peer)) {
        return gpuring_p2p_previous.pml_isend(buffer, count, type, peer, tag, mode, comm, request);
    }
    code = reserve(&message, count, type);
    return code == MPI_SUCCESS ? gpuring_p2p_request_start(&message, &to, request) : code;
}

static SLOW irecv_slow(void *buffer, size_t count, struct ompi_datatype_t *type, int peer, int tag,
                       struct ompi_communicator_t *comm, ompi_request_t **request)
{
    struct gpuring_p2p_envelope from = {.comm = comm, .peer = peer, .tag = tag};
    struct gpuring_p2p_message message;
    int code;

    if (!gpuring_p2p_message_find(&message, buffer, count, type)) {
        return gpuring_p2p_previous.pml_irecv(buffer, count, type, peer, tag, comm, request);
    }
    code = reserve(&message, count, type);
    return code == MPI_SUCCESS ? gpuring_p2p_request_start(&message, &from, request) : code;
}

static SLOW imrecv_slow(void *buffer, size_t count, struct ompi_datatype_t *type,
                        struct ompi_message_t **matched, ompi_request_t **request)
{
    struct gpuring_p2p_message message;
    int code;

    if (gpuring_p2p_message_find(&message, buffer, count, type)) {
        struct gpuring_p2p_envelope from = {.comm = (*matched)->comm,
                                            .matched = matched,
                                            .peer = (*matched)->peer,
                                            .tag = MPI_ANY_TAG};

        code = reserve(&message, count, type);
        return code == MPI_SUCCESS ? gpuring_p2p_request_start(&message, &from, request) : code;
    }
    return gpuring_p2p_previous.pml_imrecv(buffer, count, type, matched, request);
}

/*
 * Persistent requests. A buffer stays of one kind as long as a request may use it, so one in host
 * memory is the PML's for good. Nobody sees how a send of it starts: once there is one, no send may
 * be left behind whose data is still copied, for it would be overtaken.
 */
static SLOW isend_init_slow(const void *buffer, size_t count, struct ompi_datatype_t *type,
                            int peer, int tag, mca_pml_base_send_mode_t mode,
                            struct ompi_communicator_t *comm, ompi_request_t **request)
{
    struct gpuring_p2p_envelope to = {
        .comm = comm, .peer = peer, .tag = tag, .sends = true, .mode = mode};
    struct gpuring_p2p_message message;
    int code;

    if (!gpuring_p2p_message_find(&message, buffer, count, type)) {
        gpuring_p2p_request_unseen_sends();
        wait_turn(comm, peer);
        return gpuring_p2p_previous.pml_isend_init(buffer, count, type, peer, tag, mode, comm,
                                                   request);
    }
    code = reserve(&message, count, type);
    return code == MPI_SUCCESS ? gpuring_p2p_request_init(&message, &to, request) : code;
}

static SLOW irecv_init_slow(void *buffer, size_t count, struct ompi_datatype_t *type, int peer,
                            int tag, struct ompi_communicator_t *comm, ompi_request_t **request)
{
    struct gpuring_p2p_envelope from = {.comm = comm, .peer = peer, .tag = tag};
    struct gpuring_p2p_message message;
    int code;

    if (!gpuring_p2p_message_find(&message, buffer, count, type)) {
        return gpuring_p2p_previous.pml_irecv_init(buffer, count, type, peer, tag, comm, request);
    }
    code = reserve(&message, count, type);
    return code == MPI_SUCCESS ? gpuring_p2p_request_init(&message, &from, request) : code;
}

/*
 * The functions in the table. A tag below 0 is another component's; of receives, MPI_ANY_TAG is -1.
 */
#define ENTRY(name, lowest, arguments, values)                      \
    static int name##_entry arguments                               \
    {                                                               \
        if (OPAL_UNLIKELY((lowest) && gpuring_memory_possible())) { \
            return name##_slow values;                              \
        }                                                           \
        return gpuring_p2p_previous.pml_##name values;              \
    }
ENTRY(send, tag >= 0,
      (const void *buffer, size_t count, struct ompi_datatype_t *type, int peer, int tag,
       mca_pml_base_send_mode_t mode, struct ompi_communicator_t *comm),
      (buffer, count, type, peer, tag, mode, comm))
ENTRY(isend, tag >= 0,
      (const void *buffer, size_t count, struct ompi_datatype_t *type, int peer, int tag,
       mca_pml_base_send_mode_t mode, struct ompi_communicator_t *comm, ompi_request_t **request),
      (buffer, count, type, peer, tag, mode, comm, request))
ENTRY(recv, tag >= MPI_ANY_TAG,
      (void *buffer, size_t count, struct ompi_datatype_t *type, int peer, int tag,
       struct ompi_communicator_t *comm, ompi_status_public_t *status),
      (buffer, count, type, peer, tag, comm, status))
ENTRY(irecv, tag >= MPI_ANY_TAG,
      (void *buffer, size_t count, struct ompi_datatype_t *type, int peer, int tag,
       struct ompi_communicator_t *comm, ompi_request_t **request),
      (buffer, count, type, peer, tag, comm, request))
ENTRY(irecv_init, tag >= MPI_ANY_TAG,
      (void *buffer, size_t count, struct ompi_datatype_t *type, int peer, int tag,
       struct ompi_communicator_t *comm, ompi_request_t **request),
      (buffer, count, type, peer, tag, comm, request))
ENTRY(mrecv, true,
      (void *buffer, size_t count, struct ompi_datatype_t *type, struct ompi_message_t **matched,
       ompi_status_public_t *status),
      (buffer, count, type, matched, status))
ENTRY(imrecv, true,
      (void *buffer, size_t count, struct ompi_datatype_t *type, struct ompi_message_t **matched,
       ompi_request_t **request),
      (buffer, count, type, matched, request))

static int isend_init_entry(const void *buffer, size_t count, struct ompi_datatype_t *type,
                            int peer, int tag, mca_pml_base_send_mode_t mode,
                            struct ompi_communicator_t *comm, ompi_request_t **request)
{
    if (tag >= 0 && gpuring_memory_possible()) {
        return isend_init_slow(buffer, count, type, peer, tag, mode, comm, request);
    }
    gpuring_p2p_request_unseen_sends();
    return gpuring_p2p_previous.pml_isend_init(buffer, count, type, peer, tag, mode, comm, request);
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
