/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Logging of the core. The glue installs a sink that writes lines of the shape
 * `host:pid:rank [dev] gpuring INFO text`; without a sink (unit tests, tools) lines go to stderr.
 * The function that first detects an error logs it, once, with cause and remedy. A message that
 * tests look for begins with a code in brackets, "[no-peer] ...". The code never changes, but the
 * words may.
 *
 * Threads: every function may be called from any thread; gpuring_log_set from one at a time.
 */
#ifndef GPURING_UTIL_LOG_H
#define GPURING_UTIL_LOG_H

enum gpuring_log_level {
    GPURING_LOG_ERROR, /* an operation, communicator or feature is lost */
    GPURING_LOG_WARN,  /* works, but not as the user expects: slower, a path dropped */
    GPURING_LOG_INFO,  /* verbose >= 1: choices, once per communicator; reasons to fall back */
    GPURING_LOG_DEBUG, /* verbose >= 2: per connection and per step of the wire-up */
    GPURING_LOG_TRACE, /* verbose >= 3: per operation */
};

typedef void (*gpuring_log_sink_fn)(enum gpuring_log_level level, const char *text);

/* Install the sink (NULL: stderr) and the highest level that is passed to it. */
void gpuring_log_set(gpuring_log_sink_fn sink, enum gpuring_log_level max_level);

extern int gpuring_log_max_level; /* internal: set by gpuring_log_set; atomic, relaxed */

/* Return true if lines of this level are logged. Use it to guard expensive arguments. */
static inline int gpuring_log_enabled(enum gpuring_log_level level)
{
    return (int) level <= __atomic_load_n(&gpuring_log_max_level, __ATOMIC_RELAXED);
}

const char *gpuring_log_level_name(enum gpuring_log_level level); /* "WARN" */

void gpuring_log_write(enum gpuring_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Arguments are evaluated only if the level is enabled. */
#define gpuring_log(level, ...)                    \
    do {                                           \
        if (gpuring_log_enabled(level)) {          \
            gpuring_log_write(level, __VA_ARGS__); \
        }                                          \
    } while (0)

#define gpuring_error(...) gpuring_log(GPURING_LOG_ERROR, __VA_ARGS__)
#define gpuring_warn(...)  gpuring_log(GPURING_LOG_WARN, __VA_ARGS__)
#define gpuring_info(...)  gpuring_log(GPURING_LOG_INFO, __VA_ARGS__)
#define gpuring_debug(...) gpuring_log(GPURING_LOG_DEBUG, __VA_ARGS__)
#define gpuring_trace(...) gpuring_log(GPURING_LOG_TRACE, __VA_ARGS__)

#endif
