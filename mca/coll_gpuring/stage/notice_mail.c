/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/stage/notice_mail.h"

#include <string.h>

#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/oob/oob.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/topology/format.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define OUT      16  /* notices whose messages have not all left MPI's hands */
#define SLOTS    128 /* messages under way */
#define RECEIPTS 256 /* notices that are to be answered */

struct letter {
    ompi_request_t *request; /* NULL: free */
    struct gpuring_notice notice;
};

struct gpuring_notice_receipt {
    uint32_t number; /* of the notice: turns * RECEIPTS + place, never 0; 0: free */
    int missing;     /* atomic */
};

/* One thread at a time moves the mail, and has `slots`, `in` and `owed`. Where it calls MPI it
 * holds no lock: MPI may call our progress functions. */
static struct {
    bool moving; /* atomic */
    bool open;   /* of the mover */
    struct letter slots[SLOTS];
    struct letter in;
    struct {
        uint32_t receipt; /* 0: none */
        int to;
    } owed; /* an answer */

    pthread_mutex_t lock; /* guards what follows; `waiting` is atomic, too */
    struct {
        struct ompi_communicator_t *comm; /* one reference */
        struct gpuring_notice notice;
        struct gpuring_notice_ranks asked;
        int next; /* the next rank: those of this group, then those of the other one */
    } out[OUT];
    int waiting;
    struct gpuring_notice_receipt receipts[RECEIPTS];
    uint32_t turns;
} mail = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool mail_begin(void)
{
    return !__atomic_exchange_n(&mail.moving, true, __ATOMIC_ACQUIRE);
}

static void mail_end(void)
{
    __atomic_store_n(&mail.moving, false, __ATOMIC_RELEASE);
}

/* A message that has left, to be used again; NULL: all are under way. */
static struct letter *free_slot(void)
{
    for (int i = 0; i < SLOTS; i++) {
        if (gpuring_message_finish(&mail.slots[i].request, NULL) != GPURING_AGAIN) {
            return &mail.slots[i];
        }
    }
    return NULL;
}

static void take_answer(const struct gpuring_notice *answer)
{
    struct gpuring_notice_receipt *receipt = &mail.receipts[answer->receipt % RECEIPTS];

    pthread_mutex_lock(&mail.lock);
    if (receipt->number == answer->receipt) { /* else nobody waits for it any more */
        __atomic_store_n(&receipt->missing, receipt->missing - 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&mail.lock);
}

static void take_letter(struct gpuring_notice *notice)
{
    if (notice->kind == GPURING_NOTICE_ANSWER) {
        take_answer(notice);
        return;
    }
    notice->host[sizeof notice->host - 1] = '\0';
    gpuring_notice_box_put(notice);
    mail.owed.receipt = notice->receipt;
    mail.owed.to = notice->sender;
}

/* False: not yet. */
static bool give_answer(void)
{
    struct letter *slot = mail.owed.receipt != 0 ? free_slot() : NULL;

    if (slot == NULL) {
        return mail.owed.receipt == 0;
    }
    slot->notice = (struct gpuring_notice){.version = GPURING_WIRE_VERSION,
                                           .receipt = mail.owed.receipt,
                                           .sender = gpuring_process.world_rank,
                                           .kind = GPURING_NOTICE_ANSWER};
    mail.owed.receipt = 0;
    (void) gpuring_message_send(MPI_COMM_WORLD, &slot->notice, sizeof slot->notice, mail.owed.to,
                                GPURING_TAG_NOTICE, &slot->request);
    return true;
}

/* All that has come. One receive is enough for any number of senders: those behind the first wait
 * for the next one, which takes what is there. */
static void receive(void)
{
    struct letter *in = &mail.in;
    int status = GPURING_OK;

    while (status == GPURING_OK && give_answer()) {
        size_t bytes = 0;

        if (in->request == NULL) {
            status = gpuring_message_receive(MPI_COMM_WORLD, &in->notice, sizeof in->notice,
                                             MPI_ANY_SOURCE, GPURING_TAG_NOTICE, &in->request);
        }
        if (status == GPURING_OK) {
            status = gpuring_message_finish(&in->request, &bytes);
        }
        if (status == GPURING_OK && bytes == sizeof in->notice &&
            in->notice.version == GPURING_WIRE_VERSION) {
            take_letter(&in->notice);
        }
    }
}

/* Who gets a notice: of this group, then of the other one; -1: the sender itself, or who cannot. */
static int world_rank_of(struct ompi_communicator_t *comm, int next)
{
    int ranks = ompi_comm_size(comm);

    return next == ompi_comm_rank(comm) ? -1
           : next < ranks               ? gpuring_compat_world_rank(comm, next, false)
                                        : gpuring_compat_world_rank(comm, next - ranks, true);
}

/* The oldest notice for its next rank; false: there is none. */
static bool next_letter(struct gpuring_notice *notice, int *world_rank)
{
    struct ompi_communicator_t *comm, *done = NULL;
    int next, ranks;

    pthread_mutex_lock(&mail.lock);
    if (mail.waiting == 0) {
        pthread_mutex_unlock(&mail.lock);
        return false;
    }
    comm = mail.out[0].comm;
    next = mail.out[0].next++;
    ranks = ompi_comm_size(comm);
    *notice = mail.out[0].notice;
    notice->remote = next >= ranks;
    *world_rank = world_rank_of(comm, next);
    if (next < mail.out[0].asked.first || next >= mail.out[0].asked.end) {
        notice->receipt = 0;
    }
    if (mail.out[0].next == ranks + (OMPI_COMM_IS_INTER(comm) ? ompi_comm_remote_size(comm) : 0)) {
        done = comm;
        mail.waiting--;
        memmove(&mail.out[0], &mail.out[1], (size_t) mail.waiting * sizeof mail.out[0]);
    }
    pthread_mutex_unlock(&mail.lock);
    if (done != NULL) {
        OBJ_RELEASE(done);
    }
    return true;
}

static void send_all(void)
{
    struct letter *slot = free_slot();
    int to;

    while (slot != NULL && next_letter(&slot->notice, &to)) {
        if (to >= 0) {
            (void) gpuring_message_send(MPI_COMM_WORLD, &slot->notice, sizeof slot->notice, to,
                                        GPURING_TAG_NOTICE, &slot->request);
            slot = free_slot();
        }
    }
}

void gpuring_notice_mail_look(void)
{
    if (!mail_begin()) {
        return;
    }
    if (mail.open) {
        receive();
        if (__atomic_load_n(&mail.waiting, __ATOMIC_RELAXED) > 0) {
            send_all();
        }
    }
    mail_end();
}

static int progress_callback(void)
{
    gpuring_notice_mail_look();
    return 0;
}

/* Called with the lock held. */
static struct gpuring_notice_receipt *receipt_new(struct ompi_communicator_t *comm,
                                                  struct gpuring_notice_ranks asked)
{
    struct gpuring_notice_receipt *receipt = NULL;
    int missing = 0;

    for (int next = asked.first; next < asked.end; next++) {
        missing += world_rank_of(comm, next) >= 0;
    }
    for (uint32_t i = 0; i < RECEIPTS && missing > 0 && receipt == NULL; i++) {
        if (mail.receipts[i].number == 0) {
            receipt = &mail.receipts[i];
            mail.turns = mail.turns % (UINT32_MAX / RECEIPTS - 1) + 1;
            receipt->number = mail.turns * RECEIPTS + i;
            __atomic_store_n(&receipt->missing, missing, __ATOMIC_RELAXED);
        }
    }
    if (receipt == NULL && missing > 0) {
        gpuring_warn("communicator %s: too many calls wait for other ranks to know of a failure "
                     "here: this one goes on, and they may get its void data with success",
                     comm->c_name);
    }
    return receipt;
}

struct gpuring_notice_receipt *gpuring_notice_mail_send(struct ompi_communicator_t *comm,
                                                        const struct gpuring_notice *notice,
                                                        struct gpuring_notice_ranks asked)
{
    struct gpuring_notice_receipt *receipt = NULL;
    bool room;

    pthread_mutex_lock(&mail.lock);
    room = mail.waiting < OUT;
    if (room) {
        receipt = receipt_new(comm, asked);
        OBJ_RETAIN(comm);
        mail.out[mail.waiting].comm = comm;
        mail.out[mail.waiting].notice = *notice;
        mail.out[mail.waiting].notice.sender = gpuring_process.world_rank;
        mail.out[mail.waiting].notice.receipt = receipt != NULL ? receipt->number : 0;
        mail.out[mail.waiting].asked = asked;
        mail.out[mail.waiting].next = 0;
        __atomic_store_n(&mail.waiting, mail.waiting + 1, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&mail.lock);
    if (!room) {
        gpuring_warn("communicator %s: too many failures to tell: the other ranks do not get to "
                     "know of this one",
                     comm->c_name);
    }
    gpuring_notice_mail_look();
    return receipt;
}

int gpuring_notice_mail_missing(const struct gpuring_notice_receipt *receipt)
{
    return __atomic_load_n(&receipt->missing, __ATOMIC_ACQUIRE);
}

void gpuring_notice_mail_forget(struct gpuring_notice_receipt *receipt)
{
    pthread_mutex_lock(&mail.lock);
    receipt->number = 0;
    pthread_mutex_unlock(&mail.lock);
}

/* Of low priority: once in several times that MPI moves on. */
void gpuring_notice_mail_open(void)
{
    mail.open = gpuring_process.world_rank >= 0;
    if (mail.open) {
        opal_progress_register_lp(progress_callback);
        gpuring_notice_mail_look();
    }
}

void gpuring_notice_mail_close(void)
{
    if (!mail.open || !mail_begin()) {
        return;
    }
    mail.open = false;
    opal_progress_unregister(progress_callback);
    /* What cannot be given up is in memory of the process. */
    (void) gpuring_message_cancel(&mail.in.request);
    for (int i = 0; i < SLOTS; i++) {
        (void) gpuring_message_cancel(&mail.slots[i].request);
    }
    mail_end();
}
