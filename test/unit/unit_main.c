/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The main function of programs that have none of their own. */
#include "test/unit/unit.h"

int main(void)
{
    return unit_run();
}
