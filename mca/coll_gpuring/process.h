/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The process's part: the device, and the network once it is needed. See gpuring.h. */
#ifndef GPURING_PROCESS_H
#define GPURING_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Open the device that coll_gpuring_device asks for; device_ops stays NULL if there is none. */
void gpuring_process_open_device(void);

/* Read the tuning file, if one was given. */
void gpuring_process_open_tuning(void);

/* Before the first use of the device: choose GPU and context by the user's buffer; and again where
 * the application has destroyed that context. Thread-safe. */
int gpuring_process_attach(const void *buffer);

/* Copy between host and user's memory of any kind; returns when it is done. Thread-safe. */
int gpuring_process_copy(void *to, const void *from, size_t bytes);

/* Does the GPU of this buffer still copy, so that calls which are not served can be staged? */
bool gpuring_process_copies(const void *buffer);

/* Close all that was opened. No service may exist any more. */
void gpuring_process_close(void);

#endif
