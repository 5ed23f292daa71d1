/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Internals of documents for the files that read, write and change them, and for the graph. */
#ifndef TOPO_PCI_XML_DOC_H
#define TOPO_PCI_XML_DOC_H

#include <stdio.h>

#include "mca/topo_pci/xml/pci_doc.h"

/* Fill ERROR (unless NULL) and return CODE. */
int pci_error_set(struct pci_error *error, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Return -ENOMEM with its message. */
int pci_error_memory(struct pci_error *error);

/* Make room for COUNT items of SIZE bytes in *ARRAY, doubling its capacity. Return 0 or -ENOMEM. */
int pci_array_reserve(void *array, size_t *capacity, size_t count, size_t size);

struct pci_attribute {
    char *key;
    char *value;
};

struct pci_elem {
    char *name;
    struct pci_attribute *attributes;
    size_t nattributes;
    size_t attributes_capacity;
    uint32_t depth; /* 1: the root */
    struct pci_elem *parent;
    struct pci_elem *first;
    struct pci_elem *last;
    struct pci_elem *previous;
    struct pci_elem *next;
};

struct pci_doc {
    struct pci_elem *root;
    size_t nelements;
};

/* Arrays that are freed together. All zero at first. */
struct pci_arena {
    struct pci_arena_block *last;
    bool failed; /* memory for an array was lacking */
};

/* Return a new array of zeros, or NULL and set arena->failed. */
void *pci_arena_array(struct pci_arena *arena, size_t count, size_t size);
void pci_arena_free(struct pci_arena *arena);

/* Move ELEM and its descendants to the end of PARENT, which is none of them. -E2BIG: too deep. */
int pci_elem_move(struct pci_elem *elem, struct pci_elem *parent);

bool pci_elem_is(const struct pci_elem *elem, const char *name);

/* Write TEXT as the content of an XML attribute or element; xml/write.c. */
void pci_xml_put(FILE *out, const char *text);

/*
 * The ranks of a document's GPUs: for the position of each gpu element, its rank, or -1 if it is
 * not used. Ranks are those of the attributes, or the positions if no GPU has the attribute.
 */
struct pci_ranks {
    size_t count;
    struct pci_elem **elem;
    long *rank;
};
int pci_ranks_read(const struct pci_doc *doc, struct pci_ranks *ranks, struct pci_error *error);
void pci_ranks_free(struct pci_ranks *ranks);

/* Return the host of an element: the host_hash of the cpu above it, or 0. */
uint64_t pci_elem_host(const struct pci_elem *elem);

#endif
