/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef GPURING_TEST_STANDIN_FIND_H
#define GPURING_TEST_STANDIN_FIND_H

/* *function: an entry point of the loaded driver by its name; the program ends if it has none. */
void standin_find(const char *name, void *function);

#endif
