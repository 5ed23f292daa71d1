/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "test/unit/unit.h"

#include "mca/coll_gpuring/util/log.h"

static void ignore(enum gpuring_log_level level, const char *text)
{
    (void) level;
    (void) text;
}

int quiet_log(void **state)
{
    gpuring_log_set(ignore, GPURING_LOG_ERROR);
    return 0;
}
