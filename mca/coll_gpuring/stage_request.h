/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef GPURING_STAGE_REQUEST_H
#define GPURING_STAGE_REQUEST_H

/* Before every staged call that may need a request: keep some for calls that find no memory. */
void gpuring_stage_requests_reserve(void);

/* At the end of the process: no progress callback for the requests of staged calls any more. */
void gpuring_stage_requests_close(void);

#endif
