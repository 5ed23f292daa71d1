/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The plans of the collectives other than allreduce: each is made when a call first needs it, for
 * its root, and kept. Of more than GPURING_PROGRAMS the one that was not used for longest goes.
 */
#ifndef GPURING_ENGINE_PROGRAM_H
#define GPURING_ENGINE_PROGRAM_H

#include "mca/coll_gpuring/engine/engine.h"

#define GPURING_PROGRAMS GPURING_TRANSPORT_MORE

/* What they are made from; input is copied, order becomes the programs'. */
int gpuring_programs_create(const struct gpuring_plan_input *input, uint16_t *order,
                            struct gpuring_programs **programs);
/* Before the transport goes. */
void gpuring_programs_destroy(struct gpuring_engine *engine); /* others NULL is allowed */

/* Does the engine have what a plan of a collective by an algorithm is made from? */
bool gpuring_programs_offer(const struct gpuring_engine *engine, enum gpuring_collective collective,
                            enum gpuring_algorithm algorithm);

/* The program for a collective, on the connections of an algorithm. 0, GPURING_ERR_NOMEM or an
 * error of the device. */
int gpuring_program_find(struct gpuring_engine *engine, enum gpuring_collective collective,
                         enum gpuring_algorithm algorithm, int root,
                         struct gpuring_program **program);

/* Bind the lanes of a plan, which begin at `lanes`, for each protocol. */
int gpuring_program_bind(const struct gpuring_engine *engine, struct gpuring_program *program,
                         struct gpuring_lane *lanes);

#endif
