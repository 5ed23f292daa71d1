/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * libibverbs, loaded at run time, so that the component loads where it is not installed. Call a
 * function as gpuring_verbs.reg_mr(...) after gpuring_verbs_load has returned 0; the data path
 * (ibv_post_send and the like) is inline in the library's header and goes through the device's own
 * table. Tests put functions of their own into the table.
 */
#ifndef GPURING_NET_VERBS_LIB_H
#define GPURING_NET_VERBS_LIB_H

#include <infiniband/verbs.h>

/* Without their prefix, because some names are macros of the header as well. */
#define GPURING_VERBS_FUNCTIONS(F) \
    F(get_device_list)             \
    F(free_device_list)            \
    F(get_device_name)             \
    F(get_device_guid)             \
    F(open_device)                 \
    F(close_device)                \
    F(query_device)                \
    F(query_port)                  \
    F(query_pkey)                  \
    F(get_async_event)             \
    F(ack_async_event)             \
    F(alloc_pd)                    \
    F(dealloc_pd)                  \
    F(reg_mr)                      \
    F(dereg_mr)                    \
    F(create_comp_channel)         \
    F(destroy_comp_channel)        \
    F(create_cq)                   \
    F(destroy_cq)                  \
    F(get_cq_event)                \
    F(ack_cq_events)               \
    F(create_qp)                   \
    F(modify_qp)                   \
    F(destroy_qp)                  \
    F(fork_init)                   \
    F(wc_status_str)               \
    F(event_type_str)

#define GPURING_VERBS_MEMBER(name) __typeof__(ibv_##name) *name;
struct gpuring_verbs {
    GPURING_VERBS_FUNCTIONS(GPURING_VERBS_MEMBER)
    __typeof__(_ibv_query_gid_ex) *query_gid_ex;
    __typeof__(ibv_is_fork_initialized) *is_fork_initialized; /* NULL: the library is too old */
    __typeof__(ibv_reg_dmabuf_mr) *reg_dmabuf_mr;             /* NULL: the library is too old */
};
#undef GPURING_VERBS_MEMBER

/* Constant once gpuring_verbs_load has succeeded. */
extern struct gpuring_verbs gpuring_verbs;

/* 0, or GPURING_ERR_UNSUPPORTED with a log line (level INFO) that says what is missing. */
int gpuring_verbs_load(void);

/* For tests: use these functions instead of the library's. Before anything else of the net. */
void gpuring_verbs_use(const struct gpuring_verbs *functions);

#endif
