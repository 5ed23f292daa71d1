/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Failure notices that have arrived at this process, until the call that they are for takes them.
 * Static memory. Threads: any.
 */
#ifndef GPURING_STAGE_NOTICE_BOX_H
#define GPURING_STAGE_NOTICE_BOX_H

#include <stdbool.h>
#include <stdint.h>

/* What a failure means to the others. */
enum gpuring_notice_kind {
    GPURING_NOTICE_VOID,   /* the sender's data in the call is void */
    GPURING_NOTICE_LOST,   /* only the sender's own result is lost */
    GPURING_NOTICE_ABSENT, /* the sender took no part */
    GPURING_NOTICE_ANSWER, /* none: one that asked for this is in the sender's box */
};

struct gpuring_notice {
    uint32_t version; /* GPURING_WIRE_VERSION */
    uint32_t use;     /* the communicator: its name, and which use of that (stage/notice.c) */
    uint64_t name;
    uint64_t call;         /* its number on the communicator (stage/stage.h) */
    uint32_t start;        /* its stage's */
    int32_t failure, rank; /* a gpuring_status, and whose */
    uint32_t receipt;      /* what an answer is to name (stage/notice_mail.c); 0: none is asked */
    int32_t sender;        /* rank in MPI_COMM_WORLD */
    uint8_t what;          /* enum gpuring_staged */
    uint8_t kind;
    uint8_t remote; /* the sender is in the other group */
    uint8_t unused;
    char host[64];
};
_Static_assert(sizeof(struct gpuring_notice) == 112, "travels between ranks");

/* Where it is full the oldest one is forgotten, and that is told. */
void gpuring_notice_box_put(const struct gpuring_notice *notice);

/* Are there any? One atomic read. */
bool gpuring_notice_box_filled(void);

/* Is it the one? Called with the box locked. */
typedef bool (*gpuring_notice_is_fn)(const struct gpuring_notice *notice, const void *argument);

/* The oldest that it is, in *notice; it is out of the box if `remove`. False: none. */
bool gpuring_notice_box_take(gpuring_notice_is_fn is, const void *argument, bool remove,
                             struct gpuring_notice *notice);

#endif
