/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Calls that the tuning file, or coll_gpuring_algorithm=previous, leaves to the previous module.
 *
 * The ranks must decide alike on each call, and can only when they are wired up: then they have
 * compared their rules and know the number of nodes. A blocking call waits for that, in the queue
 * if need be, and is handed on in its place in the order of calls. A non-blocking one cannot wait,
 * and one that has been queued can no longer be handed on (exchange.h): a rank that is wired up
 * already may not hand on what another one had to queue. So non-blocking calls are handed on once
 * the communicator is settled: once a blocking allreduce, or the _init of a persistent one, which
 * may wait, too, has passed. All ranks are wired up behind it, and it has the same place in the
 * order of calls on all of them. Before that we serve, as without the rule.
 *
 * With coll_gpuring_agree=always only blocking calls are left: the others do not know what buffers
 * the other ranks have.
 */
#ifndef GPURING_SERVE_LEFT_H
#define GPURING_SERVE_LEFT_H

#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/serve/serve.h"

/*
 * Has the module been wired up, and is a call of this size left? That the communicator has failed
 * since makes no difference: ranks that do not know of it hand on, too. Partner: after_tried in
 * wireup.c.
 */
static inline bool gpuring_left(const mca_coll_gpuring_module_t *module,
                                const struct gpuring_call *call)
{
    const struct gpuring_engine *engine = __atomic_load_n(&module->engine, __ATOMIC_ACQUIRE);

    return engine != NULL &&
           gpuring_select_leaves(&engine->choice_config, call->count * call->element_size);
}

/* A call that waits for the wire-up has passed. */
static inline void gpuring_left_settle(mca_coll_gpuring_module_t *module)
{
    module->serve->settled = __atomic_load_n(&module->engine, __ATOMIC_ACQUIRE) != NULL;
}

/* Is a non-blocking call to be handed on? */
static inline bool gpuring_left_nonblocking(const mca_coll_gpuring_module_t *module,
                                            const struct gpuring_call *call)
{
    return module->serve->settled && !call->agree && gpuring_left(module, call);
}

/* The same for a persistent call: waits for the wire-up if anything may be left. */
bool gpuring_left_persistent(mca_coll_gpuring_module_t *module, const struct gpuring_call *call);

#endif
