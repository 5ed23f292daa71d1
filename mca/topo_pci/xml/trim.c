/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Used parts of a document: ranks of GPUs, and subsets of GPUs with their branches. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "mca/topo_pci/xml/doc.h"

uint64_t pci_elem_host(const struct pci_elem *elem)
{
    while (elem && !pci_elem_is(elem, "cpu")) {
        elem = elem->parent;
    }
    const char *hash = elem ? pci_elem_get(elem, "host_hash") : NULL;
    return hash ? strtoull(hash, NULL, 16) : 0;
}

void pci_ranks_free(struct pci_ranks *ranks)
{
    free(ranks->elem);
    free(ranks->rank);
    *ranks = (struct pci_ranks){0};
}

int pci_ranks_read(const struct pci_doc *doc, struct pci_ranks *ranks, struct pci_error *error)
{
    size_t n = 0;
    bool any = false;
    struct pci_elem *elem = NULL;
    while ((elem = pci_doc_next(doc, elem, "gpu"))) {
        n++;
    }
    *ranks = (struct pci_ranks){.elem = calloc(n + 1, sizeof *ranks->elem),
                                .rank = calloc(n + 1, sizeof *ranks->rank)};
    if (!ranks->elem || !ranks->rank) {
        pci_ranks_free(ranks);
        return pci_error_memory(error);
    }
    while ((elem = pci_doc_next(doc, elem, "gpu"))) {
        const char *text = pci_elem_get(elem, "rank");
        long rank = pci_elem_long(elem, "rank", -1);
        ranks->elem[ranks->count] = elem;
        ranks->rank[ranks->count++] = rank >= 0 && rank <= INT_MAX ? rank : -1;
        any = any || (text && *text);
    }
    for (size_t i = 0; i < n && !any; i++) {
        ranks->rank[i] = (long) i; /* no GPU has a rank, so all are used */
    }
    return 0;
}

/* Return true if this branch of the tree contains no GPU and no net. */
static bool is_empty(const struct pci_doc *doc, const struct pci_elem *branch)
{
    const struct pci_elem *elem = branch;

    if (!pci_elem_is(elem, "cpu") && !pci_elem_is(elem, "pci") && !pci_elem_is(elem, "nic")) {
        return false;
    }
    while ((elem = pci_doc_next(doc, elem, NULL)) && elem->depth > branch->depth) {
        if (pci_elem_is(elem, "gpu") || pci_elem_is(elem, "net")) {
            return false;
        }
    }
    return true;
}

static int by_value(const void *a, const void *b)
{
    unsigned x = *(const unsigned *) a, y = *(const unsigned *) b;
    return (x > y) - (x < y);
}

/* Return the GPU of a rank, or NULL if there is none. */
static struct pci_elem *gpu_of(const struct pci_ranks *ranks, unsigned rank)
{
    for (size_t i = 0; i < ranks->count; i++) {
        if (ranks->rank[i] == (long) rank) {
            return ranks->elem[i];
        }
    }
    return NULL;
}

/* Check the list, and find its GPUs in the order of their ranks. */
static int choose_ranks(const struct pci_ranks *ranks, unsigned *sorted, size_t n,
                        struct pci_elem **chosen, struct pci_error *error)
{
    qsort(sorted, n, sizeof *sorted, by_value);
    for (size_t i = 0; i < n; i++) {
        if (i && sorted[i] == sorted[i - 1]) {
            return pci_error_set(error, -EINVAL, "GPU %u is given twice", sorted[i]);
        }
        chosen[i] = gpu_of(ranks, sorted[i]);
        if (!chosen[i]) {
            return pci_error_set(error, -ENOENT, "there is no GPU %u: the topology has %zu GPUs",
                                 sorted[i], ranks->count);
        }
    }
    return 0;
}

/* Number the selected GPUs, and remove the others and the branches that become empty. */
static int keep_chosen(struct pci_doc *doc, const struct pci_ranks *ranks,
                       struct pci_elem *const *chosen, size_t n, struct pci_error *error)
{
    struct pci_elem *elem = doc->root, *next;

    for (size_t i = 0; i < n; i++) {
        if (pci_elem_setf(chosen[i], "rank", "%zu", i)) {
            return pci_error_memory(error);
        }
    }
    /* Go backwards, so that an unusual element inside a GPU is removed before that GPU. */
    for (size_t i = ranks->count; i > 0; i--) {
        size_t c = 0;

        while (c < n && chosen[c] != ranks->elem[i - 1]) {
            c++;
        }
        if (c == n) {
            pci_elem_remove(doc, ranks->elem[i - 1]);
        }
    }
    while ((next = pci_doc_next(doc, elem, NULL))) {
        if (is_empty(doc, next)) {
            pci_elem_remove(doc, next);
        } else {
            elem = next;
            pci_elem_set(elem, "keep", NULL); /* a mark of NCCL that refers to all GPUs */
        }
    }
    return 0;
}

int pci_doc_keep_gpus(struct pci_doc *doc, const unsigned *ranks, size_t n, struct pci_error *error)
{
    struct pci_ranks all;
    if (!n) {
        return pci_error_set(error, -EINVAL, "the list of GPUs is empty");
    }
    int rc = pci_ranks_read(doc, &all, error);
    if (rc) {
        return rc;
    }
    unsigned *sorted = calloc(n, sizeof *sorted);
    struct pci_elem **chosen = calloc(n, sizeof *chosen);
    if (sorted && chosen) {
        for (size_t i = 0; i < n; i++) {
            sorted[i] = ranks ? ranks[i] : (unsigned) i;
        }
        rc = choose_ranks(&all, sorted, n, chosen, error);
        rc = rc ? rc : keep_chosen(doc, &all, chosen, n, error);
    } else {
        rc = pci_error_memory(error);
    }
    free(sorted);
    free(chosen);
    pci_ranks_free(&all);
    return rc;
}
