/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Registered memory and completion queues, shared by the rails of an adapter. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "mca/coll_gpuring/net/verbs/verbs_internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define CQ_MOST_ENTRIES 65536 /* 4 MiB; a larger one may be refused by a device or a limit */

/*
 * Register memory. GPU memory is registered through dma-buf or the kernel's peer memory. The
 * registration allows PCIe to reorder writes (relaxed ordering) if the library hides this flag from
 * kernels that do not support it. An exception is GPU memory whose writes are not flushed: there,
 * only the order of the writes ensures that the data arrives before the completion (net.md).
 * Returns NULL with errno. *tried describes the memory for error messages.
 */
static struct ibv_mr *register_memory(const struct gpuring_verbs_adapter *adapter,
                                      const struct gpuring_net_memory *memory, const char **tried)
{
    const struct gpuring_device_nic *device = memory->device;
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

    *tried = device == NULL ? "memory" : "GPU memory (peer memory)";
    if (device != NULL && device->flush) {
        access |= IBV_ACCESS_REMOTE_READ;
    }
    if (gpuring_verbs.reg_mr_iova2 != NULL && (device == NULL || device->flush)) {
        access |= IBV_ACCESS_RELAXED_ORDERING;
    }
    if (device != NULL && device->dmabuf >= 0 && gpuring_verbs.reg_dmabuf_mr != NULL) {
        struct ibv_mr *mr = gpuring_verbs.reg_dmabuf_mr(adapter->pd, 0, memory->bytes,
                                                        (uint64_t) (uintptr_t) memory->base,
                                                        device->dmabuf, access);

        if (mr != NULL) {
            return mr;
        }
        *tried = "GPU memory (dma-buf, then peer memory)";
    }
    if ((access & IBV_ACCESS_RELAXED_ORDERING) != 0) { /* not with ibv_reg_mr of the library */
        return gpuring_verbs.reg_mr_iova2(adapter->pd, memory->base, memory->bytes,
                                          (uint64_t) (uintptr_t) memory->base, (unsigned) access);
    }
    return gpuring_verbs.reg_mr(adapter->pd, memory->base, memory->bytes, access);
}

static int registration_failed(const struct gpuring_net *net,
                               const struct gpuring_verbs_adapter *adapter, size_t bytes,
                               const char *tried, int error)
{
    struct rlimit limit;
    char text[64] = "unknown";

    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
        if (limit.rlim_cur == RLIM_INFINITY) {
            snprintf(text, sizeof text, "unlimited");
        } else {
            snprintf(text, sizeof text, "%llu KiB", (unsigned long long) limit.rlim_cur / 1024);
        }
    }
    gpuring_error("[no-registration] %s cannot register %zu bytes of %s with device %s: %s; the "
                  "limit of locked "
                  "memory (ulimit -l) is %s: raise it on every host, also for the daemons of the "
                  "batch system, or lower coll_gpuring_buffer_size",
                  net->base.host, bytes, tried, adapter->name, strerror(error), text);
    return error == ENOMEM || error == EAGAIN ? GPURING_ERR_NOMEM : GPURING_ERR_NET;
}

int gpuring_verbs_mr_get(struct gpuring_net *net, struct gpuring_verbs_adapter *adapter,
                         const struct gpuring_net_memory *memory, struct gpuring_verbs_mr **result)
{
    struct gpuring_verbs_mr *mr;
    const char *tried;

    GPURING_LIST_EACH(mr, &adapter->mrs, struct gpuring_verbs_mr, node)
    {
        if (mr->base == memory->base && mr->bytes == memory->bytes) {
            goto found;
        }
    }
    mr = calloc(1, sizeof *mr);
    if (mr == NULL) {
        gpuring_error("out of memory for a memory registration");
        return GPURING_ERR_NOMEM;
    }
    mr->mr = register_memory(adapter, memory, &tried);
    if (mr->mr == NULL) {
        int error = errno;

        free(mr);
        return registration_failed(net, adapter, memory->bytes, tried, error);
    }
    mr->base = memory->base;
    mr->bytes = memory->bytes;
    gpuring_list_prepend(&adapter->mrs, &mr->node);
found:
    mr->uses++;
    *result = mr;
    return GPURING_OK;
}

void gpuring_verbs_mr_put(struct gpuring_verbs_mr *mr)
{
    if (--mr->uses == 0) {
        gpuring_list_remove(&mr->node);
        gpuring_verbs.dereg_mr(mr->mr);
        free(mr);
    }
}

/* The page contains nothing else, because a forked child may lose registered pages but must keep
 * everything else. */
int gpuring_verbs_page_get(const struct gpuring_net *net, struct gpuring_verbs_adapter *adapter)
{
    size_t bytes = (size_t) sysconf(_SC_PAGESIZE);
    void *page;
    int error;

    if (adapter->page != NULL) {
        return GPURING_OK;
    }
    page = aligned_alloc(bytes, bytes);
    if (page == NULL) {
        gpuring_error("out of memory for a verbs connection");
        return GPURING_ERR_NOMEM;
    }
    adapter->page = gpuring_verbs.reg_mr(adapter->pd, page, bytes,
                                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (adapter->page == NULL) {
        error = errno;
        free(page);
        return registration_failed(net, adapter, bytes, "memory", error);
    }
    return GPURING_OK;
}

int gpuring_verbs_cq_get(struct gpuring_net *net, struct gpuring_verbs_adapter *adapter,
                         unsigned entries, struct gpuring_verbs_cq **result)
{
    unsigned most = (unsigned) adapter->attr.max_cqe;
    unsigned want = GPURING_VERBS_CQ_ENTRIES, existing = 0;
    struct gpuring_verbs_cq *cq;

    GPURING_LIST_EACH(cq, &adapter->cqs, struct gpuring_verbs_cq, node)
    {
        if (cq->room - cq->used >= entries) {
            goto found;
        }
        existing += cq->room;
    }
    /* The sizes double, because all queues are polled in turn. */
    existing = existing > CQ_MOST_ENTRIES ? CQ_MOST_ENTRIES : existing;
    want = want > existing ? want : existing;
    want = want > entries ? want : entries;
    want = want > most ? most : want;
    cq = calloc(1, sizeof *cq);
    if (cq != NULL && want >= entries) {
        cq->cq = gpuring_verbs.create_cq(adapter->context, (int) want, cq, adapter->channel, 0);
    }
    if (cq == NULL || cq->cq == NULL) {
        gpuring_error("%s cannot create a completion queue of %u entries with device %s: %s; "
                      "fewer channels (coll_gpuring_max_channels) need fewer",
                      net->base.host, want, adapter->name,
                      strerror(want < entries ? ENOSPC : errno));
        free(cq);
        return GPURING_ERR_NOMEM;
    }
    cq->room = want;
    gpuring_gate_enter(net->base.gate);
    gpuring_list_prepend(&adapter->cqs, &cq->node);
    gpuring_gate_leave(net->base.gate);
found:
    cq->used += entries;
    *result = cq;
    return GPURING_OK;
}

void gpuring_verbs_cq_put(struct gpuring_net *net, struct gpuring_verbs_cq *cq, unsigned entries)
{
    cq->used -= entries;
    if (cq->used > 0) {
        return;
    }
    gpuring_gate_enter(net->base.gate); /* to the end, because it may be notified until then */
    gpuring_list_remove(&cq->node);
    if (cq->events > 0) {
        gpuring_verbs.ack_cq_events(cq->cq, cq->events);
    }
    gpuring_verbs.destroy_cq(cq->cq);
    gpuring_gate_leave(net->base.gate);
    free(cq);
}

/* Try to register the memory with the device of one port. */
static int try_port(const struct gpuring_net *net, const struct gpuring_verbs_port *port,
                    const struct gpuring_net_memory *memory)
{
    const char *tried;
    struct ibv_mr *mr = register_memory(port->adapter, memory, &tried);

    if (mr == NULL) {
        gpuring_info(
            "[no-gdr] device %s of %s does not reach the GPU's memory, so data is copied "
            "through host memory: %s: %s; is the kernel module nvidia-peermem loaded, or do "
            "the kernel and the driver support dma-buf?",
            port->adapter->name, net->base.host, tried, strerror(errno));
        return GPURING_ERR_UNSUPPORTED;
    }
    gpuring_verbs.dereg_mr(mr);
    return GPURING_OK;
}

int gpuring_verbs_device_memory(struct gpuring_net *net, int device,
                                const struct gpuring_net_memory *memory)
{
    int status = GPURING_OK;

    if (device < 0 || device >= net->devices.count || memory->device == NULL) {
        return GPURING_ERR_ARG;
    }
    /* The spares of a link on this device must reach the memory, too. */
    for (int i = 0; i <= net->config.verbs_spares && status == GPURING_OK; i++) {
        status = try_port(net, &net->ports[(device + i) % net->devices.count], memory);
    }
    return status;
}
