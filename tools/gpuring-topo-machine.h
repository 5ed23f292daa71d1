/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef GPURING_TOPO_MACHINE_H
#define GPURING_TOPO_MACHINE_H

/* The data about a machine that the commands print. */

#include <stdbool.h>

#include "gpuring-topo.h"
#include "mca/topo_pci/bounds/pci_bound.h"
#include "mca/topo_pci/discover/pci_driver.h"
#include "mca/topo_pci/graph/pcigraph.h"
#include "mca/topo_pci/predict/pci_predict.h"
#include "mca/topo_pci/search/pci_channels.h"
#include "mca/topo_pci/search/pci_connect.h"

/* CPU milliseconds of the phases. */
struct topo_times {
    double build;
    double paths;
    double search;
    double bounds;
    double connect;
};

/* A GPU of the topology that is not used. */
struct topo_omitted {
    char busid[32];
    long dev, rank; /* rank -1: none */
    const char *reason;
};

struct topo_machine {
    const struct topo_options *options;
    char name[256]; /* of the file without folder and ".xml", or of the host */
    struct pci_nvml *nvml;
    struct pci_cuda *cuda; /* NULL: no driver */
    struct pci_doc *doc;
    struct pci_graph *graph;
    uint32_t gpus;
    struct topo_omitted *omitted;
    size_t nomitted;
    char *notes; /* see topo_notes_make; or "" */
    /* The rest is valid after topo_machine_search, if there is a GPU. */
    struct pci_chosen chosen;       /* with the GPUs' numbers in the whole graph */
    struct pci_channels ring, tree; /* of the first part; they share the arrays of chosen */
    struct pci_wire *wires;         /* data that the ranks would send to each other */
    struct pci_connect connect;
    struct pci_bounds bounds;
    struct pci_costs costs;
    struct pci_job job;
    bool searched;
    struct topo_times times;
};

/* Read or discover the machine and build its graph. Return an exit status, after a message on
 * failure. */
int topo_machine_load(const struct topo_options *options, struct topo_machine *machine);

/* Find the GPUs of the whole document that are not used. Return 0 or -ENOMEM. */
int topo_omitted_find(struct topo_machine *machine);
/*
 * Write the notes after the output of a command: no GPU, unused GPUs and ports with the reason, and
 * assumed speeds. The text is malloc'ed. Return 0 or -ENOMEM.
 */
int topo_notes_make(const struct topo_machine *machine, char **text);
/* Return the reason why a machine has no GPU. */
const char *topo_no_gpu(const struct topo_machine *machine);

/* Search for channels, compute bounds, and prepare the cost model. */
int topo_machine_search(struct topo_machine *machine);

/* Return the CPU time of this process in milliseconds. */
double topo_cpu_ms(void);

void topo_machine_free(struct topo_machine *machine);

/* Read the sizes of --sizes, or 1 KiB to 1 GiB. The array is malloc'ed. Return an exit status. */
int topo_sizes_read(const struct topo_options *options, uint64_t **sizes, size_t *count);

/* A combination of algorithm and protocol. */
struct topo_way {
    enum pci_algorithm algorithm;
    enum pci_protocol protocol;
    char label[32]; /* "Ring/LL" */
};
#define TOPO_WAYS_MAX (PCI_ALGORITHM_COUNT * PCI_PROTOCOL_COUNT)

/* List the combinations that the job offers. Return their number. */
size_t topo_ways(const struct topo_machine *machine, struct topo_way ways[TOPO_WAYS_MAX]);
double topo_way_us(const struct topo_machine *machine, const struct topo_way *way, uint64_t bytes);

/* The predicted best way of a size. */
struct topo_best {
    struct pci_choice choice;
    char label[32];
    double gbps, bus_gbps;
};
bool topo_best_find(const struct topo_machine *machine, uint64_t bytes, struct topo_best *best);

/* Write the number, bandwidth and path class of channels, inside a node and between nodes. */
void topo_channels_title(const struct topo_machine *machine, const char *name,
                         const struct pci_channels *set, char *title, size_t size);

/* Create the drawings of rings and trees, with equal channels as one line. Free them even after an
 * error. Return 0 or -ENOMEM. */
struct pci_drawing;
int topo_drawings_make(const struct topo_machine *machine, struct pci_drawing **drawings,
                       size_t *count);
void topo_drawings_free(struct pci_drawing *drawings, size_t count);

/* Write a title that describes the machine. */
void topo_title(const struct topo_machine *machine, char *title, size_t size);

/* The commands. Each writes to OUT and returns an exit status. */
int topo_channels_print(FILE *out, const struct topo_machine *machine);
int topo_predict_print(FILE *out, const struct topo_machine *machine);
int topo_svg_print(FILE *out, const struct topo_machine *machine);
int topo_html_print(FILE *out, const struct topo_machine *machine);
int topo_xml_print(FILE *out, const struct topo_machine *machine);
int topo_json_print(FILE *out, const struct topo_machine *machine);
int topo_simulate_print(FILE *out, const struct topo_machine *machine);

#endif
