/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "test/unit/net_messages.h"

#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/util/status.h"
#include "test/unit/unit.h"

#define RECORDS 4096

/* A message in flight. */
struct ompi_request_t {
    int from, to, tag;
    bool sent, complete, failed;
    bool cancelling, cancelled;
    size_t bytes;
    uint8_t *data; /* of a receive, or of a large send */
    uint64_t *completed;
    uint8_t stored[NET_MESSAGES_EAGER];
};

static struct ompi_request_t *records[RECORDS]; /* in the order in which they were started */
struct net_messages net_messages = {.cancels = true};

static bool matches(const struct ompi_request_t *a, const struct ompi_request_t *b)
{
    return a->sent != b->sent && !a->complete && !b->complete && a->from == b->from &&
           a->to == b->to && a->tag == b->tag;
}

/* Deliver a send to a receive. */
static void deliver(struct ompi_request_t *send, struct ompi_request_t *receive)
{
    size_t bytes = send->bytes < receive->bytes ? send->bytes : receive->bytes;

    memcpy(receive->data, send->data != NULL ? send->data : send->stored, bytes);
    receive->bytes = send->bytes > receive->bytes ? SIZE_MAX : send->bytes;
    send->complete = receive->complete = true;
    ++*send->completed;
    ++*receive->completed;
    net_messages.posted_receives--;
}

static int fake_start(struct ompi_communicator_t *comm, int tag, struct gpuring_message *message)
{
    struct ompi_request_t *request = calloc(1, sizeof *request);
    int i = 0;

    assert_non_null(request);
    assert_true(tag < -30);
    if (net_messages.refuse) {
        free(request);
        return GPURING_ERR_NET;
    }
    *request = (struct ompi_request_t){.from = message->sent ? comm->rank : message->peer,
                                       .to = message->sent ? message->peer : comm->rank,
                                       .tag = tag,
                                       .sent = message->sent,
                                       .failed = net_messages.fail_next,
                                       .bytes = message->bytes,
                                       .data = message->data,
                                       .completed = message->completed};
    net_messages.fail_next = false;
    if (request->sent && request->bytes <= NET_MESSAGES_EAGER && !message->synchronous) {
        if (request->bytes > 0) {
            memcpy(request->stored, request->data, request->bytes);
        }
        request->data = NULL;
    }
    net_messages.posted_receives += !request->sent;
    comm->started++;
    while (i < RECORDS && records[i] != NULL) {
        if (matches(records[i], request)) {
            deliver(request->sent ? request : records[i], request->sent ? records[i] : request);
            break;
        }
        i++;
    }
    while (i < RECORDS && records[i] != NULL) {
        i++;
    }
    assert_true(i < RECORDS);
    records[i] = request;
    message->request = request;
    return GPURING_OK;
}

static int fake_finish(struct gpuring_message *message)
{
    struct ompi_request_t *request = message->request;
    bool failed = request->failed;

    net_messages.looks++;
    if (!request->complete && !failed && !(request->sent && request->data == NULL)) {
        return GPURING_AGAIN;
    }
    message->withdrawn = false;
    if (request->cancelled) {
        message->request = NULL;
        return GPURING_AGAIN;
    }
    message->bytes = request->bytes;
    message->request = NULL; /* the record stays, because its data may not be received yet */
    return failed ? GPURING_ERR_NET : GPURING_OK;
}

static bool fake_cancel(struct gpuring_message *message)
{
    if (message->request != NULL && !message->request->sent && net_messages.cancels) {
        net_messages.posted_receives -= !message->request->complete;
        message->request->complete = true;
        message->request = NULL;
    }
    if (message->request != NULL && message->request->complete) {
        message->request = NULL;
    }
    return message->request == NULL;
}

static bool fake_withdraw(struct gpuring_message *message)
{
    if (!message->request->complete && net_messages.cancels_late) {
        message->withdrawn = message->request->cancelling = true;
        return false;
    }
    return !message->request->complete && fake_cancel(message);
}

static void fake_progress(void)
{
}

static int fake_lowest_tag(void)
{
    return -(1 << 20);
}

const struct gpuring_message_ops net_messages_ops = {.start = fake_start,
                                                     .finish = fake_finish,
                                                     .cancel = fake_cancel,
                                                     .withdraw = fake_withdraw,
                                                     .progress = fake_progress,
                                                     .lowest_tag = fake_lowest_tag};

void net_messages_complete(void)
{
    for (int i = 0; i < RECORDS && records[i] != NULL; i++) {
        records[i]->complete = true;
    }
}

void net_messages_cancel(void)
{
    for (int i = 0; i < RECORDS && records[i] != NULL; i++) {
        if (records[i]->cancelling && !records[i]->complete) {
            records[i]->complete = records[i]->cancelled = true;
            ++*records[i]->completed;
            net_messages.posted_receives--;
        }
    }
}

void net_messages_reset(void)
{
    for (int i = 0; i < RECORDS && records[i] != NULL; i++) {
        free(records[i]);
        records[i] = NULL;
    }
    net_messages = (struct net_messages){.cancels = true};
}
