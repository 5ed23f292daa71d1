/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The plans of collectives other than allreduce. Each is built for its root when a call first needs
 * it, and kept. If there are GPURING_PROGRAMS, a new one replaces the least recently used one.
 */
#ifndef GPURING_ENGINE_PROGRAM_H
#define GPURING_ENGINE_PROGRAM_H

#include "mca/coll_gpuring/engine/engine.h"

#define GPURING_PROGRAMS GPURING_TRANSPORT_MORE

/* Create the programs from `input`, which is copied, and `order`, which they own afterwards. */
int gpuring_programs_create(const struct gpuring_plan_input *input, uint16_t *order,
                            struct gpuring_programs **programs);
/* Destroy the programs. Call this before the transport is destroyed. */
void gpuring_programs_destroy(struct gpuring_engine *engine); /* others NULL is allowed */

/* Return true if the engine can build a plan of a collective with an algorithm. */
bool gpuring_programs_offer(const struct gpuring_engine *engine, enum gpuring_collective collective,
                            enum gpuring_algorithm algorithm);

/* Find or build the program for a collective on a set of connections. Return 0, GPURING_ERR_NOMEM
 * or an error of the device. */
int gpuring_program_find(struct gpuring_engine *engine, enum gpuring_collective collective, int set,
                         int root, struct gpuring_program **program);

/* Provide states for the lanes of a plan. Called while no operation runs. */
int gpuring_program_states(struct gpuring_engine *engine, const struct gpuring_plan *plan);

#endif
