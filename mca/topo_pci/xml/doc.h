/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Documents from inside: for the files that read, write and change them, and for the graph. */
#ifndef TOPO_PCI_XML_DOC_H
#define TOPO_PCI_XML_DOC_H

#include <stdio.h>

#include "mca/topo_pci/xml/pci_doc.h"

/* Fills ERROR (unless NULL) and returns CODE. */
int pci_error_set(struct pci_error *error, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* -ENOMEM with its message. */
int pci_error_memory(struct pci_error *error);

/* Makes room for COUNT items of SIZE bytes in *ARRAY, growing by doubling. 0 or -ENOMEM. */
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

/* Moves ELEM with all below it to the end of PARENT, which is not below it. -E2BIG: too deep. */
int pci_elem_move(struct pci_elem *elem, struct pci_elem *parent);

bool pci_elem_is(const struct pci_elem *elem, const char *name);

/* Writes TEXT as the content of an XML attribute or element; xml/write.c. */
void pci_xml_put(FILE *out, const char *text);

/*
 * The ranks of a document's GPUs: position of each gpu element in the document -> rank, or -1 when
 * it does not take part. Ranks are those of the attributes, or positions where no GPU has one.
 */
struct pci_ranks {
    size_t count;
    struct pci_elem **elem;
    long *rank;
};
int pci_ranks_read(const struct pci_doc *doc, struct pci_ranks *ranks, struct pci_error *error);
void pci_ranks_free(struct pci_ranks *ranks);

/* The host of an element: the host_hash of the cpu above it (0 without). */
uint64_t pci_elem_host(const struct pci_elem *elem);

#endif
