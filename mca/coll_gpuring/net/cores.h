/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * On which cores the progress thread runs: near the network device, and away from the cores of the
 * application's processes where there is room. The choice is a pure function; only the last two
 * functions ask the operating system. Cores beyond CPU_SETSIZE are not used.
 */
#ifndef GPURING_NET_CORES_H
#define GPURING_NET_CORES_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * A list of cores as Linux writes them: "0" or "0,4-7", also with the end of a line. False if it is
 * none, or is empty.
 */
bool gpuring_cores_parse(const char *text, cpu_set_t *cores);

/* The value of a parameter: "auto", "none" (no choice) or a list. NULL and "" are "auto". */
bool gpuring_cores_wish_valid(const char *wish);

/* What the choice depends on. */
struct gpuring_cores_facts {
    const char *wish;  /* as above; what is not valid counts as "auto" */
    cpu_set_t allowed; /* where this process may run threads at all */
    cpu_set_t taken;   /* where the application's processes of this node run */
    cpu_set_t near;    /* nearest to the network device; empty: not known */
};

struct gpuring_cores_choice {
    cpu_set_t cores; /* empty: where the process itself runs */
    bool alone;      /* no process of the application runs there */
    bool refused;    /* a list was asked for, but none of its cores is allowed */
    const char *why; /* for the log */
};

void gpuring_cores_choose(const struct gpuring_cores_facts *facts,
                          struct gpuring_cores_choice *choice);

/* Add the cores on which a process may run; without effect if it cannot be asked. */
void gpuring_cores_add_process(cpu_set_t *cores, pid_t pid);

/* The cores nearest to a PCI device ("0000:3b:00.0") below ROOT ("/sys"); empty if not known. */
void gpuring_cores_near(const char *root, const char *pci_bus_id, cpu_set_t *cores);

/* A set as a list, for messages. */
void gpuring_cores_text(const cpu_set_t *cores, char *text, size_t size);

#endif
