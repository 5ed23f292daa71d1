/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef GPURING_P2P_PREVIOUS_H
#define GPURING_P2P_PREVIOUS_H

#include "mca/coll_gpuring/compat.h"

/* The PML's table before ours: set once, never taken back. */
extern mca_pml_base_module_t gpuring_p2p_previous;

#endif
