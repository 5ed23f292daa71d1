/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* cmocka, with the headers that it needs. Unit tests include this file first. */
#ifndef GPURING_TEST_UNIT_H
#define GPURING_TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#pragma GCC diagnostic ignored "-Wunused-parameter" /* few tests use the state of cmocka */

#ifdef cmocka_unit_test /* programs of test/gpu use only assertions, and may have another cmocka.h \
                         */

/* Define a test of this program, which runs in the order of definition:
 *
 *     TEST(name)
 *     {
 *         assert_true(...);
 *     }
 */
#define TEST(name) TEST_WITH(NULL, NULL, name)

/* Define a test that runs between a setup and a teardown. */
#define TEST_WITH(setup, teardown, name)                                   \
    static void name(void **state);                                        \
    __attribute__((constructor)) static void add_##name(void)              \
    {                                                                      \
        unit_add((struct CMUnitTest){#name, name, setup, teardown, NULL}); \
    }                                                                      \
    static void name(void **state)

/* Run all tests of this program between a setup and a teardown. */
#define TEST_GROUP(setup, teardown)                          \
    __attribute__((constructor)) static void add_group(void) \
    {                                                        \
        unit_group(setup, teardown);                         \
    }

void unit_add(struct CMUnitTest test);
void unit_group(CMFixtureFunction setup, CMFixtureFunction teardown);

/* Run the tests. A program without a main function calls this and returns the result. */
int unit_run(void);

/* Setup for TEST_GROUP that ignores the messages of the log. */
int quiet_log(void **state);

#endif
#endif
