/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/p2p/p2p_home.h"

#include <string.h>
#include <unistd.h>

#include "mca/coll_gpuring/p2p/p2p_state.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/topology/identity.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/message.h"
#include "mca/coll_gpuring/util/pid.h"
#include "mca/coll_gpuring/util/status.h"

#define LOOK_NS UINT64_C(10000000)

bool gpuring_p2p_slots_reach(const char *gpu)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;
    struct gpuring_pointer pointer = gpuring_memory_of(gpu);

    return (gpuring_params.p2p_level == GPURING_PARAM_LEVEL_AUTO ||
            gpuring_params.p2p_level == GPURING_PARAM_LEVEL_SYS) &&
           ops->reaches(gpuring_process.device, &pointer) && !ops->lost(gpuring_process.device);
}

void gpuring_p2p_home(struct gpuring_p2p_home *home)
{
    static struct gpuring_p2p_home own_home; /* guarded by the lock, as the next */
    static bool identified;
    struct gpuring_device_identity identity;

    pthread_mutex_lock(&gpuring_p2p.lock);
    if (own_home.pid == 0) {
        own_home.node = gpuring_identity_node(gpuring_params.hostid);
        own_home.pid = (int32_t) getpid();
        own_home.version = GPURING_WIRE_VERSION;
    }
    if (!identified && __atomic_load_n(&gpuring_process.gpu, __ATOMIC_ACQUIRE) >= 0 &&
        gpuring_process.device_ops->identity(gpuring_process.device, &identity) == GPURING_OK) {
        memcpy(own_home.uuid, identity.uuid, sizeof own_home.uuid);
        own_home.mps = identity.mps;
        identified = true;
    }
    *home = own_home;
    pthread_mutex_unlock(&gpuring_p2p.lock);
}

enum gpuring_p2p_place gpuring_p2p_best_place(const struct gpuring_p2p_home *sender,
                                              const char *gpu)
{
    struct gpuring_p2p_home home;

    gpuring_p2p_home(&home);
    if (home.node != sender->node) {
        return GPURING_P2P_NONE;
    }
    return gpu != NULL && (home.mps || memcmp(home.uuid, sender->uuid, sizeof home.uuid) != 0) &&
                   gpuring_p2p_slots_reach(gpu)
               ? GPURING_P2P_GPU
               : GPURING_P2P_HOST;
}

bool gpuring_p2p_lives(int pid, struct gpuring_p2p_watch *watch)
{
    uint64_t now;

    if (++watch->calls % 64 != 0) {
        return true;
    }
    now = gpuring_now_ns();
    if (now - watch->looked < LOOK_NS) {
        return true;
    }
    watch->looked = now;
    if (gpuring_pid_exists(pid)) {
        return true;
    }
    gpuring_error("[p2p-ended] a send or receive on GPU memory returns an error: process %d, which "
                  "sends or receives the message, has ended; see the messages of mpirun",
                  pid);
    return false;
}
