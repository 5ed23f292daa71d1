/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The values of the parameters, which are the defaults before registration. Tools, which do not
 * register parameters, use the defaults. */
#include "mca/coll_gpuring/params.h"

/* clang-format off */
#define INT(name, def, level, scope, low, high, help)  .name = (def),
#define SIZE(name, def, level, scope, low, high, help) .name = (def),
#define CHOICE(name, def, level, scope, values, help)  .name = (def),
#define TEXT(name, def, level, scope, help)            .name = (char *) (def),
/* clang-format on */
struct gpuring_params gpuring_params = {GPURING_PARAMS(INT, SIZE, CHOICE, TEXT)};
