/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef GPURING_STREAM_CONNECT_H
#define GPURING_STREAM_CONNECT_H

#include "mca/coll_gpuring/stream/stream_state.h"

/* See struct gpuring_stream_functions. */
int gpuring_stream_connect(MPI_Comm comm, void *stream);

#endif
