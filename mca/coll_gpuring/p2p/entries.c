/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The functions that this component puts into the PML's table. While the process has no CUDA
 * driver, they only call the PML, which takes a few instructions because everything else is in
 * separate functions.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr */
#endif
#include "mca/coll_gpuring/p2p/p2p.h"

#include <dlfcn.h>

#include "mca/coll_gpuring/p2p/p2p_message.h"
#include "mca/coll_gpuring/p2p/offer.h"
#include "mca/coll_gpuring/p2p/peers.h"
#include "mca/coll_gpuring/p2p/probed.h"
#include "mca/coll_gpuring/p2p/p2p_request.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/stage/buffers.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "ompi/message/message.h"

#define SLOW __attribute__((noinline)) int

/* Return true if a receive is large enough for an offer. */
static bool fits_offer(size_t count, const struct ompi_datatype_t *type)
{
    return count * type->super.size >= GPURING_P2P_OFFER_BYTES;
}

/* The arguments of the PML's functions: common ones, and those of sends and receives. */
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

/* Send. The PML gets a message in host memory, or the bounce buffer of one on a GPU, after earlier
 * sends to the same process. */
static SLOW send_slow(SEND_ARGUMENTS)
{
    struct gpuring_p2p_message message;
    int status, code, receiver;

    if (!gpuring_p2p_message_find(&message, buffer, count, type)) {
        gpuring_p2p_wait_turn(comm, peer);
        return gpuring_p2p.previous.pml_send(SEND_VALUES);
    }
    if (gpuring_p2p_peer_takes(&message, SEND_ENVELOPE, &receiver)) {
        return gpuring_p2p_request_run(&message, SEND_ENVELOPE, MPI_STATUS_IGNORE);
    }
    status = gpuring_p2p_message_copy_in(&message, true);
    code = gpuring_compat_error(status);
    if (status == GPURING_OK) {
        gpuring_p2p_wait_turn(comm, peer);
        code = gpuring_p2p.previous.pml_send(message.bounce->address, message.bytes, MPI_BYTE, peer,
                                             tag, mode, comm);
    }
    gpuring_p2p_message_release(&message);
    return code;
}

static SLOW isend_slow(SEND_ARGUMENTS, ompi_request_t **request)
{
    struct gpuring_p2p_message message;

    if (gpuring_p2p_message_find(&message, buffer, count, type)) {
        return gpuring_p2p_request_new(&message, SEND_ENVELOPE, false, request);
    }
    gpuring_p2p_wait_turn(comm, peer);
    return gpuring_p2p.previous.pml_isend(SEND_VALUES, request);
}

/* Return true if all receives must be requests of this component, because offers may arrive and a
 * probe of another thread may take a message out of the PML's queue (probed.h). */
static bool beside_probes(void)
{
    return gpuring_process.threads && gpuring_p2p_peers_watch();
}

/*
 * Return true if a receive needs a request of this component: the buffer is on a GPU, a probe may
 * have found the message, or the message may be an offer that no other function would recognise.
 */
static bool is_ours(struct gpuring_p2p_message *message, void *buffer, BUFFER, bool watch)
{
    return gpuring_p2p_message_find(message, buffer, count, type) || watch ||
           __atomic_load_n(&gpuring_p2p.nprobed, __ATOMIC_RELAXED) > 0;
}

/* Blocking receive. In host memory the PML receives the message; if that was an offer, fetch its
 * data. Another thread may load the driver and consent to offers during the receive. */
static SLOW receive_slow(void *buffer, BUFFER, const struct gpuring_p2p_envelope *from,
                         ompi_status_public_t *status)
{
    struct gpuring_p2p_message message;
    struct gpuring_p2p_offer offer;
    ompi_status_public_t own;
    int code;

    if (is_ours(&message, buffer, count, type, gpuring_memory_possible() && beside_probes())) {
        return gpuring_p2p_request_run(&message, from, status);
    }
    status = status != MPI_STATUS_IGNORE ? status : &own;
    code = from->matched != NULL
               ? gpuring_p2p.previous.pml_mrecv(buffer, count, type, from->matched, status)
               : gpuring_p2p.previous.pml_recv(buffer, count, type, from->peer, from->tag,
                                               from->comm, status);
    if (!gpuring_memory_possible() || !gpuring_p2p_peers_watch()) {
        return code;
    }
    if (code == MPI_ERR_TRUNCATE) {
        gpuring_p2p_offer_truncated(&message, from->comm, status);
    }
    if (code != MPI_SUCCESS || !fits_offer(count, type)) {
        return code;
    }
    gpuring_p2p_peers_received(from->comm, status, NULL);
    return gpuring_p2p_offer_in(&message, status->_ucount, &offer)
               ? gpuring_p2p_request_run_given(&message, from, &offer, status)
               : code;
}

static SLOW ireceive_slow(void *buffer, BUFFER, const struct gpuring_p2p_envelope *from,
                          ompi_request_t **request)
{
    bool watch = (fits_offer(count, type) && gpuring_p2p_peers_watch()) || beside_probes();
    struct gpuring_p2p_message message;

    return is_ours(&message, buffer, count, type, watch)
               ? gpuring_p2p_request_new(&message, from, false, request)
               : gpuring_p2p_previous_receive(buffer, count, type, from, request);
}

/* The functions in the table. Tags below 0 belong to other components, except that -1 in a receive
 * is the program's MPI_ANY_TAG. */
#define ENTRY(name, list, ours, slow, last_type, last)               \
    static int name##_entry(list##_ARGUMENTS, last_type last)        \
    {                                                                \
        if (OPAL_UNLIKELY(ours)) {                                   \
            return slow;                                             \
        }                                                            \
        return gpuring_p2p.previous.pml_##name(list##_VALUES, last); \
    }
ENTRY(isend, SEND, tag >= 0 && gpuring_memory_possible(), isend_slow(SEND_VALUES, request),
      ompi_request_t **, request)
ENTRY(recv, RECV, tag >= MPI_ANY_TAG && (gpuring_memory_possible() || gpuring_process.threads),
      receive_slow(buffer, count, type, RECV_ENVELOPE, status), ompi_status_public_t *, status)
ENTRY(mrecv, MRECV, gpuring_memory_possible(),
      receive_slow(buffer, count, type, MRECV_ENVELOPE, status), ompi_status_public_t *, status)
ENTRY(imrecv, MRECV, gpuring_memory_possible(),
      ireceive_slow(buffer, count, type, MRECV_ENVELOPE, request), ompi_request_t **, request)

static int send_entry(SEND_ARGUMENTS)
{
    if (OPAL_UNLIKELY(tag >= 0 && gpuring_memory_possible())) {
        return send_slow(SEND_VALUES);
    }
    return gpuring_p2p.previous.pml_send(SEND_VALUES);
}

/* An offer may arrive in such a receive as soon as the process has a driver. */
static int irecv_entry(RECV_ARGUMENTS, ompi_request_t **request)
{
    if (OPAL_UNLIKELY(tag >= MPI_ANY_TAG)) {
        if (gpuring_memory_possible()) {
            return ireceive_slow(buffer, count, type, RECV_ENVELOPE, request);
        }
        if (fits_offer(count, type)) {
            gpuring_p2p_peers_unseen_receive();
        }
    }
    return gpuring_p2p.previous.pml_irecv(RECV_VALUES, request);
}

/* The PML starts its persistent receives without calling this component. */
static int irecv_init_entry(RECV_ARGUMENTS, ompi_request_t **request)
{
    struct gpuring_p2p_message message;

    if (tag >= MPI_ANY_TAG && gpuring_memory_possible()) {
        if (is_ours(&message, buffer, count, type, gpuring_p2p_peers_watch())) {
            return gpuring_p2p_request_new(&message, RECV_ENVELOPE, true, request);
        }
    } else if (tag >= MPI_ANY_TAG) {
        gpuring_p2p_peers_unseen_receive();
    }
    return gpuring_p2p.previous.pml_irecv_init(RECV_VALUES, request);
}

/*
 * A buffer does not change its kind of memory while a request may use it, so the PML keeps a
 * persistent send from host memory. The PML starts such a send without calling this component.
 * Therefore later sends from GPU memory finish their copies before they return. Otherwise the
 * persistent send could overtake them.
 */
static int isend_init_entry(SEND_ARGUMENTS, ompi_request_t **request)
{
    struct gpuring_p2p_message message;

    if (tag >= 0 && gpuring_memory_possible() &&
        gpuring_p2p_message_find(&message, buffer, count, type)) {
        return gpuring_p2p_request_new(&message, SEND_ENVELOPE, true, request);
    }
    __atomic_store_n(&gpuring_p2p.unseen_sends, true, __ATOMIC_RELAXED);
    gpuring_p2p_wait_turn(comm, peer);
    return gpuring_p2p.previous.pml_isend_init(SEND_VALUES, request);
}

/* Return true if the PML may perform a probe itself, because no offer can arrive. */
static bool plain_probe(int tag)
{
    return OPAL_LIKELY(tag < MPI_ANY_TAG || !gpuring_memory_possible() ||
                       !gpuring_p2p_peers_watch());
}

static int iprobe_entry(FROM, int *matched, ompi_status_public_t *status)
{
    return plain_probe(tag) ? gpuring_p2p.previous.pml_iprobe(peer, tag, comm, matched, status)
                            : gpuring_p2p_probed_iprobe(RECV_ENVELOPE, matched, status);
}

static int improbe_entry(FROM, int *matched, struct ompi_message_t **message,
                         ompi_status_public_t *status)
{
    return plain_probe(tag)
               ? gpuring_p2p.previous.pml_improbe(peer, tag, comm, matched, message, status)
               : gpuring_p2p_probed_improbe(RECV_ENVELOPE, matched, message, status);
}

/*
 * Blocking probes are built from non-blocking ones, because this process may consent to offers
 * during a probe: receives complete in our progress callback, which answers questions. Without a
 * driver, the PML performs the blocking probe. Another thread may load the driver in the meantime,
 * but the process does not consent before the probe ends.
 */
static void count_blocking_probe(int change)
{
    if (gpuring_process.threads) {
        __atomic_add_fetch(&gpuring_p2p.blocking_probes, change, __ATOMIC_SEQ_CST);
    }
}

static bool begin_blind(int tag)
{
    count_blocking_probe(1); /* first, because the driver may be loaded after it was checked for */
    if (tag < MPI_ANY_TAG || !gpuring_memory_possible()) {
        return true;
    }
    count_blocking_probe(-1);
    return false;
}

static int end_blind(int code)
{
    count_blocking_probe(-1);
    return code;
}

static int probe_entry(FROM, ompi_status_public_t *status)
{
    int matched = 0, code = MPI_SUCCESS;

    if (begin_blind(tag)) {
        return end_blind(gpuring_p2p.previous.pml_probe(peer, tag, comm, status));
    }
    while (code == MPI_SUCCESS && !matched) {
        code = gpuring_compat_lost(comm, peer);
        if (code == MPI_SUCCESS) {
            code = iprobe_entry(peer, tag, comm, &matched, status);
        }
    }
    return code;
}

static int mprobe_entry(FROM, struct ompi_message_t **message, ompi_status_public_t *status)
{
    int matched = 0, code = MPI_SUCCESS;

    if (begin_blind(tag)) {
        return end_blind(gpuring_p2p.previous.pml_mprobe(peer, tag, comm, message, status));
    }
    while (code == MPI_SUCCESS && !matched) {
        code = gpuring_compat_lost(comm, peer);
        if (code == MPI_SUCCESS) {
            code = improbe_entry(peer, tag, comm, &matched, message, status);
        }
    }
    return code;
}

/* Components call this. MPI_Start calls the request's own function instead. */
static int start_entry(size_t count, ompi_request_t **requests)
{
    int code = MPI_SUCCESS;

    for (size_t i = 0; i < count && code == MPI_SUCCESS; i++) {
        code = gpuring_p2p_request_ours(requests[i])
                   ? requests[i]->req_start(1, &requests[i])
                   : gpuring_p2p.previous.pml_start(1, &requests[i]);
    }
    return code;
}

#define ENTRIES(X) \
    X(send)        \
    X(recv)        \
    X(mrecv)       \
    X(isend)       \
    X(irecv) X(imrecv) X(isend_init) X(irecv_init) X(start) X(iprobe) X(improbe) X(probe) X(mprobe)

void gpuring_p2p_open(void)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;

    if (gpuring_p2p.installed || gpuring_params.p2p == GPURING_PARAM_P2P_OFF || ops == NULL ||
        ops->possible == NULL || mca_pml.pml_send == NULL) {
        return;
    }
    if (gpuring_params.p2p == GPURING_PARAM_P2P_AUTO && gpuring_compat_cuda_aware()) {
        gpuring_info("[p2p-own] this Open MPI was built with CUDA: its own point-to-point "
                     "calls accept GPU buffers");
        return;
    }
    if (MCA_ompi_pml_DIRECT_CALL) {
        gpuring_warn("[p2p-direct] this Open MPI was built to call one PML directly: "
                     "point-to-point calls do not accept GPU buffers");
        return;
    }
    gpuring_p2p.previous = mca_pml;
#define INSTALL(name) mca_pml.pml_##name = name##_entry;
    ENTRIES(INSTALL)
#undef INSTALL
    gpuring_p2p.installed = true;
}

bool gpuring_p2p_serves(void)
{
    return gpuring_p2p.installed;
}

void gpuring_p2p_leave(void)
{
    if (gpuring_p2p.installed) {
        gpuring_p2p_peers_close();
    }
}

/* Keep the component loaded, because another component has replaced our functions and still calls
 * them. */
static void stay_loaded(void)
{
    Dl_info info;

    gpuring_info("[p2p-kept] another component uses the point-to-point functions of coll/gpuring, "
                 "which therefore stays loaded");
    if (dladdr(&gpuring_p2p.installed, &info) == 0 ||
        dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE) == NULL) {
        gpuring_warn("[p2p-kept] coll/gpuring cannot stay loaded: %s", dlerror());
    }
}

void gpuring_p2p_close(void)
{
    bool all = true;

    gpuring_p2p_slots_close();
    if (!gpuring_p2p.installed) {
        return;
    }
#define RESTORE(name)                                         \
    if (mca_pml.pml_##name == name##_entry) {                 \
        mca_pml.pml_##name = gpuring_p2p.previous.pml_##name; \
    } else {                                                  \
        all = false;                                          \
    }
    ENTRIES(RESTORE)
#undef RESTORE
    gpuring_p2p.installed = false;
    if (!all) {
        stay_loaded();
    }
}
