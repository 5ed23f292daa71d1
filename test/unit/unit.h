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

#endif
