/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/p2p/peers.h"

#include <stdlib.h>

#include "mca/coll_gpuring/p2p/p2p_state.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/request.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* A question of this process to another one. */
struct gpuring_p2p_question {
    bool asked;
    int32_t consents; /* the reply: 1 or 0 */
    ompi_request_t *receive;
};

int gpuring_p2p_peer_of(struct ompi_communicator_t *comm, int rank)
{
    int peer = gpuring_process.world_rank >= 0 ? gpuring_compat_world_rank(comm, rank) : -1;

    return peer != gpuring_process.world_rank ? peer : -1;
}

void gpuring_p2p_peers_unseen_receive(void)
{
    if (!__atomic_exchange_n(&gpuring_p2p.unseen_receives, true, __ATOMIC_RELAXED)) {
        gpuring_info("[p2p-unseen] a non-blocking or persistent receive was begun before the CUDA "
                     "driver was loaded: large messages to this process are staged as a whole; "
                     "initialise CUDA before the first receive");
    }
}

void gpuring_p2p_blocking_probe_enter(void)
{
    if (gpuring_process.threads) {
        __atomic_add_fetch(&gpuring_p2p.blocking_probes, 1, __ATOMIC_SEQ_CST);
    }
}

void gpuring_p2p_blocking_probe_leave(void)
{
    if (gpuring_process.threads) {
        __atomic_sub_fetch(&gpuring_p2p.blocking_probes, 1, __ATOMIC_SEQ_CST);
    }
}

/* Send one word without waiting for its completion. */
static void send_word(const int32_t *word, int peer, enum gpuring_p2p_tag tag)
{
    ompi_request_t *request;

    if (gpuring_p2p_world_isend(word, sizeof *word, peer, tag, &request) == GPURING_OK) {
        ompi_request_free(&request);
    }
}

bool gpuring_p2p_peer_consents(int peer)
{
    static const int32_t any = 0;
    struct gpuring_p2p_question *question = NULL;
    ompi_request_t *receive;
    bool asked = false;

    pthread_mutex_lock(&gpuring_p2p.lock);
    if (gpuring_p2p.questions == NULL) {
        gpuring_p2p.questions =
            calloc((size_t) ompi_comm_size(MPI_COMM_WORLD), sizeof *gpuring_p2p.questions);
    }
    if (gpuring_p2p.questions != NULL) {
        question = &gpuring_p2p.questions[peer];
        asked = question->asked;
        question->asked = true;
    }
    pthread_mutex_unlock(&gpuring_p2p.lock);
    if (asked) {
        receive = __atomic_load_n(&question->receive, __ATOMIC_ACQUIRE);
        return receive != NULL && gpuring_request_done(receive) && question->consents;
    }
    /* Without the lock, because the PML may call other components, which may send. */
    if (question != NULL &&
        gpuring_p2p_world_irecv(&question->consents, sizeof question->consents, peer,
                                GPURING_P2P_TAG_REPLY, &receive) == GPURING_OK) {
        send_word(&any, peer, GPURING_P2P_TAG_ASK);
        __atomic_store_n(&question->receive, receive, __ATOMIC_RELEASE);
    }
    return false;
}

/* Receive the next question. Returns the rank of its sender, or -1 if there is none. */
static int next_question(void)
{
    ompi_status_public_t status;
    struct ompi_message_t *message;
    int32_t word;
    int found = 0;

    if (gpuring_process.world_rank < 0 ||
        gpuring_p2p.previous.pml_improbe(MPI_ANY_SOURCE, GPURING_P2P_TAG_ASK, MPI_COMM_WORLD,
                                         &found, &message, &status) != MPI_SUCCESS ||
        !found ||
        gpuring_p2p.previous.pml_mrecv(&word, sizeof word, MPI_BYTE, &message, &status) !=
            MPI_SUCCESS) {
        return -1;
    }
    return status.MPI_SOURCE;
}

bool gpuring_p2p_peers_watch(void)
{
    return gpuring_params.p2p_rendezvous > 0 &&
           (__atomic_load_n(&gpuring_p2p.consented, __ATOMIC_RELAXED) ||
            !__atomic_load_n(&gpuring_p2p.unseen_receives, __ATOMIC_RELAXED));
}

void gpuring_p2p_peers_received(size_t bytes)
{
    static const int32_t replies[] = {0, 1};
    bool consent = gpuring_p2p_peers_watch();
    int peer;

    /* Partner: gpuring_p2p_blocking_probe_enter, which was called when there was no driver. */
    if (bytes < gpuring_params.p2p_rendezvous || gpuring_params.p2p_rendezvous == 0 ||
        __atomic_load_n(&gpuring_p2p.blocking_probes, __ATOMIC_SEQ_CST) > 0) {
        return;
    }
    while ((peer = next_question()) >= 0) {
        if (consent) {
            __atomic_store_n(&gpuring_p2p.consented, true, __ATOMIC_RELAXED);
        }
        send_word(&replies[consent], peer, GPURING_P2P_TAG_REPLY);
    }
}

void gpuring_p2p_peers_close(void)
{
    int size = gpuring_p2p.questions != NULL ? ompi_comm_size(MPI_COMM_WORLD) : 0;

    while (next_question() >= 0) {
        /* the sender no longer waits for the answer */
    }
    for (int peer = 0; peer < size; peer++) {
        ompi_request_t *receive = gpuring_p2p.questions[peer].receive;

        if (receive != NULL) {
            if (!REQUEST_COMPLETE(receive)) {
                ompi_request_cancel(receive);
            }
            ompi_request_free(&receive);
        }
    }
    free(gpuring_p2p.questions);
    gpuring_p2p.questions = NULL;
}
