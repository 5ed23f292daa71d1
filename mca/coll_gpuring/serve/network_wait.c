/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The wait of a blocking call for an operation between nodes. The calling thread progresses the
 * network itself (net/proxy/proxy.h).
 */
#include <sched.h>

#include "mca/coll_gpuring/serve/serve.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/status.h"

/*
 * opal_progress takes as long as a small message, so the thread first looks ALONE_LOOKS times at
 * its own network alone, which takes about 20 us. Messages of MPI only arrive in opal_progress.
 */
#define ALONE_LOOKS     40
#define LOOKS_PER_MPI   8
#define LOOKS_PER_CLOCK 64 /* also between checks whether a peer shares our core */

/*
 * A thread that has waited for LATE_NS without progress naps until the network reports an event, or
 * NAP_NS is over, after which it progresses MPI. Waking takes up to 0.1 ms, where other components
 * keep the core, so a nap must cost little of the time that the thread has waited. Naps are short
 * if no descriptor reports what the thread waits for: messages of MPI, ranks of its node, or a GPU.
 */
#define LATE_NS      UINT64_C(100000000)
#define NAP_NS       500000
#define NAP_BLIND_NS 20000

/* The state of a wait. */
struct network_wait {
    unsigned looks;
    bool by_mpi;
    bool crowded; /* ranks share cores */
    bool late;    /* naps are due */
    uint64_t progress, since_ns;
};

/* Progress MPI if that is due. Returns true if MPI has yielded the core. */
static bool progress_mpi(const struct network_wait *wait)
{
    if (wait->by_mpi || wait->crowded ||
        (wait->looks > ALONE_LOOKS && (wait->late || wait->looks % LOOKS_PER_MPI == 0))) {
        opal_progress();
        return opal_progress_yield_when_idle;
    }
    return false;
}

/* Check the clock and the core after a look without progress. */
static void check_time(struct network_wait *wait, const struct gpuring_engine *engine)
{
    uint64_t progress, now;

    if (!wait->late && wait->looks % LOOKS_PER_CLOCK != 0) {
        return;
    }
    progress = gpuring_operation_progress(engine);
    now = gpuring_now_ns();
    if (progress != wait->progress || wait->since_ns == 0) {
        wait->progress = progress;
        wait->since_ns = now;
    }
    wait->late = now - wait->since_ns >= LATE_NS;
    wait->crowded = wait->crowded || gpuring_transport_shares_core(engine->program->transport);
}

int gpuring_network_wait(mca_coll_gpuring_module_t *module, const struct gpuring_call *call)
{
    struct gpuring_engine *engine = module->engine;
    struct gpuring_transport *transport = engine->program->transport;
    struct network_wait wait = {.by_mpi = gpuring_transport_by_mpi(transport),
                                .crowded = engine->oversubscribed || opal_progress_yield_when_idle};
    uint64_t nap_ns = !wait.by_mpi && engine->only_remote ? NAP_NS : NAP_BLIND_NS;
    int status;

    do {
        bool yielded;

        wait.looks++;
        yielded = progress_mpi(&wait);
        status = gpuring_operation_poll(engine, call);
        if (status == GPURING_AGAIN) {
            int health = gpuring_watchdog_look(module);

            if (health != GPURING_OK) {
                return health;
            }
            check_time(&wait, engine);
            if (wait.late) {
                gpuring_transport_nap(transport, nap_ns);
            } else if (wait.crowded && !yielded) {
                sched_yield();
            }
        }
    } while (status == GPURING_AGAIN);
    return status;
}
