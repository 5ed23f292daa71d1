/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The shared memory of the stand-in for libibverbs. Its mutex guards everything in it, except that
 * only the owner of a queue of completions takes entries. */
#ifndef TEST_WIRE_INTERNAL_H
#define TEST_WIRE_INTERNAL_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "test/wire/wire.h"

#define WIRE_HOSTS   8
#define WIRE_DEVICES 8
#define WIRE_QPS     32768
#define WIRE_MRS     32768
#define WIRE_CQS     1024
#define WIRE_ENTRIES 8192
#define WIRE_FLIGHT  256
#define WIRE_NAME    32

struct wire_port {
    bool down;
    unsigned changes;           /* of `down` */
    uint64_t out, in;           /* times at which the port is free again */
    uint64_t done[WIRE_FLIGHT]; /* when messages complete; by their numbers */
    uint64_t sent;
};

struct wire_host {
    char name[64];
    struct wire_port port[WIRE_DEVICES];
    struct gpuring_wire_counts counts;
    uint64_t first, last; /* times of posts and completions with data; 0: none */
};

struct wire_qp {
    uint32_t number; /* 0: unused */
    pid_t pid;
    int host, device;
    enum ibv_qp_state state;
    uint32_t peer;                /* number */
    unsigned cq;                  /* of receives */
    uint64_t receives, delivered; /* posted, and used by messages or by an error */
};

struct wire_mr {
    pid_t pid; /* 0: unused */
    uint64_t base, bytes;
    int access;
};

struct wire_entry {
    uint64_t time;
    uint64_t id; /* of sends */
    uint32_t qp, imm, bytes;
    uint16_t status;
    bool receive;
};

struct wire_ring {
    uint64_t written, taken;
    struct wire_entry entry[WIRE_ENTRIES];
};

/* Sends and arrivals are in separate rings, because each of them is in the order of time. */
struct wire_cq {
    bool used, armed;
    char socket[WIRE_NAME]; /* that is notified */
    struct wire_ring sends, arrivals;
};

struct wire {
    pthread_mutex_t mutex;
    uint32_t next_qp;
    struct wire_host host[WIRE_HOSTS];
    struct wire_qp qp[WIRE_QPS];
    struct wire_mr mr[WIRE_MRS];
    struct wire_cq cq[WIRE_CQS];
};

/* The settings of this process. */
struct wire_settings {
    struct wire *wire; /* NULL: no file */
    int host, devices;
    bool infiniband, no_data, no_open, few_pairs, fails;
    double ns_per_byte;
    uint64_t latency, flight, fails_after;
    int notifier; /* socket */
};
extern struct wire_settings wire_here;

struct wire_own_cq {
    struct ibv_cq cq;
    unsigned number;
};

struct wire_own_qp {
    struct ibv_qp qp;
    struct wire_qp *shared;
    uint64_t *receive; /* [room]: ids of receives that are not complete */
    unsigned room, device;
    uint64_t posted, taken;
};

/* Read the settings, once. */
void wire_start(void);
void wire_gid(int device, union ibv_gid *gid); /* of this host */
void wire_lock(void);
void wire_unlock(void);
uint64_t wire_now(void);
/* Return the queue pair with this number, or NULL. */
struct wire_qp *wire_find(uint32_t number);
struct wire_own_qp *wire_own(uint32_t number); /* of this process */
/* Stop with a message: a device would not allow the call, or the model is full. */
void wire_stop(const char *what) __attribute__((noreturn));

/* data.c: the data path, as in the table of a device */
void wire_enter_error(struct wire_qp *qp); /* under the lock */
int wire_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int wire_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int wire_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int wire_req_notify_cq(struct ibv_cq *cq, int solicited);
gpuring_wire_counts_function gpuring_wire_counts;
gpuring_wire_data_function gpuring_wire_data;
gpuring_wire_fail_function gpuring_wire_fail;

#endif
