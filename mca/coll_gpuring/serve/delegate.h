/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Handing calls on: counting them and saying why. */
#ifndef GPURING_SERVE_DELEGATE_H
#define GPURING_SERVE_DELEGATE_H

#include "mca/coll_gpuring/serve/eligible.h"

struct mca_coll_gpuring_module_t;

/* Count a call that we do not serve; the first of each reason on a communicator is logged. */
void gpuring_delegate_count(struct mca_coll_gpuring_module_t *module, enum gpuring_reason reason);

#endif
