/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Constants from measurements. The model is linear in its unknowns,
 *     us = base + sum over kinds k of hops(k) x hop(k) + (bytes / link bandwidth) x 1/factor,
 * so that the relative errors' squares are minimised by normal equations of at most five unknowns.
 * An unknown that comes out negative does not show in the samples: it is set to zero and the others
 * are solved again. When the numbers of hops do not determine base and hop, the latency in the
 * table is scaled as a whole.
 */
#include "mca/topo_pci/predict/pci_predict.h"
#include "mca/topo_pci/predict/predict.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define FIT_BASE     0
#define FIT_HOP(k)   (1 + (k))
#define FIT_TRANSFER (1 + PCI_HOP_COUNT)
#define FIT_UNKNOWNS (2 + PCI_HOP_COUNT)
#define FIT_SAMPLES  3u    /* the least that are accepted */
#define FIT_SINGULAR 1e-9  /* pivots below this part of the largest one count as zero */
#define FIT_NO_SPEED 1e-12 /* 1/factor below this: time does not grow with size */

struct fit_system {
    double matrix[FIT_UNKNOWNS][FIT_UNKNOWNS];
    double right[FIT_UNKNOWNS];
    double solution[FIT_UNKNOWNS];
    bool used[FIT_UNKNOWNS];
};

/* What is fitted: one algorithm and protocol, of one of the two formulas. */
struct fit_pair {
    const struct pci_costs *costs;
    enum pci_algorithm algorithm;
    enum pci_protocol protocol;
    bool blocks; /* the executor's */
};

static bool sample_counts(const struct fit_pair *pair, const struct pci_sample *sample)
{
    bool blocks = pci_block_models(pair->costs, sample->job);

    return sample->algorithm == pair->algorithm && sample->protocol == pair->protocol &&
           sample->us > 0 && isfinite(sample->us) && blocks == pair->blocks &&
           pci_job_offers(sample->job, pair->algorithm) &&
           (blocks || pci_job_link_bw(sample->job, pair->algorithm) > 0);
}

/* With the executor modelled, the unknowns are the scales of the parts: what surrounds the steps is
 * in the place of the base, the steps in that of a hop, the data in that of the transfer. */
#define FIT_STEPS FIT_HOP(0)

static bool parts_row(const struct pci_costs *costs, const struct pci_sample *sample, double *row)
{
    const double *scale = costs->scale[sample->algorithm][sample->protocol];
    struct pci_job job = *sample->job;
    struct pci_parts parts;

    job.protocols = 1u << sample->protocol;
    memset(row, 0, FIT_UNKNOWNS * sizeof(*row));
    if (!pci_predict_parts(costs, &job, sample->algorithm, sample->protocol, sample->bytes,
                           &parts)) {
        return false;
    }
    for (int p = 0; p < PCI_PART_COUNT; p++) {
        double us = scale[p] > 0 ? parts.us[p] / scale[p] : 0;

        row[PCI_PART_STEPS == p ? FIT_STEPS : PCI_PART_DATA == p ? FIT_TRANSFER : FIT_BASE] += us;
    }
    return true;
}

/* The coefficients of one sample's unknowns. */
static void sample_row(const struct pci_costs *costs, const struct pci_sample *sample, double *row)
{
    const struct pci_job *job = sample->job;
    struct pci_path_hops hops = pci_job_hops(job, sample->algorithm);
    double bw = pci_job_link_bw(job, sample->algorithm);

    if (PCI_ALGORITHM_TREE == sample->algorithm && job->tree.chain) {
        bw *= costs->chain_tree[pci_job_span(job)];
    }
    if (parts_row(costs, sample, row)) {
        return;
    }
    row[FIT_BASE] = 1;
    row[FIT_HOP(hops.kind)] = hops.intra;
    row[FIT_HOP(PCI_HOP_NET)] = hops.inter;
    row[FIT_TRANSFER] = (double) sample->bytes / (bw * PCI_BYTES_PER_US);
}

/* In the table's proportions: fold base and hops into the first unknown. */
static void fold_latency(const struct fit_pair *pair, double *row)
{
    const struct pci_costs *costs = pair->costs;
    enum pci_algorithm a = pair->algorithm;
    enum pci_protocol p = pair->protocol;
    const double *scale = costs->scale[a][p];

    if (pair->blocks) {
        row[FIT_BASE] =
            row[FIT_BASE] * scale[PCI_PART_LAUNCH] + row[FIT_STEPS] * scale[PCI_PART_STEPS];
        row[FIT_STEPS] = 0;
        return;
    }
    row[FIT_BASE] = costs->base[a][p];
    for (int k = 0; k < PCI_HOP_COUNT; k++) {
        row[FIT_BASE] += row[FIT_HOP(k)] * costs->hop[a][p][k];
        row[FIT_HOP(k)] = 0;
    }
}

static void system_add(struct fit_system *system, const double *row, double us)
{
    for (int i = 0; i < FIT_UNKNOWNS; i++) {
        for (int j = 0; j < FIT_UNKNOWNS; j++) {
            system->matrix[i][j] += row[i] * row[j] / (us * us);
        }
        system->right[i] += row[i] / us;
        system->used[i] = system->used[i] || row[i] > 0;
    }
}

static void swap_rows(double (*m)[FIT_UNKNOWNS], double *right, int a, int b)
{
    double keep_right;

    for (int j = 0; j < FIT_UNKNOWNS; j++) {
        double keep = m[a][j];

        m[a][j] = m[b][j];
        m[b][j] = keep;
    }
    keep_right = right[a];
    right[a] = right[b];
    right[b] = keep_right;
}

/* Gauss-Jordan with scaling to a unit diagonal; unused unknowns are 0. False: singular. */
static bool system_solve(struct fit_system *system)
{
    double m[FIT_UNKNOWNS][FIT_UNKNOWNS], right[FIT_UNKNOWNS], scale[FIT_UNKNOWNS];

    for (int i = 0; i < FIT_UNKNOWNS; i++) {
        scale[i] = system->used[i] ? 1 / sqrt(system->matrix[i][i]) : 0;
    }
    for (int i = 0; i < FIT_UNKNOWNS; i++) {
        for (int j = 0; j < FIT_UNKNOWNS; j++) {
            m[i][j] = system->used[i] && system->used[j]
                          ? system->matrix[i][j] * scale[i] * scale[j]
                          : (double) (i == j);
        }
        right[i] = system->used[i] ? system->right[i] * scale[i] : 0;
    }
    for (int c = 0; c < FIT_UNKNOWNS; c++) {
        int best = c;

        for (int i = c + 1; i < FIT_UNKNOWNS; i++) {
            best = fabs(m[i][c]) > fabs(m[best][c]) ? i : best;
        }
        if (fabs(m[best][c]) < FIT_SINGULAR) {
            return false;
        }
        if (best != c) {
            swap_rows(m, right, best, c);
        }
        for (int i = 0; i < FIT_UNKNOWNS; i++) {
            double times = i == c ? 0 : m[i][c] / m[c][c];

            for (int j = c; j < FIT_UNKNOWNS; j++) {
                m[i][j] -= times * m[c][j];
            }
            right[i] -= times * right[c];
        }
    }
    for (int i = 0; i < FIT_UNKNOWNS; i++) {
        system->solution[i] = right[i] / m[i][i] * scale[i];
    }
    return true;
}

/* Solve, without the unknowns that would be negative. */
static bool system_solve_positive(struct fit_system *system)
{
    for (;;) {
        int worst = 0;

        if (!system_solve(system)) {
            return false;
        }
        for (int i = 1; i < FIT_UNKNOWNS; i++) {
            worst = system->solution[i] < system->solution[worst] ? i : worst;
        }
        if (system->solution[worst] >= 0) {
            return true;
        }
        system->used[worst] = false;
    }
}

static void system_fill(struct fit_system *system, const struct fit_pair *pair,
                        const struct pci_sample *samples, size_t count, bool fold)
{
    memset(system, 0, sizeof(*system));
    for (size_t i = 0; i < count; i++) {
        double row[FIT_UNKNOWNS];

        if (!sample_counts(pair, &samples[i])) {
            continue;
        }
        sample_row(pair->costs, &samples[i], row);
        if (fold) {
            fold_latency(pair, row);
        }
        system_add(system, row, samples[i].us);
    }
}

/* The same for scales. */
static void apply_scales(double *scale, const struct fit_system *system, bool fold)
{
    const double *x = system->solution;

    for (int p = 0; p < PCI_PART_COUNT; p++) {
        if (PCI_PART_DATA == p) {
            scale[p] = x[FIT_TRANSFER];
        } else if (fold) {
            scale[p] *= x[FIT_BASE];
        } else {
            scale[p] = x[PCI_PART_STEPS == p ? FIT_STEPS : FIT_BASE];
        }
    }
}

/* Write a solution into the table; the single factor replaces all limits. */
static void apply(struct pci_costs *costs, enum pci_algorithm a, enum pci_protocol p,
                  const struct fit_system *system, bool fold)
{
    const double *x = system->solution;

    costs->base[a][p] = fold ? costs->base[a][p] * x[FIT_BASE] : x[FIT_BASE];
    for (int k = 0; k < PCI_HOP_COUNT; k++) {
        if (fold) {
            costs->hop[a][p][k] *= x[FIT_BASE];
        } else if (system->matrix[FIT_HOP(k)][FIT_HOP(k)] > 0) {
            costs->hop[a][p][k] = x[FIT_HOP(k)];
        }
    }
    for (int s = 0; s < PCI_SPAN_COUNT; s++) {
        costs->factor[a][p][s] = 1 / x[FIT_TRANSFER];
    }
    memset(costs->cap[a][p], 0, sizeof(costs->cap[a][p]));
    memset(costs->net_cap[a][p], 0, sizeof(costs->net_cap[a][p]));
    memset(costs->channel_cap[a][p], 0, sizeof(costs->channel_cap[a][p]));
    for (int l = 0; l < PCI_SIZE_COUNT; l++) {
        costs->correction[a][p][l] = 1;
    }
}

/* A ring's extra terms between nodes are not part of the linear model: the hops fitted contain
 * them. */
static void drop_ring_terms(struct pci_costs *costs, enum pci_protocol p)
{
    memset(costs->net_hop[p], 0, sizeof(costs->net_hop[p]));
    if (PCI_PROTOCOL_SIMPLE == p) {
        for (int g = 0; g < PCI_GENERATION_COUNT; g++) {
            costs->plateau[g] = 1;
        }
    }
}

static double rms_error(const struct fit_pair *pair, const struct pci_costs *costs,
                        const struct pci_sample *samples, size_t count)
{
    double sum = 0;
    uint32_t used = 0;

    for (size_t i = 0; i < count; i++) {
        struct pci_job job;

        if (sample_counts(pair, &samples[i])) {
            double error;

            job = *samples[i].job;
            job.protocols = 1u << pair->protocol;
            error = pci_predict_us(costs, &job, pair->algorithm, pair->protocol, samples[i].bytes) /
                        samples[i].us -
                    1;
            sum += error * error;
            used++;
        }
    }
    return used > 0 ? sqrt(sum / used) : 0;
}

/* How many samples count, and whether they are of several nodes. */
static uint32_t count_samples(const struct fit_pair *pair, const struct pci_sample *samples,
                              size_t count, bool *net)
{
    uint32_t used = 0;

    *net = false;
    for (size_t i = 0; i < count; i++) {
        if (sample_counts(pair, &samples[i])) {
            used++;
            *net = *net || samples[i].job->nodes > 1;
        }
    }
    return used;
}

int pci_costs_fit(struct pci_costs *costs, enum pci_algorithm algorithm, enum pci_protocol protocol,
                  const struct pci_sample *samples, size_t count, struct pci_fit *fit)
{
    struct fit_pair pair = {.costs = costs, .algorithm = algorithm, .protocol = protocol};
    struct pci_costs fitted = *costs;
    struct fit_system system;
    struct pci_fit result = {.hops = true};
    bool net;

    result.samples = count_samples(&pair, samples, count, &net);
    if (0 == result.samples) {
        pair.blocks = true;
        result.samples = count_samples(&pair, samples, count, &net);
    }
    if (result.samples < FIT_SAMPLES) {
        return -ENODATA;
    }
    result.before = rms_error(&pair, costs, samples, count);
    system_fill(&system, &pair, samples, count, false);
    if (!system_solve_positive(&system)) {
        result.hops = false;
        system_fill(&system, &pair, samples, count, true);
        if (!system_solve_positive(&system)) {
            return -EDOM;
        }
    }
    if (system.solution[FIT_TRANSFER] < FIT_NO_SPEED) {
        return -EDOM;
    }
    if (pair.blocks) {
        apply_scales(fitted.scale[algorithm][protocol], &system, !result.hops);
    } else {
        apply(&fitted, algorithm, protocol, &system, !result.hops);
    }
    if (!pair.blocks && PCI_ALGORITHM_RING == algorithm && net) {
        drop_ring_terms(&fitted, protocol);
    }
    result.error = rms_error(&pair, &fitted, samples, count);
    *costs = fitted;
    *fit = result;
    return 0;
}
