/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The assertions that the shared files of the tests use, for machines without cmocka. They end the
 * program. */
#ifndef GPURING_TEST_PLAIN_CMOCKA_H
#define GPURING_TEST_PLAIN_CMOCKA_H

#include <stdio.h>
#include <stdlib.h>

#define print_error(...) fprintf(stderr, "# " __VA_ARGS__)
#define fail_msg(...)                                    \
    do {                                                 \
        printf("Bail out! %s:%d: ", __FILE__, __LINE__); \
        printf(__VA_ARGS__);                             \
        printf("\n");                                    \
        exit(1);                                         \
    } while (0)
#define assert_true(condition)                    \
    do {                                          \
        if (!(condition)) {                       \
            fail_msg("%s is not so", #condition); \
        }                                         \
    } while (0)
#define assert_non_null(pointer)   assert_true((pointer) != NULL)
#define assert_int_equal(one, two) assert_true((one) == (two))

#endif
