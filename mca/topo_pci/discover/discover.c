/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* Discovery: load the topology, then list processors, GPUs, NVLinks and network devices. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/discover/discover_internal.h"
#include "mca/topo_pci/xml/doc.h"

/* Disable backends of hwloc. Its GPU backends initialise drivers, and some create contexts. Its pci
 * backend loads the names of all known PCI devices and never frees them, while the linux backend
 * needs only /sys. */
static void backends_refuse(hwloc_topology_t topology)
{
    static const char *const backends[] = {"cuda", "nvml",      "opencl", "rsmi",
                                           "gl",   "levelzero", "pci"};

    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
        /* This fails for backends that this hwloc does not have, which is harmless. */
        hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                                      backends[i]);
    }
}

/* Return the input that hwloc reads instead of this machine, for messages. */
static const char *input_name(void)
{
    static const char *const variables[] = {"HWLOC_XMLFILE", "HWLOC_SYNTHETIC", "HWLOC_FSROOT"};

    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        if (getenv(variables[i])) {
            return variables[i];
        }
    }
    return NULL;
}

static int topology_load(struct disc *disc)
{
    hwloc_topology_t topology;
    const char *input = input_name();

    if (hwloc_topology_init(&topology) != 0) {
        return -ENOMEM;
    }
    backends_refuse(topology);
    if (hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL) != 0 ||
        hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) != 0 ||
        hwloc_topology_load(topology) != 0) {
        int reason = errno;

        hwloc_topology_destroy(topology);
        return pci_error_set(disc->error, reason == ENOMEM ? -ENOMEM : -EINVAL,
                             "hwloc cannot read %s%s%s: %s%s",
                             input ? input : "the topology of this machine", input ? "=" : "",
                             input ? getenv(input) : "", strerror(reason),
                             input ? "; correct or unset the variable" : "");
    }
    disc->topology = topology;
    return 0;
}

/* Report a file of HWLOC_XMLFILE that hwloc rejects: it then describes this machine without an
 * error. */
static int input_check(const struct disc *disc)
{
    const char *input = input_name();

    if (!input || !hwloc_topology_is_thissystem(disc->topology) || getenv("HWLOC_THISSYSTEM")) {
        return 0;
    }
    if (disc->options->strict) {
        return pci_error_set(disc->error, -EINVAL,
                             "hwloc cannot use %s=%s; correct or unset the variable", input,
                             getenv(input));
    }
    disc_message(disc, "hwloc could not use %s=%s and describes this machine instead", input,
                 getenv(input));
    return 0;
}

/* Find the root of the file system whose /sys belongs to the machine of the topology. */
static void fsroot_find(struct disc *disc)
{
    const char *recorded = getenv("HWLOC_FSROOT");

    disc->live = hwloc_topology_is_thissystem(disc->topology);
    if (disc->live) {
        disc->fsroot = "";
    } else if (recorded && !getenv("HWLOC_XMLFILE") && !getenv("HWLOC_SYNTHETIC")) {
        disc->fsroot = strcmp(recorded, "/") == 0 ? "" : recorded;
    }
}

static int disc_run(struct disc *disc)
{
    int rc = disc_cpus(disc);

    rc = rc ? rc : disc_gpus(disc);
    rc = rc ? rc : disc_nvlinks(disc);
    return rc ? rc : disc_nets(disc);
}

int pci_discover(const struct pci_discover_options *options, struct pci_doc **doc,
                 struct pci_error *error)
{
    static const struct pci_discover_options none;
    struct disc disc = {.options = options ? options : &none, .error = error};
    int rc = topology_load(&disc);

    rc = rc ? rc : pci_doc_new(&disc.doc, error);
    rc = rc ? rc : input_check(&disc);
    if (rc == 0) {
        fsroot_find(&disc);
        pci_gdr_facts_read(disc.fsroot, &disc.gdr);
        rc = disc_run(&disc);
    }
    if (rc == 0) {
        *doc = disc.doc;
    } else {
        pci_doc_free(disc.doc);
    }
    if (disc.topology) {
        hwloc_topology_destroy(disc.topology);
    }
    return rc;
}
