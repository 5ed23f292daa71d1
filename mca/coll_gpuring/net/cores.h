/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Choice of the cores for the progress thread: near the network device and, if there is room, not
 * on the cores of the application's processes. The choice is a pure function. Only the last
 * functions query the operating system. Cores beyond CPU_SETSIZE are not used.
 */
#ifndef GPURING_NET_CORES_H
#define GPURING_NET_CORES_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Parse a list of cores in the format of Linux: "0" or "0,4-7", with or without a newline. Returns
 * false if it is not a list or is empty.
 */
bool gpuring_cores_parse(const char *text, cpu_set_t *cores);

/* Return true for a valid parameter: "auto", "none" (no choice) or a list. NULL and "" mean "auto".
 */
bool gpuring_cores_wish_valid(const char *wish);

/* Input of the choice. */
struct gpuring_cores_facts {
    const char *wish;  /* as above; an invalid value counts as "auto" */
    cpu_set_t allowed; /* where this process may run threads at all */
    cpu_set_t taken;   /* where the application's processes of this node run */
    cpu_set_t near;    /* nearest to the network device; empty: not known */
};

struct gpuring_cores_choice {
    cpu_set_t cores; /* empty: where the process itself runs */
    bool alone;      /* no process of the application runs there */
    bool refused;    /* the user gave a list, but none of its cores is allowed */
    const char *why; /* for the log */
};

void gpuring_cores_choose(const struct gpuring_cores_facts *facts,
                          struct gpuring_cores_choice *choice);

/* Add the cores on which a process may run. Adds nothing if the query fails. */
void gpuring_cores_add_process(cpu_set_t *cores, pid_t pid);

/* Return the cores nearest to a PCI device ("0000:3b:00.0") below ROOT ("/sys"); empty if unknown.
 */
void gpuring_cores_near(const char *root, const char *pci_bus_id, cpu_set_t *cores);

/* Write a set as a list, for messages. */
void gpuring_cores_text(const cpu_set_t *cores, char *text, size_t size);

#endif
