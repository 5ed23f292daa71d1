/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/util/status.h"

const char *gpuring_status_text(int status)
{
    switch (status) {
    case GPURING_AGAIN:
        return "not finished";
    case GPURING_OK:
        return "success";
    case GPURING_ERR_ARG:
        return "invalid argument";
    case GPURING_ERR_NOMEM:
        return "out of memory";
    case GPURING_ERR_IO:
        return "system or driver call failed";
    case GPURING_ERR_UNSUPPORTED:
        return "not supported here";
    case GPURING_ERR_TIMEOUT:
        return "timed out";
    case GPURING_ERR_ABORTED:
        return "stopped, as another rank or thread failed";
    case GPURING_ERR_PEER:
        return "peer process lost";
    case GPURING_ERR_NET:
        return "network error";
    case GPURING_ERR_DISAGREE:
        return "ranks disagree";
    case GPURING_ERR_DEVICE:
        return "a GPU does not work any more";
    case GPURING_ERR_DATA:
        return "wrong data found";
    case GPURING_ERR_MIXED:
        return "host and GPU buffers in one call";
    default:
        return "unknown status";
    }
}
