/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* coll_gpuring_check=plans: prove the plans of all ranks before they run. */
#ifndef GPURING_WIREUP_AGREEMENT_H
#define GPURING_WIREUP_AGREEMENT_H

#include "mca/coll_gpuring/topology/channels.h"

/*
 * Build every rank's plans from what the gatherings told and check them. 0, GPURING_ERR_DATA with a
 * help text, or GPURING_ERR_NOMEM. The same on all ranks.
 */
int gpuring_wireup_check_plans(const struct gpuring_channels *channels,
                               const struct gpuring_gathered *hellos);

#endif
