/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Log lines of the component: where they go, and what they begin with. */
#ifndef GPURING_LOG_H
#define GPURING_LOG_H

void gpuring_log_open(void);
void gpuring_log_close(void);

#endif
