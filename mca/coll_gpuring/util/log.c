/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/util/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

/* Only gpuring_log_set writes these. Relaxed order suffices, because a line that is logged during a
 * change may use the old or the new sink. */
static _Atomic(gpuring_log_sink_fn) log_sink;
int gpuring_log_max_level = GPURING_LOG_WARN;

const char *gpuring_log_level_name(enum gpuring_log_level level)
{
    static const char *const names[] = {"ERROR", "WARN", "INFO", "DEBUG", "TRACE"};

    return (unsigned) level < sizeof names / sizeof *names ? names[level] : "?";
}

void gpuring_log_set(gpuring_log_sink_fn sink, enum gpuring_log_level max_level)
{
    atomic_store_explicit(&log_sink, sink, memory_order_relaxed);
    __atomic_store_n(&gpuring_log_max_level, (int) max_level, __ATOMIC_RELAXED);
}

void gpuring_log_write(enum gpuring_log_level level, const char *format, ...)
{
    gpuring_log_sink_fn sink = atomic_load_explicit(&log_sink, memory_order_relaxed);
    char text[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (sink != NULL) {
        sink(level, text);
    } else {
        fprintf(stderr, "gpuring %s %s\n", gpuring_log_level_name(level), text);
    }
}
