/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef GPURING_TOPO_MACHINE_H
#define GPURING_TOPO_MACHINE_H

/* Everything that is known or computed about a machine, for the commands to print. */

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

/* A GPU of the topology that takes no part. */
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
    /* From here on: when there is a GPU, and only after topo_machine_search. */
    struct pci_chosen chosen;       /* GPUs of parts by their numbers in the whole graph */
    struct pci_channels ring, tree; /* of the first part; the arrays are those of chosen */
    struct pci_wire *wires;         /* of all ranks: what they would send to each other */
    struct pci_connect connect;
    struct pci_bounds bounds;
    struct pci_costs costs;
    struct pci_job job;
    bool searched;
    struct topo_times times;
};

/* Reads or discovers the machine and builds its graph.  Returns an exit status, after a message on
 * failure. */
int topo_machine_load(const struct topo_options *options, struct topo_machine *machine);

/* The GPUs of the whole document that take no part.  0 or -ENOMEM. */
int topo_omitted_find(struct topo_machine *machine);
/*
 * Lines of text below what a command prints: that there is no GPU, which GPUs and ports take no
 * part and why, and which speeds are assumed. malloc'ed. 0 or -ENOMEM.
 */
int topo_notes_make(const struct topo_machine *machine, char **text);
/* Why a machine without a GPU has none. */
const char *topo_no_gpu(const struct topo_machine *machine);

/* Searches channels, computes bounds, prepares the cost model. */
int topo_machine_search(struct topo_machine *machine);

/* CPU time of this process. */
double topo_cpu_ms(void);

void topo_machine_free(struct topo_machine *machine);

/* The sizes of --sizes, or 1 KiB to 1 GiB: malloc'ed.  Returns an exit status. */
int topo_sizes_read(const struct topo_options *options, uint64_t **sizes, size_t *count);

/* Rings and trees to draw, equal channels as one line: to be freed in any case.  0 or -ENOMEM. */
struct pci_drawing;
int topo_drawings_make(const struct topo_machine *machine, struct pci_drawing **drawings,
                       size_t *count);
void topo_drawings_free(struct pci_drawing *drawings, size_t count);

/* What machine it is, for people. */
void topo_title(const struct topo_machine *machine, char *title, size_t size);

/* The commands: each writes to OUT and returns an exit status. */
int topo_channels_print(FILE *out, const struct topo_machine *machine);
int topo_predict_print(FILE *out, const struct topo_machine *machine);
int topo_svg_print(FILE *out, const struct topo_machine *machine);
int topo_html_print(FILE *out, const struct topo_machine *machine);
int topo_xml_print(FILE *out, const struct topo_machine *machine);
/* The JSON of a command: the whole report, or the part that the command shows. */
int topo_json_print(FILE *out, const struct topo_machine *machine);
int topo_simulate_print(FILE *out, const struct topo_machine *machine);

#endif
