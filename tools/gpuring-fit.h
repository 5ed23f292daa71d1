/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Parts of the tool gpuring-fit: options, jobs (what the links can do for so many ranks), and
 * samples (measured calls, read from JSON).
 */
#ifndef GPURING_FIT_H
#define GPURING_FIT_H

#include <stddef.h>
#include <stdint.h>

#include "mca/topo_pci/predict/pci_predict.h"

struct fit_options {
    const char *topo;   /* a topology file, or NULL */
    double bandwidth;   /* GB/s of one channel, instead of a topology; 0: none */
    uint32_t nodes;     /* that all results were measured on */
    int protocol;       /* of results that do not say it; -1: leave such out */
    const char *model;  /* constants to begin with, or NULL */
    const char *output; /* NULL: standard output */
    char **files;       /* results */
    int nfiles;
};

/* A job that samples refer to; never moved once made. */
struct fit_job {
    struct pci_job job;
    struct fit_job *next;
};

struct fit_data {
    const struct fit_options *options;
    struct fit_job *jobs;
    struct pci_sample *samples;
    size_t nsamples, room;
    size_t skipped; /* results that say nothing: fallbacks, mixtures, too many ranks */
};

/* A message on standard error: "gpuring-fit: ...". */
void fit_message(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* gpuring-fit-jobs.c: the job of a collective of so many ranks on so many nodes, made when first
 * asked for; *job is NULL when the machine has too few GPUs. 0 or a negative errno value, with a
 * message. */
int fit_job_find(struct fit_data *data, enum pci_collective collective, uint32_t nodes,
                 uint32_t ranks, const struct pci_job **job);
void fit_jobs_free(struct fit_data *data);

/* gpuring-fit-samples.c: add the results of a file. 0 or a negative errno value, with a message. */
int fit_samples_read(struct fit_data *data, const char *path);

#endif
