/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/p2p/peers.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mca/coll_gpuring/p2p/offer.h"
#include "mca/coll_gpuring/p2p/p2p_state.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/request.h"
#include "mca/coll_gpuring/topology/identity.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/message.h"
#include "mca/coll_gpuring/util/pid.h"
#include "mca/coll_gpuring/util/status.h"

#define LOOK_NS UINT64_C(10000000) /* between two checks whether a process exists */

/* From this size on, slots of the node are faster than staging. */
#define NEAR_LEAST ((size_t) 16 << 10)

struct reply {
    int32_t consents; /* 1 or 0 */
    int32_t place; /* best one for slots, enum gpuring_p2p_place; atomic; later answers change it */
    int32_t pid;
    uint32_t version; /* GPURING_WIRE_VERSION */
};

/* Another process, to which this one sends or from which it receives. */
struct gpuring_p2p_peer {
    struct gpuring_p2p_home home; /* of this process: the question */
    struct reply reply;           /* valid when `receive` has ended */
    struct reply own;             /* reply of this process */
    ompi_request_t *receive;
    bool asked;    /* by this process; guarded by the lock */
    bool answered; /* atomic: this process has replied */
};

int gpuring_p2p_peer_of(struct ompi_communicator_t *comm, int rank)
{
    return gpuring_process.world_rank >= 0 ? gpuring_compat_world_rank(comm, rank) : -1;
}

/* ---- This process and others ---- */

bool gpuring_p2p_slots_reach(const char *gpu)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;
    struct gpuring_pointer pointer = gpuring_memory_of(gpu);

    return (gpuring_params.p2p_level == GPURING_PARAM_LEVEL_AUTO ||
            gpuring_params.p2p_level == GPURING_PARAM_LEVEL_SYS) &&
           ops->reaches(gpuring_process.device, &pointer) && !ops->lost(gpuring_process.device);
}

void gpuring_p2p_home(struct gpuring_p2p_home *home)
{
    static struct gpuring_p2p_home own_home; /* guarded by the lock, as the next */
    static bool identified;
    struct gpuring_device_identity identity;

    pthread_mutex_lock(&gpuring_p2p.lock);
    if (own_home.pid == 0) {
        own_home.node = gpuring_identity_node(gpuring_params.hostid);
        own_home.pid = (int32_t) getpid();
        own_home.version = GPURING_WIRE_VERSION;
    }
    if (!identified && __atomic_load_n(&gpuring_process.gpu, __ATOMIC_ACQUIRE) >= 0 &&
        gpuring_process.device_ops->identity(gpuring_process.device, &identity) == GPURING_OK) {
        memcpy(own_home.uuid, identity.uuid, sizeof own_home.uuid);
        own_home.mps = identity.mps;
        identified = true;
    }
    *home = own_home;
    pthread_mutex_unlock(&gpuring_p2p.lock);
}

enum gpuring_p2p_place gpuring_p2p_best_place(const struct gpuring_p2p_home *sender,
                                              const char *gpu)
{
    struct gpuring_p2p_home home;
    bool share;

    gpuring_p2p_home(&home);
    if (home.node != sender->node) {
        return GPURING_P2P_NONE;
    }
    share = memcmp(home.uuid, sender->uuid, sizeof home.uuid) == 0;
    return gpu != NULL && (!share || (home.mps && sender->mps)) && gpuring_p2p_slots_reach(gpu)
               ? GPURING_P2P_GPU
               : GPURING_P2P_HOST;
}

bool gpuring_p2p_lives(int pid, struct gpuring_p2p_watch *watch)
{
    uint64_t now;

    if (++watch->calls % 64 != 0) {
        return true;
    }
    now = gpuring_now_ns();
    if (now - watch->looked < LOOK_NS) {
        return true;
    }
    watch->looked = now;
    if (gpuring_pid_exists(pid)) {
        return true;
    }
    gpuring_error("[p2p-ended] a send or receive on GPU memory returns an error: process %d, which "
                  "sends or receives the message, has ended; see the messages of mpirun",
                  pid);
    return false;
}

/* ---- Consent ---- */

/* Return all processes of MPI_COMM_WORLD, or NULL without memory. */
static struct gpuring_p2p_peer *get_peers(void)
{
    struct gpuring_p2p_peer *peers;

    pthread_mutex_lock(&gpuring_p2p.lock);
    if (gpuring_p2p.peers == NULL) {
        gpuring_p2p.peers =
            calloc((size_t) ompi_comm_size(MPI_COMM_WORLD), sizeof *gpuring_p2p.peers);
    }
    peers = gpuring_p2p.peers;
    pthread_mutex_unlock(&gpuring_p2p.lock);
    return peers;
}

void gpuring_p2p_peers_unseen_receive(void)
{
    if (!__atomic_exchange_n(&gpuring_p2p.unseen_receives, true, __ATOMIC_RELAXED)) {
        gpuring_info("[p2p-unseen] a non-blocking or persistent receive was begun before the CUDA "
                     "driver was loaded: large messages to this process are staged as a whole; "
                     "initialise CUDA before the first receive");
    }
}

/* Send a few bytes without waiting for their completion. */
static void send_short(const void *data, size_t bytes, int peer, enum gpuring_p2p_tag tag)
{
    ompi_request_t *request;

    if (gpuring_p2p_world_isend(data, bytes, peer, tag, &request) == GPURING_OK) {
        ompi_request_free(&request);
    }
}

/* Ask a process, without the lock, because the PML may call other components, which may send. */
static void ask_peer(struct gpuring_p2p_peer *self, int peer)
{
    ompi_request_t *receive;

    gpuring_p2p_home(&self->home);
    if (gpuring_p2p_world_irecv(&self->reply, sizeof self->reply, peer, GPURING_P2P_TAG_REPLY,
                                &receive) == GPURING_OK) {
        send_short(&self->home, sizeof self->home, peer, GPURING_P2P_TAG_ASK);
        __atomic_store_n(&self->receive, receive, __ATOMIC_RELEASE);
    }
}

static bool consents(struct gpuring_p2p_peer *self, int peer)
{
    ompi_request_t *receive;
    bool asked;

    if (peer == gpuring_process.world_rank) {
        if (gpuring_p2p_peers_watch()) {
            __atomic_store_n(&gpuring_p2p.consented, true, __ATOMIC_RELAXED);
        }
        return gpuring_p2p_peers_watch();
    }
    pthread_mutex_lock(&gpuring_p2p.lock);
    asked = self->asked;
    self->asked = true;
    pthread_mutex_unlock(&gpuring_p2p.lock);
    if (!asked) {
        ask_peer(self, peer);
        return false;
    }
    receive = __atomic_load_n(&self->receive, __ATOMIC_ACQUIRE);
    return receive != NULL && gpuring_request_done(receive) && self->reply.consents &&
           self->reply.version == GPURING_WIRE_VERSION;
}

bool gpuring_p2p_peer_takes(const struct gpuring_p2p_message *message,
                            const struct gpuring_p2p_envelope *to, int *peer)
{
    size_t least = gpuring_params.p2p_rendezvous;
    struct gpuring_p2p_peer *peers;

    if (least == 0 || to->mode == MCA_PML_BASE_SEND_BUFFERED ||
        gpuring_compat_revoked(MPI_COMM_WORLD)) { /* which carries the answers and the data */
        return false;
    }
    (void) gpuring_process_attach(message->gpu); /* the question names the GPU */
    *peer = gpuring_p2p_peer_of(to->comm, to->peer);
    peers = *peer >= 0 ? get_peers() : NULL;
    if (peers == NULL || !consents(&peers[*peer], *peer)) {
        return false;
    }
    if (least > NEAR_LEAST && (*peer == gpuring_process.world_rank ||
                               gpuring_p2p_peer_place(*peer) != GPURING_P2P_NONE)) {
        least = NEAR_LEAST;
    }
    return message->bytes >= least && message->bytes >= GPURING_P2P_OFFER_BYTES;
}

enum gpuring_p2p_place gpuring_p2p_peer_place(int peer)
{
    return (enum gpuring_p2p_place) __atomic_load_n(&gpuring_p2p.peers[peer].reply.place,
                                                    __ATOMIC_RELAXED);
}

int gpuring_p2p_peer_pid(int peer)
{
    return gpuring_p2p.peers[peer].reply.pid;
}

void gpuring_p2p_peer_set_place(int peer, enum gpuring_p2p_place place)
{
    __atomic_store_n(&gpuring_p2p.peers[peer].reply.place, (int32_t) place, __ATOMIC_RELAXED);
}

/* Receive the next question of a process or of MPI_ANY_SOURCE. Returns false if there is none. */
static bool next_question(int peer, struct gpuring_p2p_home *home)
{
    ompi_status_public_t status;
    struct ompi_message_t *message;
    int found = 0;

    return gpuring_process.world_rank >= 0 &&
           gpuring_p2p.previous.pml_improbe(peer, GPURING_P2P_TAG_ASK, MPI_COMM_WORLD, &found,
                                            &message, &status) == MPI_SUCCESS &&
           found &&
           gpuring_p2p.previous.pml_mrecv(home, sizeof *home, MPI_BYTE, &message, &status) ==
               MPI_SUCCESS;
}

bool gpuring_p2p_peers_watch(void)
{
    return gpuring_params.p2p_rendezvous > 0 &&
           (__atomic_load_n(&gpuring_p2p.consented, __ATOMIC_RELAXED) ||
            !__atomic_load_n(&gpuring_p2p.unseen_receives, __ATOMIC_RELAXED));
}

/* Return true if a process that asks has the same messages. */
static bool is_alike(int peer, const struct gpuring_p2p_home *home)
{
    if (home->version != GPURING_WIRE_VERSION) {
        gpuring_warn("[versions-differ] rank %d runs another version of coll/gpuring (wire format "
                     "%u) than rank %d (%u): large messages from it are staged as a whole; install "
                     "the same version on all hosts",
                     peer, home->version, gpuring_process.world_rank, GPURING_WIRE_VERSION);
    }
    return home->version == GPURING_WIRE_VERSION;
}

/* Answer the question of a process if there is one. */
static void answer_peer(struct gpuring_p2p_peer *self, int peer, const void *gpu)
{
    struct gpuring_p2p_home home = {.version = 0};
    bool consent;

    if (!next_question(peer, &home)) {
        return;
    }
    consent = is_alike(peer, &home) && gpuring_p2p_peers_watch();
    if (consent) {
        __atomic_store_n(&gpuring_p2p.consented, true, __ATOMIC_RELAXED);
    }
    self->own = (struct reply){.consents = consent,
                               .place = (int32_t) gpuring_p2p_best_place(&home, gpu),
                               .pid = (int32_t) getpid(),
                               .version = GPURING_WIRE_VERSION};
    send_short(&self->own, sizeof self->own, peer, GPURING_P2P_TAG_REPLY);
    __atomic_store_n(&self->answered, true, __ATOMIC_RELAXED);
}

void gpuring_p2p_peers_received(struct ompi_communicator_t *comm,
                                const ompi_status_public_t *status, const void *gpu)
{
    size_t least = gpuring_params.p2p_rendezvous;
    struct gpuring_p2p_peer *peers;
    int peer;

    /* Partner: count_blocking_probe in entries.c, which was called when there was no driver. */
    if (least == 0 || (gpu == NULL && status->_ucount < least) || status->MPI_SOURCE < 0 ||
        __atomic_load_n(&gpuring_p2p.blocking_probes, __ATOMIC_SEQ_CST) > 0) {
        return;
    }
    peer = gpuring_p2p_peer_of(comm, status->MPI_SOURCE);
    peers = peer >= 0 && peer != gpuring_process.world_rank ? get_peers() : NULL;
    if (peers != NULL && !__atomic_load_n(&peers[peer].answered, __ATOMIC_RELAXED)) {
        answer_peer(&peers[peer], peer, gpu);
    }
}

void gpuring_p2p_peers_close(void)
{
    int size = gpuring_p2p.peers != NULL ? ompi_comm_size(MPI_COMM_WORLD) : 0;
    struct gpuring_p2p_home home;

    while (next_question(MPI_ANY_SOURCE, &home)) {
        /* the sender no longer waits for the answer */
    }
    for (int peer = 0; peer < size; peer++) {
        ompi_request_t *receive = gpuring_p2p.peers[peer].receive;

        if (receive != NULL) {
            if (!REQUEST_COMPLETE(receive)) {
                ompi_request_cancel(receive);
            }
            ompi_request_free(&receive);
        }
    }
    free(gpuring_p2p.peers);
    gpuring_p2p.peers = NULL;
}
