/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/net/cores.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/net/net_list.h"

/* Parse a core number. Returns false if there is none at *at or it exceeds the size of a set. */
static bool next_number(const char **at, int *number)
{
    char *end;
    long value;

    if (!isdigit((unsigned char) **at)) {
        return false;
    }
    value = strtol(*at, &end, 10);
    if (value < 0 || value >= CPU_SETSIZE) {
        return false;
    }
    *number = (int) value;
    *at = end;
    return true;
}

bool gpuring_cores_parse(const char *text, cpu_set_t *cores)
{
    const char *at = text;
    int first, last;

    CPU_ZERO(cores);
    for (;;) {
        if (!next_number(&at, &first)) {
            return false;
        }
        last = first;
        if (*at == '-') {
            at++;
            if (!next_number(&at, &last) || last < first) {
                return false;
            }
        }
        for (int core = first; core <= last; core++) {
            CPU_SET(core, cores);
        }
        if (*at == '\0' || (*at == '\n' && at[1] == '\0')) {
            return true;
        }
        if (*at++ != ',') {
            return false;
        }
    }
}

static bool wish_is(const char *wish, const char *word)
{
    return wish != NULL && strcmp(wish, word) == 0;
}

bool gpuring_cores_wish_valid(const char *wish)
{
    cpu_set_t cores;

    return wish == NULL || *wish == '\0' || wish_is(wish, "auto") || wish_is(wish, "none") ||
           gpuring_cores_parse(wish, &cores);
}

/* Return the cores of `from` that are not in `without`. */
static cpu_set_t subtract(const cpu_set_t *from, const cpu_set_t *without)
{
    cpu_set_t both, rest;

    CPU_AND(&both, from, without);
    CPU_XOR(&rest, from, &both);
    return rest;
}

static void choose_automatically(const struct gpuring_cores_facts *facts,
                                 struct gpuring_cores_choice *choice)
{
    cpu_set_t free_cores = subtract(&facts->allowed, &facts->taken), near;

    CPU_AND(&near, &free_cores, &facts->near);
    if (CPU_COUNT(&near) > 0) {
        choice->cores = near;
        choice->why = "cores near the network device on which no rank runs";
    } else if (CPU_COUNT(&free_cores) > 0) {
        choice->cores = free_cores;
        choice->why = CPU_COUNT(&facts->near) > 0
                          ? "no core near the network device is free of ranks, others are"
                          : "cores on which no rank runs";
    } else {
        choice->why = "ranks run on all cores, so it shares those of its process";
    }
    choice->alone = CPU_COUNT(&choice->cores) > 0;
}

void gpuring_cores_choose(const struct gpuring_cores_facts *facts,
                          struct gpuring_cores_choice *choice)
{
    cpu_set_t asked, shared;

    memset(choice, 0, sizeof *choice);
    if (wish_is(facts->wish, "none")) {
        choice->why = "coll_gpuring_proxy_cpu=none";
    } else if (facts->wish == NULL || !gpuring_cores_parse(facts->wish, &asked)) {
        choose_automatically(facts, choice);
    } else {
        CPU_AND(&choice->cores, &asked, &facts->allowed);
        choice->refused = CPU_COUNT(&choice->cores) == 0;
        CPU_AND(&shared, &choice->cores, &facts->taken);
        choice->alone = !choice->refused && CPU_COUNT(&shared) == 0;
        choice->why = "as coll_gpuring_proxy_cpu asks";
    }
}

void gpuring_cores_add_process(cpu_set_t *cores, pid_t pid)
{
    cpu_set_t own;

    if (sched_getaffinity(pid, sizeof own, &own) == 0) {
        CPU_OR(cores, cores, &own);
    }
}

void gpuring_cores_near(const char *root, const char *pci_bus_id, cpu_set_t *cores)
{
    char line[4096] = "";

    if (pci_bus_id[0] != '\0') {
        gpuring_net_line(line, sizeof line, "%s/bus/pci/devices/%s/local_cpulist", root,
                         pci_bus_id);
    }
    if (line[0] == '\0' || !gpuring_cores_parse(line, cores)) {
        CPU_ZERO(cores);
    }
}

void gpuring_cores_text(const cpu_set_t *cores, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (int first = 0; first < CPU_SETSIZE && used < size; first++) {
        int last = first, written;

        if (!CPU_ISSET(first, cores)) {
            continue;
        }
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, cores)) {
            last++;
        }
        written =
            last > first
                ? snprintf(text + used, size - used, "%s%d-%d", used > 0 ? "," : "", first, last)
                : snprintf(text + used, size - used, "%s%d", used > 0 ? "," : "", first);
        used += (size_t) written;
        first = last;
    }
}
