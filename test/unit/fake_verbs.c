/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/unit/fake_verbs_internal.h"

struct fake fake = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static struct ibv_device **get_device_list(int *count)
{
    struct ibv_device **list = calloc((size_t) fake.ndevices + 1, sizeof(struct ibv_device *));

    for (int i = 0; list != NULL && i < fake.ndevices; i++) {
        list[i] = &fake.handle[i];
    }
    *count = fake.ndevices;
    return list;
}

static void free_device_list(struct ibv_device **list)
{
    free(list);
}

static int number_of(const struct ibv_device *device)
{
    return (int) (device - fake.handle);
}

static const char *get_device_name(struct ibv_device *device)
{
    return fake.device[number_of(device)].name;
}

static struct ibv_context *open_device(struct ibv_device *device)
{
    struct fake_context *context;

    LOCK;
    context = FAILS(open_device) ? NULL : calloc(1, sizeof *context);
    if (context != NULL && pipe(context->events) == 0) {
        context->context.device = device;
        context->context.async_fd = context->events[0];
        context->context.ops.post_send = fake_post_send;
        context->context.ops.post_recv = fake_post_recv;
        context->context.ops.poll_cq = fake_poll_cq;
        context->context.ops.req_notify_cq = fake_req_notify_cq;
        context->number = number_of(device);
        fake.context[context->number] = context;
        fake.objects++;
    }
    UNLOCK;
    errno = EACCES;
    return context != NULL ? &context->context : NULL;
}

static int close_device(struct ibv_context *context)
{
    struct fake_context *mine = (struct fake_context *) context;

    LOCK;
    fake.context[mine->number] = NULL;
    fake.objects--;
    UNLOCK;
    close(mine->events[0]);
    close(mine->events[1]);
    free(mine);
    return 0;
}

static int query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    memset(attr, 0, sizeof *attr);
    attr->phys_port_cnt = (uint8_t) fake_device_of(context)->ports;
    attr->max_cqe = 32767;
    attr->max_qp_wr = fake.max_wr;
    attr->vendor_id = fake_device_of(context)->vendor;
    return 0;
}

static int query_port(struct ibv_context *context, uint8_t number,
                      struct _compat_ibv_port_attr *result)
{
    struct ibv_port_attr *attr = (struct ibv_port_attr *) result;
    const struct fake_device *device = fake_device_of(context);

    memset(attr, 0, sizeof *attr);
    attr->state = (device->active >> number & 1) != 0 ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    attr->link_layer = device->link_layer;
    attr->active_mtu = IBV_MTU_4096;
    attr->gid_tbl_len = FAKE_GIDS;
    attr->pkey_tbl_len = 2;
    attr->lid = (uint16_t) (number_of(context->device) + 1);
    attr->active_speed = device->speed > 0 ? device->speed : 32;
    attr->active_width = device->width > 0 ? device->width : 2;
    attr->flags = device->grh ? IBV_QPF_GRH_REQUIRED : 0;
    return 0;
}

static int query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
                        struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
    (void) port;
    (void) flags;
    (void) size;
    memset(entry, 0, sizeof *entry);
    entry->gid_type = fake_device_of(context)->gid_type[index];
    memcpy(entry->gid.raw, fake_device_of(context)->gid[index], 16);
    return 0;
}

/* Two partitions: the default one, and number 0x123 as a full member. */
static int query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *key)
{
    (void) context;
    (void) port;
    *key = htobe16(index == 0 ? 0xffff : 0x8123);
    return 0;
}

static int get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    return read(context->async_fd, event, sizeof *event) == (ssize_t) sizeof *event ? 0 : -1;
}

static void ack_async_event(struct ibv_async_event *event)
{
    (void) event;
}

/* Create an object, or fail on demand. */
static void *make(size_t bytes, bool fails)
{
    void *object = fails ? NULL : calloc(1, bytes);

    if (object != NULL) {
        fake.objects++;
    } else {
        errno = ENOMEM;
    }
    return object;
}

static int unmake(void *object)
{
    LOCK;
    fake.objects--;
    UNLOCK;
    free(object);
    return 0;
}

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *pd;

    LOCK;
    pd = make(sizeof *pd, FAILS(alloc_pd));
    UNLOCK;
    if (pd != NULL) {
        pd->context = context;
    }
    return pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
    return unmake(pd);
}

/* Create a registration. The caller holds the lock. */
static struct ibv_mr *add_mr(struct ibv_pd *pd, void *base, size_t bytes, int access, bool gpu)
{
    struct fake_mr *mr = make(sizeof *mr, FAILS(reg_mr));

    if (mr == NULL) {
        return NULL;
    }
    mr->mr = (struct ibv_mr){.context = pd->context,
                             .pd = pd,
                             .addr = base,
                             .length = bytes,
                             .lkey = ++fake.next_number,
                             .rkey = ++fake.next_number};
    mr->access = access;
    fake.relaxed += (access & IBV_ACCESS_RELAXED_ORDERING) != 0;
    mr->gpu = gpu;
    mr->next = fake.mrs;
    fake.mrs = mr;
    return &mr->mr;
}

static void watch(void)
{
    if (fake.making != NULL) {
        fake.making();
    }
}

void fake_verbs_watch(void (*making)(void))
{
    fake.making = making;
}

static struct ibv_mr *reg_memory(struct ibv_pd *pd, void *base, size_t bytes, int access)
{
    struct ibv_mr *mr = NULL;
    bool gpu;

    watch();
    LOCK;
    gpu = fake.gpu && (fake.on_gpu != NULL ? fake.on_gpu(base) != 0 : bytes > 4096);
    errno = EFAULT;
    if (!gpu || fake.peer_memory) {
        mr = add_mr(pd, base, bytes, access, gpu);
    }
    UNLOCK;
    return mr;
}

/* Optional access flags need the second function. */
static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *base, size_t bytes, int access)
{
    LOCK;
    fake.violations += ((unsigned) access & IBV_ACCESS_OPTIONAL_RANGE) != 0;
    UNLOCK;
    return reg_memory(pd, base, bytes, access);
}

static struct ibv_mr *reg_mr_iova2(struct ibv_pd *pd, void *base, size_t bytes, uint64_t iova,
                                   unsigned access)
{
    return iova == (uintptr_t) base ? reg_memory(pd, base, bytes, (int) access) : NULL;
}

/* Return true if the descriptor refers to the memory and has at least this size. */
static bool dmabuf_holds(int fd, uint64_t bytes)
{
    struct stat facts;

    return fake.on_gpu != NULL ? fstat(fd, &facts) == 0 && (uint64_t) facts.st_size >= bytes
                               : fd == FAKE_DMABUF;
}

static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes,
                                    uint64_t address, int fd, int access)
{
    struct ibv_mr *mr = NULL;

    LOCK;
    errno = EOPNOTSUPP;
    if (fake.dmabuf) {
        fake.dmabufs++;
        fake.violations += !dmabuf_holds(fd, bytes) || offset != 0;
        mr = add_mr(pd, (void *) (uintptr_t) address, bytes, access, true);
    }
    UNLOCK;
    return mr;
}

static int dereg_mr(struct ibv_mr *mr)
{
    struct fake_mr **at;

    LOCK;
    for (at = &fake.mrs; &(*at)->mr != mr; at = &(*at)->next) {
    }
    *at = (*at)->next;
    UNLOCK;
    return unmake(mr);
}

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *context)
{
    struct ibv_comp_channel *channel;

    LOCK;
    channel = make(sizeof *channel, FAILS(create_channel));
    UNLOCK;
    if (channel != NULL) {
        channel->context = context;
        channel->fd = eventfd(0, EFD_SEMAPHORE);
    }
    return channel;
}

static int destroy_comp_channel(struct ibv_comp_channel *channel)
{
    close(channel->fd);
    return unmake(channel);
}

static struct ibv_cq *create_cq(struct ibv_context *context, int entries, void *user,
                                struct ibv_comp_channel *channel, int vector)
{
    struct fake_cq *cq;

    (void) vector;
    LOCK;
    cq = make(sizeof *cq, FAILS(create_cq));
    UNLOCK;
    if (cq == NULL) {
        return NULL;
    }
    cq->cq =
        (struct ibv_cq){.context = context, .channel = channel, .cq_context = user, .cqe = entries};
    cq->room = (unsigned) entries;
    cq->wc = calloc(cq->room, sizeof(*cq->wc));
    return &cq->cq;
}

static int destroy_cq(struct ibv_cq *cq)
{
    free(((struct fake_cq *) cq)->wc);
    return unmake(cq);
}

static int get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
    uint64_t count;

    if (read(channel->fd, &count, sizeof count) < 0) {
        return -1;
    }
    LOCK;
    *cq = NULL;
    for (struct fake_qp *qp = fake.qps; qp != NULL; qp = qp->next) {
        if (qp->qp.send_cq->channel == channel) {
            *cq = qp->qp.send_cq;
        }
    }
    UNLOCK;
    if (*cq == NULL) {
        return -1;
    }
    *context = (*cq)->cq_context;
    return 0;
}

static void ack_cq_events(struct ibv_cq *cq, unsigned count)
{
    (void) cq;
    (void) count;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct fake_qp *qp;

    watch();
    if (attr->cap.max_inline_data > fake_device_of(pd->context)->max_inline ||
        fake_device_of(pd->context)->no_rc) {
        errno = fake_device_of(pd->context)->no_rc ? EOPNOTSUPP : EINVAL;
        return NULL;
    }
    LOCK;
    qp = make(sizeof *qp, FAILS(create_qp) || (fake.limit > 0 && fake.nqps >= fake.limit));
    if (qp != NULL) {
        fake.nqps++;
        qp->qp = (struct ibv_qp){.context = pd->context,
                                 .pd = pd,
                                 .send_cq = attr->send_cq,
                                 .recv_cq = attr->recv_cq,
                                 .qp_num = ++fake.next_qp[number_of(pd->context->device)]};
        qp->send_room = attr->cap.max_send_wr;
        qp->receive_room = attr->cap.max_recv_wr;
        qp->receive_id = calloc(qp->receive_room, sizeof(*qp->receive_id));
        qp->next = fake.qps;
        fake.qps = qp;
    }
    UNLOCK;
    return qp != NULL ? &qp->qp : NULL;
}

/* Return the device with this address, or -1. */
static int device_at(const struct ibv_qp *qp, const struct ibv_ah_attr *address)
{
    if (fake_device_of(qp->context)->grh && !address->is_global) {
        return -1;
    }
    for (int i = 0; i < fake.ndevices && address->is_global; i++) {
        for (int g = 0; g < FAKE_GIDS; g++) {
            if (memcmp(fake.device[i].gid[g], address->grh.dgid.raw, 16) == 0 &&
                fake.device[i].gid_type[g] == IBV_GID_TYPE_ROCE_V2) {
                return i;
            }
        }
    }
    return address->dlid - 1;
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    struct fake_qp *mine = (struct fake_qp *) qp;
    int error = 0;

    watch();
    LOCK;
    if (FAILS(modify_qp)) {
        error = EINVAL;
    } else {
        mine->state = attr->qp_state;
        if (mine->state == IBV_QPS_ERR) {
            fake_enter_error(mine);
        }
        mine->peer = (mask & IBV_QP_DEST_QPN) != 0 ? attr->dest_qp_num : mine->peer;
        mine->peer_device =
            (mask & IBV_QP_AV) != 0 ? device_at(qp, &attr->ah_attr) : mine->peer_device;
    }
    UNLOCK;
    return error;
}

static int destroy_qp(struct ibv_qp *qp)
{
    struct fake_qp **at;

    LOCK;
    for (at = &fake.qps; &(*at)->qp != qp; at = &(*at)->next) {
    }
    *at = (*at)->next;
    for (struct held_send **held = &fake.held; *held != NULL;) {
        struct held_send *gone = *held;

        if (&gone->qp->qp == qp) {
            *held = gone->next;
            free(gone);
        } else {
            held = &gone->next;
        }
    }
    fake_forget(qp);
    fake.nqps--;
    free(((struct fake_qp *) qp)->receive_id);
    UNLOCK;
    return unmake(qp);
}

static int fork_init(void)
{
    return 0;
}

static const char *wc_status_str(enum ibv_wc_status status)
{
    return status == IBV_WC_RETRY_EXC_ERR ? "transport retry counter exceeded" : "a fake status";
}

static const char *event_type_str(enum ibv_event_type type)
{
    return type == IBV_EVENT_DEVICE_FATAL ? "local catastrophic error" : "a fake event";
}

#define FAKE(name) .name = name,
static const struct gpuring_verbs functions = {
    GPURING_VERBS_FUNCTIONS(FAKE).query_gid_ex = query_gid_ex, .reg_mr_iova2 = reg_mr_iova2,
    .reg_dmabuf_mr = reg_dmabuf_mr};

void fake_verbs_set_faults(const struct fake_faults *faults)
{
    LOCK;
    fake.faults = *faults;
    memset(&fake.calls, 0, sizeof fake.calls);
    UNLOCK;
}

void fake_verbs_reset(const struct fake_device *devices, int ndevices,
                      const struct fake_faults *faults)
{
    gpuring_verbs = functions;
    fake_verbs_set_faults(faults);
    LOCK;
    memcpy(fake.device, devices, (size_t) ndevices * sizeof(*devices));
    fake.ndevices = ndevices;
    memset(fake.pulled, 0, sizeof fake.pulled);
    memset(fake.mute, 0, sizeof fake.mute);
    fake.gpu = fake.lazy = fake.retry = false;
    fake.limit = fake.nqps = fake.not_ready = 0;
    fake.max_wr = 0;
    fake.on_gpu = NULL;
    fake.copy = NULL;
    fake.making = NULL;
    fake.dmabufs = fake.relaxed = fake.reads = 0;
    fake.writes = NULL;
    fake.writes_end = &fake.writes;
    fake.objects = 0;
    fake.sends = fake.reported = fake.inlined = fake.plain = fake.violations = fake.kills = 0;
    UNLOCK;
}

void fake_verbs_pull(int device)
{
    LOCK;
    fake.pulled[device] = true;
    UNLOCK;
}

void fake_verbs_gpu(bool peer_memory, bool dmabuf, bool lazy)
{
    LOCK;
    fake.gpu = true;
    fake.peer_memory = peer_memory;
    fake.dmabuf = dmabuf;
    fake.lazy = lazy;
    UNLOCK;
}

void fake_verbs_gpu_memory(int (*on_gpu)(const void *address),
                           void (*copy)(void *to, const void *from, size_t bytes))
{
    LOCK;
    fake.on_gpu = on_gpu;
    fake.copy = copy;
    UNLOCK;
}

unsigned fake_verbs_dmabufs(void)
{
    return fake_count(&fake.dmabufs);
}

unsigned fake_verbs_relaxed(void)
{
    return fake_count(&fake.relaxed);
}

unsigned fake_verbs_reads(void)
{
    return fake_count(&fake.reads);
}

void fake_verbs_mute(int device)
{
    LOCK;
    fake.pulled[device] = fake.mute[device] = true;
    UNLOCK;
}

void fake_verbs_event(int device, enum ibv_event_type type)
{
    struct ibv_async_event event = {.event_type = type};

    LOCK;
    if (type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE) {
        event.element.port_num = 1;
    } else {
        for (struct fake_qp *qp = fake.qps; qp != NULL && event.element.qp == NULL; qp = qp->next) {
            event.element.qp = number_of(qp->qp.context->device) == device ? &qp->qp : NULL;
        }
    }
    if (write(fake.context[device]->events[1], &event, sizeof event) < 0) {
        fake.violations++;
    }
    UNLOCK;
}

unsigned fake_verbs_kills(void)
{
    return fake_count(&fake.kills);
}

unsigned fake_verbs_violations(void)
{
    return fake_count(&fake.violations);
}
