/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Messages of gpuring-perf. */
#include "gpuring-perf.h"

#include <stdarg.h>

#include "gpuring-argument.h"

static bool is_silent;

void perf_message_silence(bool silent)
{
    is_silent = silent;
}

int perf_message(const char *format, ...)
{
    va_list arguments;

    if (!is_silent) {
        va_start(arguments, format);
        argument_message("gpuring-perf", format, arguments);
        va_end(arguments);
    }
    return -1;
}
