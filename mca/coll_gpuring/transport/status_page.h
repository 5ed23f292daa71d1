/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The status page: one per rank and communicator, in host memory that the ranks of the node map.
 * A peer reads there what this rank is doing, and stops it through the abort word.
 *
 *   0         16      20    24          32         36     40         48       56         60     64
 *   | id[2]   | abort | pid | operation | activity | core | on_hosts | on_gpu | mappings | unused |
 */
#ifndef GPURING_TRANSPORT_STATUS_PAGE_H
#define GPURING_TRANSPORT_STATUS_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gpuring_activity {
    GPURING_ACTIVITY_OUTSIDE, /* in no operation; `operation` is the last one finished */
    GPURING_ACTIVITY_RUNNING, /* in `operation` */
    GPURING_ACTIVITY_FAILED,  /* `operation` failed; this rank serves no more */
    GPURING_ACTIVITY_CLOSED,  /* the communicator was freed here */
};

struct gpuring_status_page {
    uint64_t id[2];     /* of the wire-up; constant after creation */
    uint32_t abort;     /* written by anyone with release, polled by the executor (acquire) */
    uint32_t pid;       /* constant after creation */
    uint64_t operation; /* written by the owner (relaxed), read by peers for messages only */
    uint32_t activity;  /* likewise */
    uint32_t core;      /* likewise: where it last entered an operation, + 1; 0: not known */
    /* Numbers of the last calls on this communicator with host buffers and with GPU buffers, as all
     * ranks count them; written by the owner, on_hosts with release after an earlier on_gpu. */
    uint64_t on_hosts, on_gpu;
    uint32_t mappings; /* peers that have the owner's device memory mapped; see region.c */
    uint32_t unused;
};
_Static_assert(sizeof(struct gpuring_status_page) == 64, "shared between processes");

/* Stop the owner of the page; the first status wins. status is a negative gpuring_status. */
void gpuring_status_page_abort(struct gpuring_status_page *page, int status);

/* True if the owner gave host buffers to this call. */
bool gpuring_status_page_on_hosts(const struct gpuring_status_page *page, uint64_t call);

/* Describe what the owner was last seen doing. */
void gpuring_status_page_text(const struct gpuring_status_page *page, char *text, size_t size);

#endif
