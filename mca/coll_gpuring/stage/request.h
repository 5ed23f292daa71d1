/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef GPURING_STAGE_REQUEST_H
#define GPURING_STAGE_REQUEST_H

/* Before every staged call that may need a request: keep some for calls that find no memory. */
void gpuring_stage_requests_reserve(void);

struct gpuring_stage;

/*
 * stage->request: a persistent call's, taken before the ranks agree on whether it can be made, so
 * that none lacks it then. take: 0 or GPURING_ERR_NOMEM; name: it has been agreed on, and so will
 * be each of its ends; drop: if it was not used.
 */
int gpuring_stage_request_take(struct gpuring_stage *stage);
void gpuring_stage_request_name(struct gpuring_stage *stage);
void gpuring_stage_request_drop(struct gpuring_stage *stage);

/* gpuring_notices_settle, at the end of a call that has no request. */
int gpuring_stage_requests_settle(const struct gpuring_stage *stage, int status);

/* At the end of the process: no progress callback for the requests of staged calls any more. */
void gpuring_stage_requests_close(void);

#endif
