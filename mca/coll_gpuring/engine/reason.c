/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/engine/reason.h"

const char *gpuring_reason_text(enum gpuring_reason reason)
{
    static const char *const texts[] = {
#define REASON_TEXT(name, text) text,
        GPURING_REASONS(REASON_TEXT)
#undef REASON_TEXT
    };

    return texts[reason];
}
