/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The plans of collectives other than allreduce. Each plan is built for its root when a call first
 * needs it, and kept. Once there are GPURING_PROGRAMS plans, a new plan replaces the least recently
 * used one.
 */
#ifndef GPURING_ENGINE_PROGRAM_H
#define GPURING_ENGINE_PROGRAM_H

#include "mca/coll_gpuring/engine/engine.h"

#define GPURING_PROGRAMS GPURING_TRANSPORT_MORE

/* Create an empty list of programs. `input` is copied. The list takes ownership of `order`, even
 * after an error. */
int gpuring_programs_create(const struct gpuring_plan_input *input, uint16_t *order,
                            struct gpuring_programs **programs);
/* Destroy the programs, before their transports are destroyed. */
void gpuring_programs_destroy(struct gpuring_engine *engine); /* engine->others may be NULL */

/* Return true if the engine can build a plan of a collective with an algorithm. */
bool gpuring_programs_offer(const struct gpuring_engine *engine, enum gpuring_collective collective,
                            enum gpuring_algorithm algorithm);

/* Find or build the program for a collective on a set of connections. Return 0, GPURING_ERR_NOMEM,
 * an error of the device, GPURING_ERR_UNSUPPORTED if graphs of the application use all programs, or
 * GPURING_AGAIN if a new program must replace another one, but operations in a stream of the
 * application have not ended. */
int gpuring_program_find(struct gpuring_engine *engine, enum gpuring_collective collective, int set,
                         int root, struct gpuring_program **program);

/* Provide states for all lanes of a plan. No operation may be running. */
int gpuring_program_states(struct gpuring_engine *engine, const struct gpuring_plan *plan);

#endif
