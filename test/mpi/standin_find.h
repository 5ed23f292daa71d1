/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef GPURING_TEST_STANDIN_FIND_H
#define GPURING_TEST_STANDIN_FIND_H

/* Set *function to an entry point of the loaded driver. The program ends if there is none. */
void standin_find(const char *name, void *function);

#endif
