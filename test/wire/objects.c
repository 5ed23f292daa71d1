/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Devices, queues and other objects of the stand-in for libibverbs. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "test/wire/internal.h"

/* The header has macros of these names. */
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr

/* Attempts to lock before a thread sleeps, which takes longer than most calls. */
#define SPINS 1000

struct wire_settings wire_here;

struct own_context {
    struct ibv_context context;
    unsigned changes; /* of the port that were reported */
};

static struct ibv_device devices[WIRE_DEVICES];
static struct wire_own_cq *own_cq[WIRE_CQS];
static struct wire_own_qp *own_qp[WIRE_QPS];

void wire_stop(const char *what)
{
    fprintf(stderr, "stand-in for libibverbs: %s\n", what);
    abort();
}

void wire_lock(void)
{
    int error = EBUSY;

    for (int i = 0; i < SPINS && error == EBUSY; i++) {
        error = pthread_mutex_trylock(&wire_here.wire->mutex);
    }
    if (error == EBUSY) {
        error = pthread_mutex_lock(&wire_here.wire->mutex);
    }
    if (error == EOWNERDEAD) {
        pthread_mutex_consistent(&wire_here.wire->mutex);
    }
}

void wire_unlock(void)
{
    pthread_mutex_unlock(&wire_here.wire->mutex);
}

uint64_t wire_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

struct wire_qp *wire_find(uint32_t number)
{
    struct wire_qp *qp = &wire_here.wire->qp[number % WIRE_QPS];

    return number != 0 && qp->number == number ? qp : NULL;
}

struct wire_own_qp *wire_own(uint32_t number)
{
    struct wire_own_qp *qp = own_qp[number % WIRE_QPS];

    return qp != NULL && qp->qp.qp_num == number ? qp : NULL;
}

static double setting(const char *name, double otherwise)
{
    const char *value = getenv(name);

    return value != NULL ? atof(value) : otherwise;
}

static struct wire *open_file(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct wire *wire = MAP_FAILED;
    pthread_mutexattr_t attr;
    bool empty;

    if (fd >= 0 && flock(fd, LOCK_EX) == 0) {
        empty = lseek(fd, 0, SEEK_END) == 0;
        if (!empty || ftruncate(fd, sizeof *wire) == 0) {
            wire = mmap(NULL, sizeof *wire, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        }
        if (wire != MAP_FAILED && empty) {
            pthread_mutexattr_init(&attr);
            pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
            pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
            pthread_mutex_init(&wire->mutex, &attr);
        }
        flock(fd, LOCK_UN); /* the mapping would keep it */
        close(fd);
    }
    return wire != MAP_FAILED ? wire : NULL;
}

/* Return the number of the host with this name, which may be new. */
static int find_host(const char *name)
{
    int host = 0;

    wire_lock();
    while (host < WIRE_HOSTS && wire_here.wire->host[host].name[0] != '\0' &&
           strcmp(wire_here.wire->host[host].name, name) != 0) {
        host++;
    }
    if (host == WIRE_HOSTS) {
        wire_stop("too many hosts");
    }
    snprintf(wire_here.wire->host[host].name, sizeof wire_here.wire->host[host].name, "%s", name);
    wire_unlock();
    return host;
}

static void read_settings(void)
{
    const char *file = getenv("GPURING_WIRE_FILE"), *host = getenv("GPURING_WIRE_HOST");
    const char *link = getenv("GPURING_WIRE_LINK"), *fault = getenv("GPURING_WIRE_FAULT");
    double slower = setting("GPURING_WIRE_SLOWER", 1);

    wire_here.wire = file != NULL ? open_file(file) : NULL;
    if (wire_here.wire == NULL) {
        return;
    }
    (void) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* for process_vm_writev */
    host = host != NULL ? host : getenv("OMPI_MCA_coll_gpuring_hostid");
    wire_here.host = find_host(host != NULL ? host : "localhost");
    wire_here.devices = (int) setting("GPURING_WIRE_DEVICES", 1);
    wire_here.devices = wire_here.devices > WIRE_DEVICES ? WIRE_DEVICES : wire_here.devices;
    wire_here.infiniband = link != NULL && strcmp(link, "ib") == 0;
    wire_here.ns_per_byte = 8 / setting("GPURING_WIRE_GBPS", 100) * slower;
    wire_here.latency = (uint64_t) (setting("GPURING_WIRE_LATENCY", 2000) * slower);
    wire_here.flight = (uint64_t) setting("GPURING_WIRE_FLIGHT", 0) % WIRE_FLIGHT;
    wire_here.no_data = setting("GPURING_WIRE_DATA", 1) == 0;
    wire_here.no_open = fault != NULL && strcmp(fault, "no-open") == 0;
    wire_here.few_pairs = fault != NULL && strcmp(fault, "few-pairs") == 0;
    wire_here.fails = fault != NULL && strcmp(fault, "down") == 0;
    wire_here.fails_after = (uint64_t) setting("GPURING_WIRE_FAULT_AFTER", 100);
    wire_here.notifier = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    for (int i = 0; i < wire_here.devices; i++) {
        snprintf(devices[i].name, sizeof devices[i].name, "wire%d", i);
    }
}

void wire_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, read_settings);
}

struct ibv_device **ibv_get_device_list(int *count)
{
    struct ibv_device **list;

    wire_start();
    list = calloc((size_t) wire_here.devices + 1, sizeof(*list));
    for (int i = 0; list != NULL && i < wire_here.devices; i++) {
        list[i] = &devices[i];
    }
    if (count != NULL) {
        *count = wire_here.devices;
    }
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

static int number_of(const struct ibv_context *context)
{
    return (int) (context->device - devices);
}

static struct wire_port *port_of(const struct ibv_context *context)
{
    return &wire_here.wire->host[wire_here.host].port[number_of(context)];
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct own_context *own = wire_here.no_open ? NULL : calloc(1, sizeof *own);

    if (own == NULL) {
        errno = EACCES;
        return NULL;
    }
    own->context = (struct ibv_context){.device = device,
                                        .async_fd = eventfd(0, EFD_CLOEXEC),
                                        .ops = {.post_send = wire_post_send,
                                                .post_recv = wire_post_recv,
                                                .poll_cq = wire_poll_cq,
                                                .req_notify_cq = wire_req_notify_cq}};
    return &own->context;
}

int ibv_close_device(struct ibv_context *context)
{
    close(context->async_fd);
    free(context);
    return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    (void) context;
    *attr = (struct ibv_device_attr){.phys_port_cnt = 1, .max_cqe = 1 << 22};
    return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t number,
                   struct _compat_ibv_port_attr *result)
{
    struct ibv_port_attr *attr = (struct ibv_port_attr *) result;

    (void) number;
    *attr = (struct ibv_port_attr){
        .state = port_of(context)->down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE,
        .link_layer = wire_here.infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET,
        .active_mtu = IBV_MTU_4096,
        .gid_tbl_len = 1,
        .pkey_tbl_len = 1,
        .lid = (uint16_t) (wire_here.host * WIRE_DEVICES + number_of(context) + 1),
        .active_speed = 32,
        .active_width = 2};
    return 0;
}

/* RoCE ports have the addresses 10.DEVICE.0.HOST. */
void wire_gid(int device, union ibv_gid *gid)
{
    uint8_t v4[16] = {[10] = 0xff, 0xff, 10, (uint8_t) device, 0, 0};
    uint8_t local[16] = {0xfe, 0x80, [14] = (uint8_t) (device + 1)};

    memcpy(gid->raw, wire_here.infiniband ? local : v4, sizeof gid->raw);
    gid->raw[15] = (uint8_t) (wire_here.host + 1);
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
    (void) port;
    wire_gid(number_of(context), gid);
    return index == 0 ? 0 : EINVAL;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t bytes)
{
    (void) flags;
    memset(entry, 0, bytes);
    entry->gid_type = wire_here.infiniband ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2;
    return ibv_query_gid(context, (uint8_t) port, (int) index, &entry->gid);
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *key)
{
    (void) context;
    (void) port;
    *key = htons(0xffff);
    return index == 0 ? 0 : EINVAL;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    struct own_context *own = (struct own_context *) context;
    const struct wire_port *port = port_of(context);
    bool changed;

    wire_lock();
    changed = own->changes != port->changes;
    own->changes = port->changes;
    *event = (struct ibv_async_event){.event_type =
                                          port->down ? IBV_EVENT_PORT_ERR : IBV_EVENT_PORT_ACTIVE,
                                      .element.port_num = 1};
    wire_unlock();
    errno = EAGAIN;
    return changed ? 0 : -1;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    (void) event;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *pd = calloc(1, sizeof *pd);

    if (pd != NULL) {
        pd->context = context;
    }
    return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    free(pd);
    return 0;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *base, size_t bytes, uint64_t iova,
                                unsigned access)
{
    struct ibv_mr *mr = iova == (uintptr_t) base ? calloc(1, sizeof *mr) : NULL;
    uint32_t key = 1;

    if (mr == NULL) {
        return NULL;
    }
    wire_lock();
    while (wire_here.wire->mr[key].pid != 0 && ++key < WIRE_MRS) {
    }
    if (key == WIRE_MRS) {
        wire_stop("too many registrations");
    }
    wire_here.wire->mr[key] = (struct wire_mr){
        .pid = getpid(), .base = (uintptr_t) base, .bytes = bytes, .access = (int) access};
    wire_here.wire->host[wire_here.host].counts.registered += bytes;
    wire_unlock();
    *mr = (struct ibv_mr){
        .context = pd->context, .pd = pd, .addr = base, .length = bytes, .lkey = key, .rkey = key};
    return mr;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *base, size_t bytes, int access)
{
    return ibv_reg_mr_iova2(pd, base, bytes, (uintptr_t) base, (unsigned) access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    wire_lock();
    wire_here.wire->mr[mr->rkey].pid = 0;
    wire_here.wire->host[wire_here.host].counts.registered -= mr->length;
    wire_unlock();
    free(mr);
    return 0;
}

/* A channel is a socket, which is bound to a name without a file. */
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct ibv_comp_channel *channel = calloc(1, sizeof *channel);
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (channel == NULL) {
        return NULL;
    }
    channel->context = context;
    channel->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path + 1, WIRE_NAME, "gpuring-wire-%d-%d", (int) getpid(), channel->fd);
    if (bind(channel->fd, (struct sockaddr *) &address,
             (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + WIRE_NAME)) != 0) {
        wire_stop("no socket for a completion channel");
    }
    return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    close(channel->fd);
    free(channel);
    return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *user,
                             struct ibv_comp_channel *channel, int vector)
{
    struct wire_own_cq *own = calloc(1, sizeof *own);
    struct wire_cq *cq;
    unsigned number = 0;

    (void) vector;
    wire_lock();
    while (number < WIRE_CQS && wire_here.wire->cq[number].used) {
        number++;
    }
    if (own == NULL || number == WIRE_CQS) {
        wire_stop("too many completion queues");
    }
    cq = &wire_here.wire->cq[number];
    cq->used = true;
    cq->armed = false;
    cq->sends.written = cq->sends.taken = cq->arrivals.written = cq->arrivals.taken = 0;
    if (channel != NULL) {
        snprintf(cq->socket, sizeof cq->socket, "gpuring-wire-%d-%d", (int) getpid(), channel->fd);
    }
    wire_unlock();
    own->cq =
        (struct ibv_cq){.context = context, .channel = channel, .cq_context = user, .cqe = entries};
    own->number = number;
    own_cq[number] = own;
    return &own->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    unsigned number = ((struct wire_own_cq *) cq)->number;

    wire_lock();
    wire_here.wire->cq[number].used = false;
    own_cq[number] = NULL;
    wire_unlock();
    free(cq);
    return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
    uint32_t number;

    while (recv(channel->fd, &number, sizeof number, 0) == (ssize_t) sizeof number) {
        if (number < WIRE_CQS && own_cq[number] != NULL) {
            *cq = &own_cq[number]->cq;
            *context = (*cq)->cq_context;
            return 0;
        }
    }
    return -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned count)
{
    (void) cq;
    (void) count;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct wire_own_qp *own = calloc(1, sizeof *own);
    struct wire *wire = wire_here.wire;
    uint32_t number;

    wire_lock();
    if (wire_here.few_pairs && wire->host[wire_here.host].counts.queue_pairs > 0) {
        wire_unlock();
        free(own);
        errno = ENOMEM;
        return NULL;
    }
    do {
        number = wire->next_qp = (wire->next_qp + 1) % (1u << 24);
    } while (number == 0 || wire->qp[number % WIRE_QPS].number != 0);
    own->shared = &wire->qp[number % WIRE_QPS];
    *own->shared = (struct wire_qp){.number = number,
                                    .pid = getpid(),
                                    .host = wire_here.host,
                                    .device = number_of(pd->context),
                                    .cq = ((struct wire_own_cq *) attr->recv_cq)->number};
    wire->host[wire_here.host].counts.queue_pairs++;
    wire_unlock();
    own->qp = (struct ibv_qp){.context = pd->context,
                              .pd = pd,
                              .send_cq = attr->send_cq,
                              .recv_cq = attr->recv_cq,
                              .qp_num = number};
    own->room = attr->cap.max_recv_wr;
    own->receive = calloc(own->room, sizeof *own->receive);
    own_qp[number % WIRE_QPS] = own;
    return &own->qp;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    struct wire_qp *shared = ((struct wire_own_qp *) qp)->shared;
    const struct wire_qp *peer;
    int error = 0;

    wire_lock();
    if ((mask & IBV_QP_DEST_QPN) != 0) {
        peer = wire_find(attr->dest_qp_num);
        if (peer == NULL ||
            (attr->ah_attr.is_global
                 ? attr->ah_attr.grh.dgid.raw[15] != peer->host + 1
                 : attr->ah_attr.dlid != peer->host * WIRE_DEVICES + peer->device + 1)) {
            error = ENETUNREACH;
        }
        shared->peer = attr->dest_qp_num;
    }
    if (error == 0) {
        shared->state = attr->qp_state;
    }
    if (shared->state == IBV_QPS_ERR) {
        wire_enter_error(shared);
    }
    wire_unlock();
    return error;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    struct wire_own_qp *own = (struct wire_own_qp *) qp;

    wire_lock();
    own->shared->number = 0;
    wire_here.wire->host[wire_here.host].counts.queue_pairs--;
    wire_unlock();
    own_qp[qp->qp_num % WIRE_QPS] = NULL;
    free(own->receive);
    free(own);
    return 0;
}

int ibv_fork_init(void)
{
    return 0;
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
    return status == IBV_WC_RETRY_EXC_ERR ? "transport retry counter exceeded" : "another error";
}

const char *ibv_event_type_str(enum ibv_event_type type)
{
    return type == IBV_EVENT_PORT_ERR ? "port error" : "another event";
}
