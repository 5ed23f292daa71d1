/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Count of open descriptors of this process, which tests compare before and after. Include cmocka.h
 * first. */
#ifndef TEST_DESCRIPTORS_H
#define TEST_DESCRIPTORS_H

#include "test/unit/unit.h"

#include <dirent.h>

static int open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    assert_non_null(folder);
    while (readdir(folder) != NULL) {
        count++;
    }
    closedir(folder);
    return count;
}

#endif
