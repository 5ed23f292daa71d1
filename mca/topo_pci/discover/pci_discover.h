/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef TOPO_PCI_DISCOVER_PCI_DISCOVER_H
#define TOPO_PCI_DISCOVER_PCI_DISCOVER_H

/*
 * Discovery of this machine: the same document that a topology file gives (pci_doc.h).
 *
 *   - What is found: NUMA nodes with processors (cpu), PCI switches (pci), NVIDIA GPUs (gpu) with
 *     their NVLinks (nvlink), verbs devices with an active port, or IP interfaces where there is
 *     none (nic, net).
 *   - Sources: hwloc for the tree (and with it HWLOC_XMLFILE, HWLOC_SYNTHETIC and HWLOC_FSROOT),
 * /sys for what hwloc does not report (maximum link speed, port rates, GUIDs), hooks for what only
 * a driver knows (pci_driver.h).
 *   - What is hidden: a container may lack parts of /sys. What is not visible is left out, what has
 * no known NUMA node goes to the first one, and a message says so.
 *   - PCI switches: one pci element a switch, named by its upstream port; root ports and downstream
 *     ports are left out. That is how NCCL writes its files.
 *
 * The caller frees the document; hooks and strings stay the caller's. Reentrant.
 * Returns 0, -EINVAL (an input that hwloc cannot read; the message names it), -ENOMEM.
 */

#include <stdarg.h>
#include <stddef.h>

#include "mca/topo_pci/graph/pcigraph.h"

/* "0000:3b:00.0", or with a long domain "10000:00:00.0", and the end. */
#define PCI_BUSID_SIZE 20

/* What a driver reports about one GPU; -1 (or an empty text): unknown. */
struct pci_gpu_facts {
    char busid[PCI_BUSID_SIZE];
    int sm;         /* 10 x major + minor of the compute capability */
    int gdr;        /* 1: the driver says that GPUDirect RDMA is supported */
    int dmabuf;     /* 1: memory can be exported as dma-buf */
    int numa;       /* NUMA node */
    int link_gen;   /* highest PCIe generation of the link, 1 .. 6 */
    int link_width; /* most lanes of the link */
};

/* The far end of an NVLink. */
struct pci_nvlink_facts {
    char target[PCI_BUSID_SIZE];
    const char *class; /* PCI class, as NCCL's files name it; NULL: unknown */
};

/* Classes of what NVLinks lead to. */
#define PCI_NVLINK_GPU    "0x030200"
#define PCI_NVLINK_SWITCH "0x068000"
#define PCI_NVLINK_CPU    "0x068001"

/* Chip-to-chip links between a GPU and the processor that it is one package with. */
struct pci_c2c_facts {
    unsigned count;  /* active links */
    unsigned mbytes; /* bandwidth of each, MB/s */
};

/*
 * Questions to a driver.  Each may be NULL.  Answers: 1 yes or present, 0 no or past the end,
 * negative: the driver failed (the hook has reported it; discovery goes on without).
 */
struct pci_discover_hooks {
    void *context;
    /* The INDEX-th GPU, from 0.  When there is such a hook, only the GPUs that it reports are
     * listed. */
    int (*gpu)(void *context, unsigned index, struct pci_gpu_facts *facts);
    /* The INDEX-th active NVLink, from 0, of the GPU at BUSID. */
    int (*nvlink)(void *context, const char *busid, unsigned index, struct pci_nvlink_facts *facts);
    /* Whether GPU A may read and write GPU B directly; -1: unknown. */
    int (*p2p)(void *context, const char *a, const char *b);
    /* The chip-to-chip links of the GPU at BUSID. */
    int (*c2c)(void *context, const char *busid, struct pci_c2c_facts *facts);
    /* Sets gdr and dmabuf of the facts of the GPU at BUSID; see pci_driver.h. */
    void *gdr_context;
    int (*gdr)(void *gdr_context, const char *busid, struct pci_gpu_facts *facts);
};

struct pci_discover_options {
    struct pci_discover_hooks hooks;
    /* Called with one line for each thing that is missing; NULL: silent. */
    void (*message)(void *context, const char *text);
    void *message_context;
    /* An input that hwloc was given by its variables but cannot use is an error (-EINVAL), not a
     * message. */
    bool strict;
};

/* Discovers.  OPTIONS may be NULL. */
int pci_discover(const struct pci_discover_options *options, struct pci_doc **doc,
                 struct pci_error *error);

/*
 * Whether GPUDirect RDMA can work here, from what is visible.  A pure function over its facts; fill
 * them with pci_gdr_facts_read.
 */
struct pci_gdr_facts {
    int peermem;       /* a peer memory module is loaded (nvidia_peermem, nv_peer_mem) */
    int kernel_dmabuf; /* the kernel registers dma-buf memory for RDMA (5.12 and later) */
};

void pci_gdr_facts_read(const char *fsroot, struct pci_gdr_facts *facts);
int pci_gdr_possible(const struct pci_gdr_facts *system, const struct pci_gpu_facts *gpu);

/* The compute capability of NVIDIA's PCI device DEVICE_ID by the family its number belongs to, or
 * -1. */
int pci_gpu_sm_of_device(unsigned device_id);

/*
 * Link speed in the words of the kernel and the number of lanes, from a bandwidth in GB/s as hwloc
 * reports it (lanes x rate after line coding).  Returns 0, or -1 for no such link.
 */
struct pci_link_facts {
    const char *speed; /* "16.0 GT/s PCIe"; "" unknown */
    int width;         /* 0 unknown */
};
int pci_link_of_bandwidth(double gbytes_per_second, struct pci_link_facts *link);

/* The link of a PCIe generation (1 .. 6), or "" for another number. */
const char *pci_link_speed_of_generation(int generation);

#endif
