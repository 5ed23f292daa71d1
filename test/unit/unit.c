/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The list of a program's tests. */
#include "test/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define MOST 64

static struct CMUnitTest tests[MOST]; /* cmocka ignores entries without a name */
static size_t ntests;
static CMFixtureFunction group_setup, group_teardown;

void unit_add(struct CMUnitTest test)
{
    if (ntests == MOST) {
        fprintf(stderr, "There are more than %d tests.\n", MOST);
        abort();
    }
    tests[ntests++] = test;
}

void unit_group(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    group_setup = setup;
    group_teardown = teardown;
}

int unit_run(void)
{
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
