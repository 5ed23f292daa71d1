/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef TOPO_PCI_DISCOVER_PCI_DISCOVER_H
#define TOPO_PCI_DISCOVER_PCI_DISCOVER_H

/*
 * Discovery of this machine. The result is a document like that of a topology file (pci_doc.h).
 *
 *   - Contents: NUMA nodes with processors (cpu), PCI switches (pci), NVIDIA GPUs (gpu) with their
 *     NVLinks (nvlink), and verbs devices with an active port, or IP interfaces if there is none
 *     (nic, net).
 *   - Sources: hwloc for the tree (including HWLOC_XMLFILE, HWLOC_SYNTHETIC and HWLOC_FSROOT), /sys
 *     for data that hwloc does not report (maximum link speed, port rates, GUIDs), and hooks for
 * data that only a driver has (pci_driver.h).
 *   - Hidden parts: a container may hide parts of /sys. Invisible devices are omitted, and devices
 *     with an unknown NUMA node are placed in the first one. A message reports this.
 *   - PCI switches: one pci element per switch, with the bus ID of its upstream port. Root ports
 * and downstream ports are omitted, as in NCCL's files.
 *
 * The caller frees the document. Hooks and strings remain the caller's. Reentrant.
 * Returns 0, -EINVAL (hwloc cannot read its input, which the message names) or -ENOMEM.
 */

#include <stdarg.h>
#include <stddef.h>

#include "mca/topo_pci/graph/pcigraph.h"

/* "0000:3b:00.0", or "10000:00:00.0" with a long domain, and the NUL. */
#define PCI_BUSID_SIZE 20

/* A driver's information about a GPU. -1, or an empty text: unknown. */
struct pci_gpu_facts {
    char busid[PCI_BUSID_SIZE];
    int sm;         /* 10 x major + minor of the compute capability */
    int gdr;        /* 1: the driver supports GPUDirect RDMA */
    int dmabuf;     /* 1: memory can be exported as dma-buf */
    int numa;       /* NUMA node */
    int link_gen;   /* highest PCIe generation of the link, 1 .. 6 */
    int link_width; /* maximum lanes of the link */
};

/* The far end of an NVLink. */
struct pci_nvlink_facts {
    char target[PCI_BUSID_SIZE];
    const char *class; /* PCI class in the form of NCCL's files; NULL: unknown */
};

/* Classes of the far ends of NVLinks. */
#define PCI_NVLINK_GPU    "0x030200"
#define PCI_NVLINK_SWITCH "0x068000"
#define PCI_NVLINK_CPU    "0x068001"

/* Chip-to-chip links between a GPU and the processor in the same package. */
struct pci_c2c_facts {
    unsigned count;  /* active links */
    unsigned mbytes; /* bandwidth of each, MB/s */
};

/*
 * Queries to a driver. Each may be NULL. They return 1 (yes, or present), 0 (no, or past the end)
 * or a negative value if the driver failed. The hook has then reported the failure, and discovery
 * continues without the information.
 */
struct pci_discover_hooks {
    void *context;
    /* Get the GPU with this INDEX, from 0. If there is such a hook, discovery only lists the GPUs
     * that it reports. */
    int (*gpu)(void *context, unsigned index, struct pci_gpu_facts *facts);
    /* Get the active NVLink with this INDEX, from 0, of the GPU at BUSID. */
    int (*nvlink)(void *context, const char *busid, unsigned index, struct pci_nvlink_facts *facts);
    /* Return whether GPU A may read and write memory of GPU B directly; -1: unknown. */
    int (*p2p)(void *context, const char *a, const char *b);
    /* Get the chip-to-chip links of the GPU at BUSID. */
    int (*c2c)(void *context, const char *busid, struct pci_c2c_facts *facts);
    /* Set gdr and dmabuf in the facts of the GPU at BUSID; see pci_driver.h. */
    void *gdr_context;
    int (*gdr)(void *gdr_context, const char *busid, struct pci_gpu_facts *facts);
};

struct pci_discover_options {
    struct pci_discover_hooks hooks;
    /* Called with one line for each missing piece of information; NULL: silent. */
    void (*message)(void *context, const char *text);
    void *message_context;
    /* If hwloc cannot use the input of its variables, return -EINVAL instead of only a message. */
    bool strict;
};

/* Discover the machine. OPTIONS may be NULL. */
int pci_discover(const struct pci_discover_options *options, struct pci_doc **doc,
                 struct pci_error *error);

/*
 * Visible facts about GPUDirect RDMA on this system, filled by pci_gdr_facts_read. pci_gdr_possible
 * is a pure function of them.
 */
struct pci_gdr_facts {
    int peermem;       /* a peer memory module is loaded (nvidia_peermem, nv_peer_mem) */
    int kernel_dmabuf; /* the kernel registers dma-buf memory for RDMA (5.12 and later) */
};

void pci_gdr_facts_read(const char *fsroot, struct pci_gdr_facts *facts);
int pci_gdr_possible(const struct pci_gdr_facts *system, const struct pci_gpu_facts *gpu);

/* Return the compute capability of NVIDIA's PCI device DEVICE_ID according to its family, or -1. */
int pci_gpu_sm_of_device(unsigned device_id);

/*
 * Find the link speed (in the kernel's words) and the number of lanes from hwloc's bandwidth in
 * GB/s (lanes x rate after line coding). Return 0, or -1 if there is no such link.
 */
struct pci_link_facts {
    const char *speed; /* "16.0 GT/s PCIe"; "": unknown */
    int width;         /* 0: unknown */
};
int pci_link_of_bandwidth(double gbytes_per_second, struct pci_link_facts *link);

/* Return the link speed of a PCIe generation (1 .. 6), or "" for another number. */
const char *pci_link_speed_of_generation(int generation);

#endif
