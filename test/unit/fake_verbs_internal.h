/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Internals that the two files of fake_verbs share. The mutex guards all of them. */
#ifndef TEST_FAKE_VERBS_INTERNAL_H
#define TEST_FAKE_VERBS_INTERNAL_H

#include <pthread.h>

#include "test/unit/fake_verbs.h"

#define FAKE_SLOT_BYTES 20480 /* the largest send */

struct held_send { /* on a device without a cable */
    struct held_send *next;
    struct fake_qp *qp;
    uint32_t number; /* of the queue pair, which may be gone */
    uint32_t peer;
    int device, peer_device;
    struct ibv_send_wr wr;
    uint32_t length;
    uint8_t bytes[FAKE_SLOT_BYTES];
};

struct fake_cq {
    struct ibv_cq cq;
    struct ibv_wc *wc;
    unsigned room, first, count;
    bool notify;
};

struct fake_qp {
    struct ibv_qp qp;
    struct fake_qp *next;
    enum ibv_qp_state state;
    uint32_t peer;
    int peer_device;
    unsigned send_room, receive_room, receives;
    unsigned unreported; /* sends since the last reported one */
    uint64_t *receive_id;
    unsigned first_receive;
    struct held_send *waiting, *last; /* sends that wait for a receive of the peer, in order */
};

struct fake_mr {
    struct ibv_mr mr;
    struct fake_mr *next;
    int access;
    bool gpu;
};

struct lazy_write { /* in flight to a GPU, although its completion is visible */
    struct lazy_write *next;
    int device;
    uint64_t address;
    uint32_t length;
    uint8_t bytes[FAKE_SLOT_BYTES];
};

struct fake_context {
    struct ibv_context context;
    int number;
    int events[2]; /* pipe */
};

struct fake {
    pthread_mutex_t mutex;
    struct fake_device device[FAKE_DEVICES];
    struct ibv_device handle[FAKE_DEVICES];
    int ndevices;
    bool pulled[FAKE_DEVICES], mute[FAKE_DEVICES];
    struct fake_context *context[FAKE_DEVICES];
    struct fake_faults faults, calls; /* calls: counts so far, by the same names */
    struct fake_qp *qps;
    struct fake_mr *mrs;
    struct held_send *held, *late;
    unsigned kills; /* by doom */
    void (*making)(void);
    bool retry;           /* see fake_verbs_retry */
    unsigned limit, nqps; /* queue pairs: largest number, and number */
    int max_wr;           /* size of queues; 0: unlimited */
    unsigned not_ready;
    bool gpu, peer_memory, dmabuf, lazy;
    int (*on_gpu)(const void *address);
    void (*copy)(void *to, const void *from, size_t bytes);
    struct lazy_write *writes, **writes_end;
    unsigned dmabufs, relaxed, reads;
    uint32_t next_number, next_qp[FAKE_DEVICES];
    int objects;
    unsigned sends, reported, inlined, plain, violations;
};
extern struct fake fake;

#define LOCK   pthread_mutex_lock(&fake.mutex)
#define UNLOCK pthread_mutex_unlock(&fake.mutex)
/* Return true if this call, of the kind `name`, must fail. */
#define FAILS(name) (++fake.calls.name == fake.faults.name)

static inline const struct fake_device *fake_device_of(const struct ibv_context *context)
{
    return &fake.device[context->device - fake.handle];
}

static inline unsigned fake_count(const unsigned *count)
{
    unsigned value;

    LOCK;
    value = *count;
    UNLOCK;
    return value;
}

/* fake_verbs_data.c: the data path, as in the table of a device */
/* Both under the lock. fake_forget: the queue pair is destroyed. */
void fake_enter_error(struct fake_qp *qp);
void fake_forget(const struct ibv_qp *qp);
int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int fake_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int fake_req_notify_cq(struct ibv_cq *cq, int solicited);

#endif
