/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* At the end of the process: no progress callback for the requests of staged calls any more. */
#ifndef GPURING_STAGE_REQUEST_H
#define GPURING_STAGE_REQUEST_H

void gpuring_stage_requests_close(void);

#endif
