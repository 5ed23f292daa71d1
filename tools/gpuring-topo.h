/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef GPURING_TOPO_H
#define GPURING_TOPO_H

/* Shared by the files of the tool gpuring-topo. */

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Name, one line of help. */
#define TOPO_COMMANDS(X)                                                             \
    X(show, "the machine as a tree: CPUs, switches, GPUs, NICs and their links")     \
    X(matrix, "how each pair of GPUs and NICs is connected, as nvidia-smi topo -m")  \
    X(channels, "the rings and trees, with their bandwidth and its bounds")          \
    X(predict, "microseconds of a collective by size, algorithm and protocol")       \
    X(simulate, "cost of starting a job for one rank: time, bytes gathered, memory") \
    X(report, "machine, paths, channels, bounds and predictions as JSON")            \
    X(svg, "a picture of the machine with its links, rings and trees")               \
    X(html, "a page for a browser: picture, matrix, channels and predicted curves")  \
    X(xml, "the topology in NCCL's file format")

enum topo_command {
#define COMMAND(NAME, HELP) TOPO_##NAME,
    TOPO_COMMANDS(COMMAND)
#undef COMMAND
        TOPO_COMMAND_COUNT
};

/* The command line. */
struct topo_options {
    enum topo_command command;
    const char *topo;   /* a topology file; NULL: this machine */
    const char *output; /* NULL: standard output */
    const char *model;  /* a table of cost model constants, or NULL */
    const char *sizes;  /* for predict, or NULL */
    int collective;     /* enum pci_collective, for predict */
    unsigned sharing;   /* for predict: ranks on each GPU */
    bool mapped;        /* for predict: two-shot works on mapped buffers */
    const char *graph;  /* for simulate: file for the channels, or NULL */
    bool containers;    /* for simulate: each rank sees only its own GPU */
    int p2p_level;      /* a path class, -1: the default */
    int gdr_level;
    unsigned nodes;
    bool nodes_given;
    int p2p; /* 1 ok, 0 no, -1: query the driver */
    bool verbose;
    unsigned *gpus; /* ranks in the document; NULL: all */
    size_t ngpus;
};

/* Exit statuses. */
enum {
    TOPO_EXIT_OK = 0,
    TOPO_EXIT_FAILURE = 1, /* the machine, a file or the output: see the message */
    TOPO_EXIT_USAGE = 2,   /* the command line */
};

/* Read the command line. Return 0 to continue, -1 to exit with success (--help), or the exit status
 * after an error. */
int topo_options_read(int argc, char **argv, struct topo_options *options);
void topo_options_free(struct topo_options *options);

/* Print a message to standard error: "gpuring-topo: ...". */
void topo_message(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
