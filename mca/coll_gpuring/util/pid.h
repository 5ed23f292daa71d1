/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Other processes of the node, which has one PID namespace (topology/identity.h). Any thread. */
#ifndef GPURING_UTIL_PID_H
#define GPURING_UTIL_PID_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* Return false if there is no process with this number. A process that has ended exists until its
 * parent, such as mpirun, has waited for it. */
static inline bool gpuring_pid_exists(pid_t pid)
{
    return kill(pid, 0) == 0 || errno != ESRCH;
}

#endif
