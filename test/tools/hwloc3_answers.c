/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Wrappers that make the library of hwloc 2 behave like hwloc 3, as far as discovery sees a
 * difference. Code that is compiled with the changed header of test_hwloc3.sh calls these functions
 * instead of hwloc's. After loading, the type of an OS device is a set of types in the same place
 * (larger, but the union of attributes has room for it), and the infos of the machine belong to the
 * topology. This file uses the header of hwloc 2 and supports one topology at a time.
 */
#include <hwloc.h>
#include <string.h>

struct infos {
    struct hwloc_info_s *array;
    unsigned count, allocated;
};

int answers_topology_load(hwloc_topology_t topology);
void answers_topology_destroy(hwloc_topology_t topology);
int answers_topology_export_xml(hwloc_topology_t topology, const char *path, unsigned long flags);
struct infos *answers_topology_get_infos(hwloc_topology_t topology);
const char *answers_get_info_by_name(struct infos *infos, const char *name);

/* Sets of hwloc 3, indexed by the type of hwloc 2. */
static const unsigned long sets[] = {
    [HWLOC_OBJ_OSDEV_BLOCK] = 1,        [HWLOC_OBJ_OSDEV_GPU] = 4,  [HWLOC_OBJ_OSDEV_NETWORK] = 16,
    [HWLOC_OBJ_OSDEV_OPENFABRICS] = 32, [HWLOC_OBJ_OSDEV_DMA] = 64, [HWLOC_OBJ_OSDEV_COPROC] = 8,
};
_Static_assert(sizeof(union hwloc_obj_attr_u) >= sizeof sets[0], "room for a set");

static struct infos infos;

static void to_sets(hwloc_topology_t topology)
{
    hwloc_obj_t root = hwloc_get_root_obj(topology), device = NULL;

    while ((device = hwloc_get_next_osdev(topology, device)) != NULL) {
        unsigned long set = sets[device->attr->osdev.type];

        memcpy(device->attr, &set, sizeof set);
    }
    infos = (struct infos){.array = root->infos, .count = root->infos_count};
    root->infos_count = 0;
}

static void to_types(hwloc_topology_t topology)
{
    hwloc_obj_t device = NULL;

    while ((device = hwloc_get_next_osdev(topology, device)) != NULL) {
        unsigned long set;

        memcpy(&set, device->attr, sizeof set);
        for (unsigned type = 0; type < sizeof sets / sizeof *sets; type++) {
            if (sets[type] == set) {
                device->attr->osdev.type = (hwloc_obj_osdev_type_t) type;
            }
        }
    }
    hwloc_get_root_obj(topology)->infos_count = infos.count;
    infos.count = 0;
}

int answers_topology_load(hwloc_topology_t topology)
{
    int result = hwloc_topology_load(topology);

    if (result == 0) {
        to_sets(topology);
    }
    return result;
}

void answers_topology_destroy(hwloc_topology_t topology)
{
    if (infos.count > 0) { /* the topology was loaded and has infos */
        hwloc_get_root_obj(topology)->infos_count = infos.count;
        infos.count = 0;
    }
    hwloc_topology_destroy(topology);
}

int answers_topology_export_xml(hwloc_topology_t topology, const char *path, unsigned long flags)
{
    int result;

    to_types(topology);
    result = hwloc_topology_export_xml(topology, path, flags);
    to_sets(topology);
    return result;
}

struct infos *answers_topology_get_infos(hwloc_topology_t topology)
{
    (void) topology;
    return &infos;
}

const char *answers_get_info_by_name(struct infos *all, const char *name)
{
    for (unsigned i = 0; i < all->count; i++) {
        if (strcmp(all->array[i].name, name) == 0) {
            return all->array[i].value;
        }
    }
    return NULL;
}
