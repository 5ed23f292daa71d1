/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/p2p/peers.h"

#include <pthread.h>
#include <stdlib.h>

#include "mca/coll_gpuring/p2p/pml.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/request.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* A question of this process to another one. */
struct question {
    bool asked;
    int32_t consents; /* the reply: 1 or 0 */
    ompi_request_t *receive;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following variables */
static struct question *questions;                       /* by rank; NULL before the first one */

static bool unseen, replied; /* atomic; replied: this process has answered yes at least once */
static int blocking_probes;  /* atomic */

int gpuring_p2p_peer_of(struct ompi_communicator_t *comm, int rank)
{
    int peer = gpuring_process.world_rank >= 0 ? gpuring_compat_world_rank(comm, rank) : -1;

    return peer != gpuring_process.world_rank ? peer : -1;
}

void gpuring_p2p_peers_unseen_receive(void)
{
    if (!__atomic_exchange_n(&unseen, true, __ATOMIC_RELAXED)) {
        gpuring_info("[p2p-unseen] a non-blocking or persistent receive was begun before the CUDA "
                     "driver was loaded: large messages to this process are staged as a whole; "
                     "initialise CUDA before the first receive");
    }
}

void gpuring_p2p_blocking_probe_enter(void)
{
    if (gpuring_process.threads) {
        __atomic_add_fetch(&blocking_probes, 1, __ATOMIC_SEQ_CST);
    }
}

void gpuring_p2p_blocking_probe_leave(void)
{
    if (gpuring_process.threads) {
        __atomic_sub_fetch(&blocking_probes, 1, __ATOMIC_SEQ_CST);
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
    struct question *question = NULL;
    ompi_request_t *receive;
    bool asked = false;

    pthread_mutex_lock(&lock);
    if (questions == NULL) {
        questions = calloc((size_t) ompi_comm_size(MPI_COMM_WORLD), sizeof *questions);
    }
    if (questions != NULL) {
        question = &questions[peer];
        asked = question->asked;
        question->asked = true;
    }
    pthread_mutex_unlock(&lock);
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
        gpuring_p2p_previous.pml_improbe(MPI_ANY_SOURCE, GPURING_P2P_TAG_ASK, MPI_COMM_WORLD,
                                         &found, &message, &status) != MPI_SUCCESS ||
        !found ||
        gpuring_p2p_previous.pml_mrecv(&word, sizeof word, MPI_BYTE, &message, &status) !=
            MPI_SUCCESS) {
        return -1;
    }
    return status.MPI_SOURCE;
}

bool gpuring_p2p_peers_watch(void)
{
    return gpuring_params.p2p_rendezvous > 0 && (__atomic_load_n(&replied, __ATOMIC_RELAXED) ||
                                                 !__atomic_load_n(&unseen, __ATOMIC_RELAXED));
}

void gpuring_p2p_peers_received(size_t bytes)
{
    static const int32_t replies[] = {0, 1};
    bool consent = gpuring_p2p_peers_watch();
    int peer;

    /* Partner: gpuring_p2p_blocking_probe_enter, which was called when there was no driver. */
    if (bytes < gpuring_params.p2p_rendezvous || gpuring_params.p2p_rendezvous == 0 ||
        __atomic_load_n(&blocking_probes, __ATOMIC_SEQ_CST) > 0) {
        return;
    }
    while ((peer = next_question()) >= 0) {
        if (consent) {
            __atomic_store_n(&replied, true, __ATOMIC_RELAXED);
        }
        send_word(&replies[consent], peer, GPURING_P2P_TAG_REPLY);
    }
}

void gpuring_p2p_peers_close(void)
{
    int size = questions != NULL ? ompi_comm_size(MPI_COMM_WORLD) : 0;

    while (next_question() >= 0) {
        /* the sender no longer waits for the answer */
    }
    for (int peer = 0; peer < size; peer++) {
        ompi_request_t *receive = questions[peer].receive;

        if (receive != NULL) {
            if (!REQUEST_COMPLETE(receive)) {
                ompi_request_cancel(receive);
            }
            ompi_request_free(&receive);
        }
    }
    free(questions);
    questions = NULL;
}
