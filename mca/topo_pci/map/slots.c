/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* Sort processes by their location. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/map/map_internal.h"

/* A process while it is sorted: groups are numbered by their first process. */
struct seat {
    uint64_t host;
    uint64_t domain;
    uint32_t proc;
    uint32_t index; /* in the list of processes */
    uint32_t host_lead;
    uint32_t domain_lead;
};

int map_by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;

    return x < y ? -1 : x > y;
}

static int seat_by_location(const void *a, const void *b)
{
    const struct seat *x = a, *y = b;

    if (x->host != y->host) {
        return x->host < y->host ? -1 : 1;
    }
    if (x->domain != y->domain) {
        return x->domain < y->domain ? -1 : 1;
    }
    return x->proc < y->proc ? -1 : x->proc > y->proc;
}

static int seat_by_lead(const void *a, const void *b)
{
    const struct seat *x = a, *y = b;

    if (x->host_lead != y->host_lead) {
        return x->host_lead < y->host_lead ? -1 : 1;
    }
    if (x->domain_lead != y->domain_lead) {
        return x->domain_lead < y->domain_lead ? -1 : 1;
    }
    return x->proc < y->proc ? -1 : x->proc > y->proc;
}

/* Seats sorted by location. The lead of a host or a domain is its lowest process. */
static void seats_lead(struct seat *seats, uint32_t count)
{
    uint32_t host_start = 0;

    for (uint32_t i = 0; i < count; i++) {
        int new_host = i == 0 || seats[i].host != seats[i - 1].host;

        if (new_host || seats[i].domain != seats[i - 1].domain) {
            seats[i].domain_lead = seats[i].proc;
        } else {
            seats[i].domain_lead = seats[i - 1].domain_lead;
        }
        if (new_host) {
            host_start = i;
            seats[i].host_lead = seats[i].proc;
        } else if (seats[i].proc < seats[host_start].host_lead) {
            seats[host_start].host_lead = seats[i].proc;
        }
        if (i + 1 == count || seats[i + 1].host != seats[i].host) {
            for (uint32_t k = host_start; k <= i; k++) {
                seats[k].host_lead = seats[host_start].host_lead;
            }
        }
    }
}

static void slots_number(const struct seat *seats, struct map_slots *slots)
{
    for (uint32_t s = 0; s < slots->count; s++) {
        int new_host = s == 0 || seats[s].host_lead != seats[s - 1].host_lead;

        if (new_host) {
            slots->host_first[slots->hosts++] = s;
        }
        if (new_host || seats[s].domain_lead != seats[s - 1].domain_lead) {
            slots->domain_first[slots->domains++] = s;
        }
        slots->host_of[s] = slots->hosts - 1;
        slots->domain_of[s] = slots->domains - 1;
        slots->proc[s] = seats[s].proc;
        slots->slot[seats[s].index] = s;
    }
    slots->host_first[slots->hosts] = slots->count;
    slots->domain_first[slots->domains] = slots->count;
}

static void slots_alloc(struct map_slots *slots, uint32_t count, struct pci_arena *arena)
{
    size_t n = (size_t) count + 1;

    *slots = (struct map_slots){
        .count = count,
        .proc = pci_arena_array(arena, n, sizeof(uint32_t)),
        .slot = pci_arena_array(arena, n, sizeof(uint32_t)),
        .host_of = pci_arena_array(arena, n, sizeof(uint32_t)),
        .domain_of = pci_arena_array(arena, n, sizeof(uint32_t)),
        .host_first = pci_arena_array(arena, n, sizeof(uint32_t)),
        .domain_first = pci_arena_array(arena, n, sizeof(uint32_t)),
    };
}

int map_slots_build(uint32_t count, const uint32_t *procs, const struct pci_map_location *locations,
                    struct pci_arena *arena, struct map_slots *slots)
{
    struct seat *seats = pci_arena_array(arena, (size_t) count + 1, sizeof *seats);

    slots_alloc(slots, count, arena);
    if (arena->failed) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        seats[i].proc = procs ? procs[i] : i;
        seats[i].index = i;
        seats[i].host = locations[seats[i].proc].host;
        seats[i].domain = locations[seats[i].proc].domain;
    }
    qsort(seats, count, sizeof *seats, seat_by_location);
    seats_lead(seats, count);
    qsort(seats, count, sizeof *seats, seat_by_lead);
    slots_number(seats, slots);
    return 0;
}
