/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* GPUs: those that a driver reports, or all of NVIDIA's display controllers. */

#include <string.h>

#include "mca/topo_pci/discover/discover_internal.h"

enum {
    VENDOR_NVIDIA = 0x10de,
    CLASS_DISPLAY = 0x03, /* PCI base class: display controllers, VGA and 3D */
};

static struct pci_gpu_facts facts_unknown(void)
{
    return (struct pci_gpu_facts){"", -1, -1, -1, -1, -1, -1};
}

static int gpu_add(struct disc *disc, int dev, struct pci_gpu_facts *facts, hwloc_obj_t obj)
{
    const struct pci_discover_hooks *hooks = &disc->options->hooks;
    struct pci_elem *pci, *gpu;
    int sm = facts->sm, rc = disc_pci_element(disc, facts->busid, obj, facts, &pci);

    if (sm < 0 && obj) {
        sm = pci_gpu_sm_of_device(obj->attr->pcidev.device_id);
    }
    if (sm < 0) {
        disc_message(disc,
                     "the compute capability of the GPU at %s is unknown; taken as 8.0 (load the "
                     "NVIDIA driver, or write sm into a topology file)",
                     facts->busid);
        sm = 80;
    }
    if (rc != 0 || pci_elem_child(pci, "gpu")) {
        return rc;
    }
    if (hooks->gdr) {
        hooks->gdr(hooks->gdr_context, facts->busid,
                   facts); /* after a failure, they remain unknown */
    }
    rc = pci_elem_add(disc->doc, pci, "gpu", &gpu);
    rc = rc ? rc : pci_elem_setf(gpu, "dev", "%d", dev);
    rc = rc ? rc : pci_elem_setf(gpu, "sm", "%d", sm);
    return rc ? rc : pci_elem_setf(gpu, "gdr", "%d", pci_gdr_possible(&disc->gdr, facts));
}

/* List the GPUs that the hook reports. Return their number, or a negative code. */
static int gpus_of_driver(struct disc *disc)
{
    const struct pci_discover_hooks *hooks = &disc->options->hooks;
    int count = 0;

    for (unsigned index = 0;; index++) {
        struct pci_gpu_facts facts = facts_unknown();
        int rc = hooks->gpu(hooks->context, index, &facts);

        if (rc <= 0) {
            return count;
        }
        if (disc_busid_normalise(facts.busid, facts.busid) != 0) {
            disc_message(disc, "the driver gives GPU %u the bus id \"%s\", which is none; ignored",
                         index, facts.busid);
            continue;
        }
        rc = gpu_add(disc, count++, &facts, disc_pci_object(disc, facts.busid));
        if (rc != 0) {
            return rc;
        }
    }
}

static int is_gpu(hwloc_obj_t obj)
{
    return obj->attr->pcidev.vendor_id == VENDOR_NVIDIA &&
           obj->attr->pcidev.class_id >> 8 == CLASS_DISPLAY;
}

int disc_gpus(struct disc *disc)
{
    hwloc_obj_t obj = NULL;
    int dev = 0, rc = 0;

    if (disc->options->hooks.gpu) {
        rc = gpus_of_driver(disc);
        return rc < 0 ? rc : 0;
    }
    while (rc == 0 && (obj = hwloc_get_next_pcidev(disc->topology, obj)) != NULL) {
        if (is_gpu(obj)) {
            struct pci_gpu_facts facts = facts_unknown();

            disc_pci_busid(&obj->attr->pcidev, facts.busid);
            rc = gpu_add(disc, dev++, &facts, obj);
        }
    }
    return rc;
}
