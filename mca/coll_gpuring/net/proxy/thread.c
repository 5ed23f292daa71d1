/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/net/proxy/proxy_internal.h"
#include "mca/coll_gpuring/util/clock.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mca/coll_gpuring/util/log.h"

/*
 * Default times of a wait. They were chosen on a machine with fewer cores than threads, where they
 * matter most. A short spin catches the answer of a peer that is running. Yields give the core to
 * the lanes that this thread waits for. Naps stop competing with a long computation for the core.
 *
 * A thread that yields to a computation gets the core back only when that has used its time slice
 * (4 ms on Linux 6.18). A nap ends when the network has something, or after 20 to 200 us. After a
 * yield that took so long, this thread therefore naps instead of yielding, at first for CROWDED_NS.
 * Each further such yield doubles this time. It is short at first because a yield can also take
 * long on a core that is mostly idle, and there a yielding thread notices the slots of a lane 50 us
 * earlier than a napping one.
 */
#define SPIN_US       2
#define SPIN_ALONE_US 50 /* on a core that no process needs: also catches the next message */
#define YIELD_US      200
#define LOST_NS       500000   /* a yield that takes longer has lost the core */
#define CROWDED_NS    50000000 /* until the next yield, at first */
#define CROWDED_MOST  1000000000
#define NAP_MIN_NS    20000
#define NAP_MAX_NS    200000    /* while an operation runs, because a lane may fill a slot */
#define NAP_SHARE     50        /* the same, if nothing has happened for NAP_SHARE times as long */
#define NAP_LONG_NS   5000000   /* maximum of these */
#define WATCH_MS      20        /* between checks for completions that no thread waits for */
#define NAP_FD_NS     100000000 /* while draining: descriptors of all nets wake the thread */
#define NAP_BLIND_NS  1000000   /* while draining, if a net has no descriptor */

int gpuring_proxy_thread_start(pthread_t *thread, void *(*main)(void *), void *argument)
{
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(thread, NULL, main, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/*
 * Find the cores on which this process may run threads, independent of mpirun's binding. The kernel
 * reduces a request for all cores to those that the container allows. Returns false if that cannot
 * be determined.
 */
static bool cores_allowed(cpu_set_t *cores)
{
    memset(cores, 0xff, sizeof *cores);
    return sched_setaffinity(0, sizeof *cores, cores) == 0 &&
           sched_getaffinity(0, sizeof *cores, cores) == 0;
}

bool gpuring_proxy_thread_setup(const struct gpuring_proxy_config *config)
{
    struct gpuring_cores_facts facts = {
        .wish = config->cores, .taken = config->taken, .near = config->near};
    struct gpuring_cores_choice choice;
    cpu_set_t before;
    char text[256];

    pthread_setname_np(pthread_self(), "gpuring-proxy");
    if (config->cores == NULL || sched_getaffinity(0, sizeof before, &before) != 0) {
        return false;
    }
    if (!cores_allowed(&facts.allowed)) {
        facts.allowed = before;
    }
    gpuring_cores_choose(&facts, &choice);
    if (choice.refused) {
        gpuring_warn("coll_gpuring_proxy_cpu=%s: this process may not run on any of these "
                     "cores; its progress thread runs on the cores of the process",
                     config->cores);
    }
    if (CPU_COUNT(&choice.cores) == 0) {
        choice.cores = before;
    }
    if (sched_setaffinity(0, sizeof choice.cores, &choice.cores) != 0) {
        gpuring_warn("cannot bind the progress thread: %s", strerror(errno));
        choice.alone = false;
    }
    gpuring_cores_text(&choice.cores, text, sizeof text);
    gpuring_debug("progress thread on cores %s: %s", text, choice.why);
    return choice.alone;
}

void gpuring_proxy_bell_ring(struct gpuring_proxy_bell *bell)
{
    const uint64_t one = 1;
    ssize_t written;

    do { /* if the counter is full (EAGAIN), the bell has already rung */
        written = write(bell->fd, &one, sizeof one);
    } while (written < 0 && errno == EINTR);
}

static void bell_clear(struct gpuring_proxy_bell *bell)
{
    uint64_t count;

    while (read(bell->fd, &count, sizeof count) < 0 && errno == EINTR) {
    }
}

/* Announce the kind of sleep that the thread is about to begin. Returns false if it must stay
 * awake. */
static bool bell_says(struct gpuring_proxy_bell *bell, int how, uint64_t begun)
{
    /* Partners: bell_call and proxy_join, see the header. */
    __atomic_store_n(&bell->sleeping, how, __ATOMIC_SEQ_CST);
    return __atomic_load_n(&bell->begun, __ATOMIC_SEQ_CST) == begun &&
           __atomic_load_n(&bell->stop, __ATOMIC_SEQ_CST) == 0;
}

static void bell_awake(struct gpuring_proxy_bell *bell)
{
    __atomic_store_n(&bell->sleeping, GPURING_PROXY_AWAKE, __ATOMIC_SEQ_CST);
}

void gpuring_proxy_bell_sleep(struct gpuring_proxy_bell *bell, uint64_t begun, bool watch)
{
    struct pollfd fd = {.fd = bell->fd, .events = POLLIN};
    int how = watch ? GPURING_PROXY_WATCHING : GPURING_PROXY_SLEEPING;

    if (bell_says(bell, how, begun) && poll(&fd, 1, watch ? WATCH_MS : -1) > 0) {
        bell_clear(bell);
    }
    bell_awake(bell);
}

void gpuring_proxy_wait_init(struct gpuring_proxy_wait *wait,
                             const struct gpuring_proxy_config *config, bool alone)
{
    uint64_t spin_us = config->spin_us >= 0 ? (uint64_t) config->spin_us
                       : alone              ? SPIN_ALONE_US
                                            : SPIN_US;
    uint64_t yield_us = config->yield_us >= 0 ? (uint64_t) config->yield_us : YIELD_US;

    *wait = (struct gpuring_proxy_wait){.spin_ns = spin_us * 1000,
                                        .yield_ns = (spin_us + yield_us) * 1000};
}

void gpuring_proxy_wait_skip(struct gpuring_proxy_wait *wait)
{
    wait->since = gpuring_now_ns() - wait->yield_ns;
    wait->nap_ns = wait->nap_ns != 0 ? wait->nap_ns : NAP_MIN_NS;
}

bool gpuring_proxy_nap_on(const struct gpuring_proxy_nap *nap, struct gpuring_proxy_bell *bell,
                          uint64_t ns)
{
    struct timespec timeout = {.tv_sec = 0, .tv_nsec = (long) ns};
    /* poll ignores an entry with a negative descriptor. */
    struct pollfd fds[GPURING_PROXY_NETS + 1] = {
        {.fd = bell != NULL ? bell->fd : -1, .events = POLLIN}};

    for (int i = 0; i < nap->nfds; i++) {
        fds[i + 1] = (struct pollfd){.fd = nap->fds[i], .events = POLLIN};
    }
    if (ppoll(fds, (nfds_t) nap->nfds + 1, &timeout, NULL) > 0 && fds[0].revents != 0) {
        bell_clear(bell);
        return true;
    }
    return false;
}

uint64_t gpuring_proxy_longest_nap(uint64_t waited, bool running, bool all_nets)
{
    uint64_t share = waited / NAP_SHARE;

    if (!running) {
        return all_nets ? NAP_FD_NS : NAP_BLIND_NS;
    }
    /* A lane fills slots without ringing the bell, so the nap is a small part of the time that the
     * lane has taken. */
    return share < NAP_MAX_NS ? NAP_MAX_NS : share < NAP_LONG_NS ? share : NAP_LONG_NS;
}

static void yield_core(struct gpuring_proxy_wait *wait, uint64_t now)
{
    sched_yield();
    if (gpuring_now_ns() - now > LOST_NS) {
        wait->crowded_ns = wait->crowded_ns == 0                 ? CROWDED_NS
                           : wait->crowded_ns * 2 < CROWDED_MOST ? wait->crowded_ns * 2
                                                                 : CROWDED_MOST;
        wait->crowded_until = now + wait->crowded_ns;
    } else {
        wait->crowded_ns = 0;
    }
}

void gpuring_proxy_wait_step(struct gpuring_proxy_wait *wait, struct gpuring_proxy_bell *bell,
                             const struct gpuring_proxy_nap *nap, bool running, uint64_t begun)
{
    uint64_t now = gpuring_now_ns(), waited, longest;
    bool rang = false;

    if (wait->since == 0) {
        wait->since = now;
    }
    waited = now - wait->since;
    if (waited < wait->spin_ns) {
        return;
    }
    if (waited < wait->yield_ns && now >= wait->crowded_until) {
        yield_core(wait, now);
        return;
    }
    if (wait->nap_ns == 0) {
        wait->nap_ns = NAP_MIN_NS; /* from the next step on, with armed descriptors */
        return;
    }
    if (nap == NULL) {
        return; /* an event arrived while the nets were armed */
    }
    longest = gpuring_proxy_longest_nap(waited, running, nap->all_nets);
    if (longest > NAP_MAX_NS && running && !bell_says(bell, GPURING_PROXY_NAPPING, begun)) {
        longest = NAP_MAX_NS;
    }
    if (running || bell_says(bell, GPURING_PROXY_NAPPING, begun)) {
        rang = gpuring_proxy_nap_on(nap, bell, wait->nap_ns < longest ? wait->nap_ns : longest);
    }
    bell_awake(bell);
    wait->nap_ns = wait->nap_ns * 2 < NAP_FD_NS ? wait->nap_ns * 2 : NAP_FD_NS;
    if (rang) { /* another operation has begun */
        wait->since = wait->nap_ns = 0;
    }
}
