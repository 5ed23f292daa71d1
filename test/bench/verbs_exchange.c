/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * verbs-exchange: let two processes write S bytes into each other's memory simultaneously, through
 * one reliable queue pair, and wait for the data of the other process. An allreduce of S bytes over
 * two ranks moves as much data, and also has to reduce it. The time of an exchange is therefore the
 * lower bound for an allreduce on this device, whatever software uses verbs.
 *
 *   verbs-exchange DEVICE GID-INDEX SMALLEST LARGEST TIMES WARM --serve PORT | --to HOST:PORT
 *
 * Sizes increase by factors of 2. For each of them, the serving process prints bytes and the
 * microseconds per exchange in a loop of TIMES exchanges, after WARM exchanges that are not timed.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/rdma/pair_socket.h"

#define RECEIVES 64
#define SENDS    64
#define TIMEOUT  20 /* 4.096 us * 2^20: emulated processors are slow */
#define INLINE   64

struct end {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    char *memory; /* first half: data to send; second half: received data */
    size_t half;
    unsigned receives; /* number of posted receives */
    uint64_t arrived, posted, done;
    struct {
        uint64_t address;
        uint32_t rkey, qp_num, psn, mtu;
        union ibv_gid gid;
    } mine, theirs;
};

static bool failed(const char *what)
{
    perror(what);
    return false;
}

static bool open_device(struct end *end, const char *name)
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    for (int i = 0; list != NULL && list[i] != NULL; i++) {
        if (strcmp(ibv_get_device_name(list[i]), name) == 0) {
            end->context = ibv_open_device(list[i]);
        }
    }
    ibv_free_device_list(list);
    return end->context != NULL || failed(name);
}

static bool create(struct end *end, int gid_index)
{
    struct ibv_qp_init_attr attributes = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = SENDS,
                .max_recv_wr = RECEIVES,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = INLINE},
    };
    struct ibv_qp_attr init = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    struct ibv_port_attr port;

    end->pd = ibv_alloc_pd(end->context);
    end->cq = ibv_create_cq(end->context, SENDS + RECEIVES, NULL, NULL, 0);
    if (end->pd == NULL || end->cq == NULL ||
        posix_memalign((void **) &end->memory, 4096, 2 * end->half) != 0) {
        return failed("resources");
    }
    memset(end->memory, 1, 2 * end->half);
    end->mr = ibv_reg_mr(end->pd, end->memory, 2 * end->half,
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    attributes.send_cq = attributes.recv_cq = end->cq;
    end->qp = end->mr != NULL ? ibv_create_qp(end->pd, &attributes) : NULL;
    if (end->qp == NULL || ibv_query_port(end->context, 1, &port) != 0 ||
        ibv_query_gid(end->context, 1, gid_index, &end->mine.gid) != 0 ||
        ibv_modify_qp(end->qp, &init,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) {
        return failed("queue pair");
    }
    end->mine.address = (uint64_t) (uintptr_t) (end->memory + end->half);
    end->mine.rkey = end->mr->rkey;
    end->mine.qp_num = end->qp->qp_num;
    end->mine.psn = 1;
    end->mine.mtu = port.active_mtu;
    return true;
}

static bool connect_qp(struct end *end, int gid_index)
{
    struct ibv_qp_attr rtr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu =
            (enum ibv_mtu)(end->theirs.mtu < end->mine.mtu ? end->theirs.mtu : end->mine.mtu),
        .dest_qp_num = end->theirs.qp_num,
        .rq_psn = end->theirs.psn,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12,
        .ah_attr = {.is_global = 1,
                    .port_num = 1,
                    .grh = {.dgid = end->theirs.gid,
                            .sgid_index = (uint8_t) gid_index,
                            .hop_limit = 64}},
    };
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
                              .sq_psn = end->mine.psn,
                              .timeout = TIMEOUT,
                              .retry_cnt = 6,
                              .rnr_retry = 6,
                              .max_rd_atomic = 1};

    if (ibv_modify_qp(end->qp, &rtr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0 ||
        ibv_modify_qp(end->qp, &rts,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
        return failed("connect");
    }
    return true;
}

static bool post_receives(struct end *end)
{
    struct ibv_recv_wr list[RECEIVES], *bad;
    unsigned count = RECEIVES - end->receives;

    for (unsigned i = 0; i < count; i++) {
        list[i] = (struct ibv_recv_wr){.next = i + 1 < count ? &list[i + 1] : NULL};
    }
    end->receives = RECEIVES;
    return ibv_post_recv(end->qp, list, &bad) == 0 || failed("receive");
}

static bool look(struct end *end)
{
    struct ibv_wc wc[16];
    int count = ibv_poll_cq(end->cq, 16, wc);

    for (int i = 0; i < count; i++) {
        if (wc[i].status != IBV_WC_SUCCESS) {
            fprintf(stderr, "verbs-exchange: %s\n", ibv_wc_status_str(wc[i].status));
            return false;
        }
        if (wc[i].opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
            end->arrived++;
            end->receives--;
        } else {
            end->done = wc[i].wr_id + 1;
        }
    }
    return count >= 0 && (end->receives > RECEIVES / 2 || post_receives(end));
}

/* Exchange data once. Only few sends are signaled, and their completions are needed only if the
 * send queue has no room. */
static bool exchange(struct end *end, size_t bytes)
{
    struct ibv_sge piece = {.addr = (uint64_t) (uintptr_t) end->memory,
                            .length = (uint32_t) bytes,
                            .lkey = end->mr->lkey};
    struct ibv_send_wr wr = {
        .wr_id = end->posted,
        .sg_list = &piece,
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
        .send_flags = (bytes <= INLINE ? IBV_SEND_INLINE : 0) |
                      (end->posted % (SENDS / 4) == 0 ? IBV_SEND_SIGNALED : 0),
        .wr.rdma = {.remote_addr = end->theirs.address, .rkey = end->theirs.rkey}};
    struct ibv_send_wr *bad;
    uint64_t wanted = end->posted + 1;

    while (end->posted - end->done >= SENDS / 2) {
        if (!look(end)) {
            return false;
        }
    }
    if (ibv_post_send(end->qp, &wr, &bad) != 0) {
        return failed("send");
    }
    end->posted++;
    while (end->arrived < wanted) {
        if (!look(end)) {
            return false;
        }
    }
    return true;
}

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec * 1e6 + (double) now.tv_nsec / 1e3;
}

static bool measure(struct end *end, int fd, size_t bytes, const unsigned *times, bool print)
{
    bool good = true;
    double begin;

    for (unsigned i = 0; i < times[1] && good; i++) {
        good = exchange(end, bytes);
    }
    if (pair_barrier(fd) != 0) {
        return false;
    }
    begin = now_us();
    for (unsigned i = 0; i < times[0] && good; i++) {
        good = exchange(end, bytes);
    }
    if (good && print) {
        printf("%zu %.2f\n", bytes, (now_us() - begin) / times[0]);
    }
    return good;
}

int main(int argc, char **argv)
{
    struct pair_message mine = {.bytes = sizeof(((struct end *) NULL)->mine)}, theirs;
    static struct end end;
    size_t smallest, largest;
    unsigned times[2];
    bool serves, good;
    int gid, fd;

    if (argc != 9) {
        fprintf(stderr, "usage: verbs-exchange DEVICE GID-INDEX SMALLEST LARGEST TIMES WARM "
                        "--serve PORT | --to HOST:PORT\n");
        return 2;
    }
    gid = atoi(argv[2]);
    smallest = strtoull(argv[3], NULL, 0);
    largest = strtoull(argv[4], NULL, 0);
    times[0] = (unsigned) atoi(argv[5]);
    times[1] = (unsigned) atoi(argv[6]);
    end.half = largest < 4096 ? 4096 : largest;
    serves = strcmp(argv[7], "--serve") == 0;
    fd = serves ? pair_serve(argv[8]) : pair_connect(argv[8]);
    if (fd < 0 || !open_device(&end, argv[1]) || !create(&end, gid) || !post_receives(&end)) {
        return 1;
    }
    memcpy(mine.data, &end.mine, sizeof end.mine);
    if (pair_exchange(fd, &mine, &theirs) != 0 || theirs.bytes != sizeof end.theirs) {
        return 1;
    }
    memcpy(&end.theirs, theirs.data, sizeof end.theirs);
    good = connect_qp(&end, gid) && pair_barrier(fd) == 0;
    for (size_t bytes = smallest; bytes <= largest && good; bytes *= 2) {
        good = measure(&end, fd, bytes, times, serves);
    }
    return good && pair_barrier(fd) == 0 ? 0 : 1;
}
