/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/transport/status_page.h"

#include <stdio.h>

void gpuring_status_page_abort(struct gpuring_status_page *page, int status)
{
    uint32_t running = 0;

    /* Partner: the executors' acquire load of work->abort and gpuring_transport_health. */
    __atomic_compare_exchange_n(&page->abort, &running, (uint32_t) -status, 0, __ATOMIC_RELEASE,
                                __ATOMIC_RELAXED);
}

bool gpuring_status_page_on_hosts(const struct gpuring_status_page *page, uint64_t call)
{
    /* Acquire: pairs with gpuring_transport_note_call, so that on_gpu is no older. */
    uint64_t on_hosts = __atomic_load_n(&page->on_hosts, __ATOMIC_ACQUIRE);
    uint64_t on_gpu = __atomic_load_n(&page->on_gpu, __ATOMIC_RELAXED);

    return on_hosts == call || (on_hosts > call && on_gpu < call);
}

void gpuring_status_page_text(const struct gpuring_status_page *page, char *text, size_t size)
{
    unsigned long long operation = __atomic_load_n(&page->operation, __ATOMIC_RELAXED);

    switch (__atomic_load_n(&page->activity, __ATOMIC_RELAXED)) {
    case GPURING_ACTIVITY_OUTSIDE:
        if (operation == 0) {
            snprintf(text, size, "has not entered any operation yet");
        } else {
            snprintf(text, size, "is outside, its last operation was %llu", operation);
        }
        break;
    case GPURING_ACTIVITY_RUNNING:
        snprintf(text, size, "is in operation %llu", operation);
        break;
    case GPURING_ACTIVITY_FAILED:
        snprintf(text, size, "failed in operation %llu", operation);
        break;
    default:
        snprintf(text, size, "has freed the communicator after operation %llu", operation);
        break;
    }
}
