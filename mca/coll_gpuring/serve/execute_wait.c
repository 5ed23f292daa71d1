/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * How a blocking call waits for its operation. The calling thread runs the lanes, and progresses
 * the network (net/proxy/proxy.h), MPI and the watchdog. What it does between two polls of the
 * operation depends on how long it has waited:
 *
 *   20 us   nothing else, because opal_progress takes as long as a small call or message
 *   later   progress MPI: after each poll if the network needs that, otherwise for a share of the
 *           time, because a message that arrives meanwhile waits
 *   late    also nap: after 10 ms inside a node, after 100 ms between nodes
 *
 * If the network consists of MPI messages, or if ranks share cores, the first stage is omitted. If
 * ranks share cores, the thread also yields from the beginning.
 */
#include <sched.h>

#include "mca/coll_gpuring/serve/serve.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/status.h"

#define ALONE_NS        20000
#define LOOKS_PER_CLOCK 8
#define LOOKS_PER_CORE  16 /* polls between checks whether a peer shares our core */

/* The pause between two calls of opal_progress is this many times as long as the shortest of them
 * in this wait, in which MPI had probably nothing to do. Calls that do work are longer, and the
 * pauses between them are not, so MPI then gets a larger share. */
#define MPI_PAUSE 4

/*
 * Between nodes, a nap ends when the network reports an event, or after NAP_NS. Waking up takes up
 * to 0.1 ms if other components keep the core busy, so a nap must cost little of the time that the
 * thread has waited. Naps are shorter if no file descriptor reports what the thread waits for:
 * messages of MPI, ranks of its node, or a GPU.
 */
#define LATE_NS      UINT64_C(100000000)
#define NAP_NS       500000
#define NAP_BLIND_NS 20000

#define NOT_YET UINT64_MAX

/* The state of a wait. */
struct wait {
    struct gpuring_engine *engine;
    struct gpuring_transport *transport;
    struct gpuring_backoff pause;
    uint64_t nap_ns;
    uint64_t mpi_ns; /* do not progress MPI before this time; NOT_YET: the clock was not read */
    uint64_t shortest_ns; /* duration of the shortest call of opal_progress, at most ALONE_NS */
    unsigned looks;
    bool remote;    /* the operation has connections between nodes */
    bool each_look; /* progress MPI after each look */
    bool crowded;   /* ranks share cores */
};

static struct wait wait_begin(struct gpuring_engine *engine)
{
    struct gpuring_transport *transport = engine->current->program->transport;
    bool by_mpi = gpuring_transport_by_mpi(transport);
    bool crowded = engine->oversubscribed || opal_progress_yield_when_idle;
    bool remote = engine->current->remote;

    return (struct wait){.engine = engine,
                         .transport = transport,
                         .nap_ns = !by_mpi && engine->current->only_remote ? NAP_NS : NAP_BLIND_NS,
                         .mpi_ns = crowded || by_mpi ? 0 : NOT_YET,
                         .shortest_ns = ALONE_NS,
                         .looks = crowded ? 0 : LOOKS_PER_CLOCK - 1, /* most waits end first */
                         .remote = remote,
                         .each_look = by_mpi || (remote && crowded),
                         .crowded = crowded};
}

/* Progress MPI if that is due. Return true if this has yielded the core. */
static bool progress_mpi(struct wait *wait)
{
    bool due = wait->looks++ % LOOKS_PER_CLOCK == 0 || wait->pause.late;
    uint64_t begin, end;

    if (wait->each_look) {
        opal_progress();
        return opal_progress_yield_when_idle;
    }
    begin = due ? gpuring_now_ns() : 0;
    if (due && wait->mpi_ns == NOT_YET) {
        wait->mpi_ns = begin + ALONE_NS;
    }
    if (!due || begin < wait->mpi_ns) {
        return false;
    }
    opal_progress();
    end = gpuring_now_ns();
    wait->shortest_ns = end - begin < wait->shortest_ns ? end - begin : wait->shortest_ns;
    wait->mpi_ns = end + MPI_PAUSE * wait->shortest_ns;
    return opal_progress_yield_when_idle;
}

/* Let other threads use the core if that is due. */
static void pause_thread(struct wait *wait, bool yielded)
{
    uint64_t progress = gpuring_operation_progress(wait->engine);
    bool crowded;

    if (!wait->crowded && wait->looks % LOOKS_PER_CORE == 0) {
        wait->crowded = gpuring_transport_shares_core(wait->transport);
        wait->each_look |= wait->remote && wait->crowded;
    }
    crowded = wait->crowded && !yielded;
    if (!wait->remote) {
        gpuring_backoff(&wait->pause, progress, crowded);
    } else if (gpuring_backoff_late(&wait->pause, progress, LATE_NS)) {
        gpuring_transport_nap(wait->transport, wait->nap_ns);
    } else if (crowded) {
        sched_yield();
    }
}

int gpuring_execute_wait(mca_coll_gpuring_module_t *module, const struct gpuring_call *call)
{
    struct wait wait = wait_begin(module->engine);
    int status;

    do {
        pause_thread(&wait, progress_mpi(&wait));
        status = gpuring_operation_poll(module->engine, call);
        if (status == GPURING_AGAIN) {
            int health = gpuring_watchdog_look(module);

            if (health != GPURING_OK) {
                return health;
            }
        }
    } while (status == GPURING_AGAIN);
    return status;
}
