/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Wire-up of a module. topology/format.h defines the messages, module_state.h the states. */
#ifndef GPURING_WIREUP_WIREUP_H
#define GPURING_WIREUP_WIREUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mca_coll_gpuring_module_t;
struct ompi_communicator_t;
struct gpuring_call;
struct gpuring_wireup;

/* Allocate the state of a wire-up. This happens together with the module, so that a wire-up can
 * begin without allocating memory. */
struct gpuring_wireup *gpuring_wireup_create(void);

/* Report that this rank and another rank make different calls, given the words of both. Returns
 * the status with which the module must fail (gpuring_differ_report). */
typedef int gpuring_wireup_differs(const struct mca_coll_gpuring_module_t *module, uint64_t own,
                                   int rank, uint64_t other);

/*
 * Begin the wire-up, at the first eligible call or at the first one that needs late connections.
 * The state becomes WIRING. Never fails: a rank that cannot serve reports this in the next
 * gathering (oob.h), so that all ranks know it. Before late connections are made, the ranks compare
 * their calls, because each rank connects what its own call needs.
 */
void gpuring_wireup_start(struct mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                          gpuring_wireup_differs *differs);

/*
 * Progress the wire-up. Returns GPURING_AGAIN while the state is WIRING, and 0 when it is READY,
 * DEAD or FAILED. The caller holds the queue's lock.
 */
int gpuring_wireup_progress(struct mca_coll_gpuring_module_t *module);

/* Describe the current wait of the wire-up, and the rank, for log messages: "the wire-up's first
 * gathering (AllGather 1)". */
void gpuring_wireup_text(const struct mca_coll_gpuring_module_t *module, char *text, size_t size);

/* End the wire-up and the connections of a module. If no call is in progress on it (`idle`), they
 * may be kept for a later communicator of the same processes (pool.h). Local, in bounded time. */
void gpuring_wireup_close(struct mca_coll_gpuring_module_t *module, bool idle);

/* Destroy the connections that are kept. */
void gpuring_reuse_clear(void);

/*
 * Both take bounded time, and keep the component loaded if the progress thread does not end.
 * gpuring_network_stop ends the progress thread, and returns false if that fails. Call it before
 * the component is unloaded, even if engines remain. gpuring_network_close also closes all nets
 * (net_select.c). All engines must have been destroyed before.
 */
bool gpuring_network_stop(void);
void gpuring_network_close(void);

/*
 * ---- peers.c: parameters that must be equal before a wire-up ----
 *
 * coll_gpuring_priority (whether it is above 0) and coll_gpuring_device determine which ranks take
 * part in a wire-up at all, and coll_gpuring_connect_after in which call. If they differ between
 * ranks, no rank of the communicator serves. AllGather 1 compares all other parameters.
 */

/* Publish this process's values. Call when the component is opened, before MPI_Init exchanges
 * addresses. */
void gpuring_peers_publish(void);

/* Return true if the ranks of this communicator have equal values. All ranks get the same answer.
 * If the values differ in MPI_COMM_WORLD, a warning is logged. A rank without published values
 * counts as equal. */
bool gpuring_peers_alike(struct ompi_communicator_t *comm);

#endif
