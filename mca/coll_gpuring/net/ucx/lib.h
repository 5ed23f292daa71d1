/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * UCX, loaded at run time, so that the component loads where UCX is not installed. Call a function
 * as gpuring_ucx.ucp_init(...) after gpuring_ucx_load has returned 0.
 */
#ifndef GPURING_NET_UCX_LIB_H
#define GPURING_NET_UCX_LIB_H

#include <stddef.h>

#include <ucp/api/ucp.h>

#define GPURING_UCX_FUNCTIONS(F)      \
    F(ucp_get_version)                \
    F(ucp_config_read)                \
    F(ucp_config_modify)              \
    F(ucp_config_release)             \
    F(ucp_init_version)               \
    F(ucp_cleanup)                    \
    F(ucp_context_query)              \
    F(ucp_worker_create)              \
    F(ucp_worker_destroy)             \
    F(ucp_worker_get_address)         \
    F(ucp_worker_release_address)     \
    F(ucp_worker_progress)            \
    F(ucp_worker_get_efd)             \
    F(ucp_worker_arm)                 \
    F(ucp_worker_flush_nbx)           \
    F(ucp_worker_set_am_recv_handler) \
    F(ucp_ep_create)                  \
    F(ucp_ep_close_nbx)               \
    F(ucp_am_send_nbx)                \
    F(ucp_am_recv_data_nbx)           \
    F(ucp_request_check_status)       \
    F(ucp_request_free)               \
    F(ucs_status_string)

#define GPURING_UCX_MEMBER(name) __typeof__(name) *name;
struct gpuring_ucx {
    GPURING_UCX_FUNCTIONS(GPURING_UCX_MEMBER)
};
#undef GPURING_UCX_MEMBER

/* Constant once gpuring_ucx_load has succeeded. */
extern struct gpuring_ucx gpuring_ucx;

/* 0, or GPURING_ERR_UNSUPPORTED; *why then says what is missing. Loads once in a process. */
int gpuring_ucx_load(const char **why);

/* The same into `table` from any library, each time anew; for the above and for tests. */
int gpuring_ucx_load_from(const char *library, struct gpuring_ucx *table, char *why, size_t size);

#endif
