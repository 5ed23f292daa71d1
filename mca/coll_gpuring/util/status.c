/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/util/status.h"

const char *gpuring_status_text(int status)
{
#define TEXT(name, number, text) [number] = text,
    static const char *const texts[] = {"success", GPURING_ERRORS(TEXT)};
#undef TEXT
    int number = -status, count = sizeof texts / sizeof *texts;

    return status == GPURING_AGAIN         ? "not finished"
           : number >= 0 && number < count ? texts[number]
                                           : "unknown status";
}
