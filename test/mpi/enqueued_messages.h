/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Messages in a stream: a part of the test of enqueued calls. */
#ifndef GPURING_TEST_ENQUEUED_MESSAGES_H
#define GPURING_TEST_ENQUEUED_MESSAGES_H

#include <mpi.h>

/* Send and receive in all ways, also in a graph. */
void test_messages(void);

/* A few short messages, for the interpreter of kernels. */
void test_few_messages(void);

/* Make wrong calls, which return errors. */
void test_message_errors(void *stream, MPI_Comm comm);

/* how: message_tag, message_count, message_order, late_message. */
void test_wrong_message(const char *how);

#endif
