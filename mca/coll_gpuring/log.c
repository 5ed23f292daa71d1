/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Log lines of the shape `host:pid:rank [dev] gpuring INFO text`, through Open MPI's output. */
#include <stdio.h>
#include <unistd.h>

#include "mca/coll_gpuring/log.h"
#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/util/log.h"

static void log_line(enum gpuring_log_level level, const char *text)
{
    static const char *const levels[] = {"ERROR", "WARN", "INFO", "DEBUG", "TRACE"};
    char rank[16] = "-";

    if (gpuring_process.world_rank >= 0) {
        snprintf(rank, sizeof rank, "%d", gpuring_process.world_rank);
    }
    opal_output(gpuring_process.output, "%s:%d:%s [%s] gpuring %s %s", gpuring_process.hostname,
                (int) getpid(), rank,
                gpuring_process.device_ops != NULL ? gpuring_process.device_ops->name : "-",
                levels[level], text);
}

void gpuring_log_open(void)
{
    static char no_prefix[] = "";
    opal_output_stream_t stream;

    OBJ_CONSTRUCT(&stream, opal_output_stream_t);
    stream.lds_want_stderr = true;
    stream.lds_prefix = no_prefix; /* the lines have one of their own */
    gpuring_process.output = opal_output_open(&stream);
    stream.lds_prefix = NULL; /* not the destructor's */
    OBJ_DESTRUCT(&stream);
    gpuring_log_set(log_line, (enum gpuring_log_level)(GPURING_LOG_WARN + gpuring_params.verbose));
}

void gpuring_log_close(void)
{
    gpuring_log_set(NULL, GPURING_LOG_WARN);
    if (gpuring_process.output >= 0) {
        opal_output_close(gpuring_process.output);
        gpuring_process.output = -1;
    }
}
