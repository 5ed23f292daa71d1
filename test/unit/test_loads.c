/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Libraries that a process loads and unloads are noticed. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "mca/coll_gpuring/device/loads.h"

static const char *const libraries[] = {"libresolv.so.2", "libanl.so.1"}; /* libc's */

static void *load(int which)
{
    void *handle = dlopen(libraries[which], RTLD_NOW);

    assert_non_null(handle);
    return handle;
}

static void loads_are_noticed(void **state)
{
    void *first, *second;

    (void) state;
    assert_true(gpuring_loads_changed()); /* there is no mark */
    gpuring_loads_set_mark(gpuring_loads_new_mark());
    assert_false(gpuring_loads_changed());
    first = load(0);
    assert_true(gpuring_loads_changed());
    gpuring_loads_set_mark(gpuring_loads_new_mark());
    assert_false(gpuring_loads_changed());
    dlclose(first); /* before the mark */
    assert_false(gpuring_loads_changed());
    second = load(1);
    first = load(0);
    dlclose(second);
    assert_true(gpuring_loads_changed());
    dlclose(first);
    gpuring_loads_close();
    assert_true(gpuring_loads_changed());
}

/* Marks come to an end; then nobody knows. */
static void there_are_so_many_marks(void **state)
{
    int marks = 0;

    (void) state;
    for (; marks < 1000; marks++) {
        gpuring_loads_set_mark(gpuring_loads_new_mark());
        if (gpuring_loads_changed()) {
            break;
        }
        dlclose(load(0));
        assert_false(gpuring_loads_changed());
    }
    assert_true(marks >= 10 && marks <= 999);
    gpuring_loads_close();
    gpuring_loads_set_mark(gpuring_loads_new_mark());
    assert_false(gpuring_loads_changed());
    gpuring_loads_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_are_noticed),
        cmocka_unit_test(there_are_so_many_marks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
