/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The built-in constants, in the format of table files.
 *
 * Reference table. Source: the formula and these figures were derived from the allreduce times that
 * NCCL 2.30.7's model gives for eleven machines of one to four nodes (doc/cost-model.md explains
 * the derivation, and the tests check each of those times). Limits that those machines do not reach
 * are the per-channel figures that NCCL publishes for its kernels. Direct and two-shot are patterns
 * of this project. Direct has the constants of a ring. Two-shot has those of a tree, because its
 * kernels do the same work per hop as a tree with one hop.
 */
#include "mca/topo_pci/predict/pci_predict.h"

#include <string.h>

static const char reference_table[] =
    "base ring,direct * 8.4 6.6 14\n"
    "base tree,two-shot * 8.4 6.8 14\n"

    "hop ring,direct simple * 3.4 5.7 14\n"
    "hop ring,direct ll * 0.6 1 2.7\n"
    "hop ring,direct ll128 * 1.9 2.5 4\n"
    "hop tree,two-shot simple * 4 4 14\n"
    "hop tree,two-shot ll * 0.6 1 5\n"
    "hop tree,two-shot ll128 * 1.25 1.9 8.5\n"
    "net_hop simple * 3 6 3\n"
    "net_hop ll,ll128 * 1 2 1\n"
    "plateau * 1.9 1.4 1.4 1.4\n"
    "chain_tree * 1 0.85 0.85\n"

    /* LL sends a flag with each word, and LL128 sends 120 bytes of data in 128. Trees use 0.92 of
     * the links with Simple, 1/3.8 of that with LL, and 7/9 (one node) or 120/128 of it with LL128.
     */
    "factor ring,direct simple * 1\n"
    "factor ring,direct ll * 0.5\n"
    "factor ring,direct ll128 * 0.92\n"
    "factor tree,two-shot simple * 0.92\n"
    "factor tree,two-shot ll * 0.2421052632\n"
    "factor tree,two-shot ll128 * 0.7155555556 0.8625 0.8625\n"

    /* Limits of LL for all channels: by generation on one node, by host processor on several. */
    "cap * ll * 39 87.7 141 282\n"
    "net_cap * ll intel,other * 0 39 20.4\n"
    "net_cap * ll amd * 0 22.5 19\n"

    "channel_cap ring ll128 sm70,sm80 * 20\n"
    "channel_cap ring ll128 sm90 * 36.7\n"
    "channel_cap ring ll128 sm100 * 40\n"
    "channel_cap tree simple sm70 * 26.5 18.5 10\n"
    "channel_cap tree simple sm80 * 24 23.6 17.8\n"
    "channel_cap tree simple sm90 * 38.7 41.4 36\n"
    "channel_cap tree simple sm100 * 70 42.8 24\n"
    /* The same divided by 3.8. */
    "channel_cap tree ll sm70 * 6.973684 4.868421 2.631579\n"
    "channel_cap tree ll sm80 * 6.315789 6.210526 4.684211\n"
    "channel_cap tree ll sm90 * 10.184211 10.894737 9.473684\n"
    "channel_cap tree ll sm100 * 18.421053 11.263158 6.315789\n"
    /* The same x 7/9 or 120/128, limited to the bandwidth of an LL128 kernel. */
    "channel_cap tree ll128 sm70 * 20 17.34375 9.375\n"
    "channel_cap tree ll128 sm80 * 18.666667 20 16.6875\n"
    "channel_cap tree ll128 sm90 * 30.1 36.7 29\n"
    "channel_cap tree ll128 sm100 * 54.444444 31.67 20\n"

    /* Share of the bandwidth that is reached at 2^n bytes. A tree only fills its pipeline at large
     * sizes. */
    "correction * * * 1\n"
    "correction tree,two-shot simple 0-12 0.9\n"
    "correction tree,two-shot simple 13-28"
    " 0.8 0.7 0.6 0.6 0.5 0.5 0.5 0.5 0.6 0.7 0.8 0.7 0.7 0.8 0.9 0.9\n"
    "correction tree,two-shot ll 10-24"
    " 0.9 0.8 0.7 0.7 0.7 0.7 0.6 0.5 0.4 0.4 0.5 0.6 0.7 0.8 0.9\n"
    "correction tree,two-shot ll128 11-26"
    " 0.9 0.8 0.8 0.8 0.7 0.6 0.6 0.6 0.6 0.6 0.6 0.8 0.9 0.9 0.9 0.9\n"

    /* The kernel of a channel has 512 threads (LL128: 640). Each needs at least 64 bytes with
     * Simple and 8 with the other protocols; a ring with LL needs 8 for each rank. */
    "channel_bytes * simple 32768\n"
    "channel_bytes tree,direct,two-shot ll 4096\n"
    "channel_bytes * ll128 5120\n"
    "channel_rank_bytes ring ll 4096\n";

/*
 * Executor table: published measurements of GPUs, and counts of our kernels
 * (doc/results/kernels.md). doc/cost-model.md names the source of each figure and marks estimates.
 * When you change the executor, update "executor" and "call".
 */
static const char executor_table[] =
    /*   launch host seen load l2 barrier port memory sms */
    "gpu sm70 * 4.5 0.80 1.0 0.30 0.14 0.03 98 765 80\n"
    "gpu sm75 * 4.5 0.80 1.0 0.63 0.15 0.03 102 272 40\n"
    "gpu sm80 * 4.0 0.65 1.0 0.33 0.19 0.03 90 1730 108\n"
    "gpu sm86 * 4.0 0.65 1.0 0.33 0.19 0.03 109 590 84\n"
    "gpu sm89 * 3.7 0.65 1.0 0.22 0.11 0.02 160 735 142\n"
    "gpu sm90 * 4.55 2.0 1.25 0.28 0.145 0.03 112 2850 132\n"
    "gpu sm100 * 4.55 2.0 1.25 0.40 0.19 0.03 120 6800 148\n"
    "gpu sm120 * 4.55 2.0 1.25 0.34 0.14 0.02 167 1520 170\n"
    /*   store fence */
    "way local * 0.16 0.52\n"
    "way nvlink * 0.41 0.83\n"
    "way pci * 0.60 1.20\n"
    /*   chunk batch operands narrow wide round step polls fences expand slices ahead work post item
     *   each once fill signal */
    "executor simple * 524288 35840 2 7168 8 0 2 2.5 1 1 4 1 0.55 0.05 0.0225 0.18 0.55 0.31 "
    "0.7525\n"
    "executor ll * 8192 4096 4 4096 4 1 2 0.5 0 2 1 0 1.29 0 0.06 0.25 0.58 0 0\n"
    "executor ll128 * 15360 15360 0.5 15360 0.5 1 2 0.5 0 1.0666667 1 0 0.97 0 0.18 0.50 0.97 0 0\n"
    /*   entry host-loads loads barriers fetch fences */
    "call * 0.8 0 1 2 1.0 1\n";

static int costs_of_text(const char *text, struct pci_costs *costs)
{
    struct pci_costs empty = {.base = {{0}}};
    int rc = pci_costs_parse(text, strlen(text), &empty, NULL, 0);

    if (rc == 0) {
        *costs = empty;
    }
    return rc;
}

int pci_costs_reference(struct pci_costs *costs)
{
    return costs_of_text(reference_table, costs);
}

int pci_costs_gpu(struct pci_costs *costs)
{
    int rc = pci_costs_reference(costs);

    return rc == 0 ? pci_costs_parse(executor_table, strlen(executor_table), costs, NULL, 0) : rc;
}
