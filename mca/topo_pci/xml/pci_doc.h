/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Documents: the tree of a node topology in the XML format that NCCL reads and writes (version 1:
 * system, cpu, pci, gpu, nvlink, c2c, pcilink, nic, net). Elements and attributes that the engine
 * does not know are kept and written again.
 *
 * Threads: no shared state. A document may be read by several threads; one may change it.
 * Returns: 0 or a negative errno value. Outputs are set on success only. Where a function takes a
 *     struct pci_error, a failure leaves there what went wrong and what to do; it may be NULL. The
 *     engine prints nothing.
 */
#ifndef TOPO_PCI_XML_PCI_DOC_H
#define TOPO_PCI_XML_PCI_DOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pci_error {
    char text[512]; /* one line without a line end; empty when nothing failed */
};

/*
 * Limits. They bound time and memory on hostile or absurd input; each breach is -E2BIG and a
 * message that names the limit.
 */
#define PCI_DOC_MAX_BYTES      ((size_t) 64 << 20)
#define PCI_DOC_MAX_ELEMENTS   1000000u
#define PCI_DOC_MAX_DEPTH      64u
#define PCI_DOC_MAX_ATTRIBUTES 64u /* of one element */

struct pci_doc;
struct pci_elem;

/* A new document with an empty <system version="1">. The caller frees it. */
int pci_doc_new(struct pci_doc **doc, struct pci_error *error);
void pci_doc_free(struct pci_doc *doc); /* NULL is allowed */

/*
 * Reads a document. Network access, DOCTYPE and entities are refused. A missing version is taken as
 * 1, another version is refused. -EINVAL: not XML, or not a topology; the message names the line.
 * For a file also what pci_file_read() returns. The message names the file. PATH "-" is standard
 * input.
 */
int pci_doc_read(const char *path, struct pci_doc **doc, struct pci_error *error);
int pci_doc_parse(const void *text, size_t size, struct pci_doc **doc, struct pci_error *error);

/*
 * Writes a document: the same bytes for the same document. Allocates TEXT (ends in NUL, free() it);
 * SIZE (may be NULL) does not count the NUL.
 */
int pci_doc_format(const struct pci_doc *doc, char **text, size_t *size, struct pci_error *error);

/*
 * Merges (fuses) FROM into INTO, e.g. the partial trees of several processes of a host. Elements
 * are the same when kind and identity are: cpu by host_hash and numaid, pci by busid, nic by its
 * place, net by name and port (without a name: dev), gpu, nvlink, pcilink and c2c by their target
 * or place. Attributes that INTO lacks, or has empty, are taken over; "gdr" and "keep" become 1
 * when one side has 1. INTO wins other contradictions. FROM is unchanged.
 */
int pci_doc_merge(struct pci_doc *into, const struct pci_doc *from, struct pci_error *error);

/*
 * Keeps the GPUs of these ranks (of the document; positions in order where it has no ranks; NULL:
 * the first n) and all nets, removes the rest and the branches that lead to none of them, and
 * numbers the kept GPUs 0 .. n-1 in the order of their old ranks. dev stays as it was. -ENOENT: no
 * such rank; -EINVAL: none, or one given twice.
 */
int pci_doc_keep_gpus(struct pci_doc *doc, const unsigned *ranks, size_t n,
                      struct pci_error *error);

/* The root, <system>. Elements belong to their document and live until they or it are freed. */
struct pci_elem *pci_doc_root(const struct pci_doc *doc);

/* Walks the document in order: the element after ELEM (NULL: the root), of this NAME unless NULL.
 */
struct pci_elem *pci_doc_next(const struct pci_doc *doc, const struct pci_elem *elem,
                              const char *name);

/* The first element NAME whose attribute KEY has VALUE (KEY NULL: any), or NULL. */
struct pci_elem *pci_doc_find(const struct pci_doc *doc, const char *name, const char *key,
                              const char *value);

const char *pci_elem_name(const struct pci_elem *elem);
struct pci_elem *pci_elem_parent(const struct pci_elem *elem); /* NULL for the root */
struct pci_elem *pci_elem_child(const struct pci_elem *elem,
                                const char *name); /* first; NULL: any */
struct pci_elem *pci_elem_sibling(const struct pci_elem *elem, const char *name); /* next */

/* An attribute's text (valid until it is set again), or NULL. */
const char *pci_elem_get(const struct pci_elem *elem, const char *key);

/* An attribute as a number, decimal or 0x; OTHERWISE when it is missing or no number. */
long pci_elem_long(const struct pci_elem *elem, const char *key, long otherwise);

/* The attributes in their order: true while INDEX names one. */
bool pci_elem_attribute(const struct pci_elem *elem, size_t index, const char **key,
                        const char **value);

/* Adds a child at the end; NAME is one of XML. -E2BIG: too deep or too many. */
int pci_elem_add(struct pci_doc *doc, struct pci_elem *parent, const char *name,
                 struct pci_elem **elem);

/* Sets an attribute; VALUE NULL removes it. KEY is one of XML. -EINVAL: text that XML cannot hold.
 */
int pci_elem_set(struct pci_elem *elem, const char *key, const char *value);
int pci_elem_setf(struct pci_elem *elem, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Removes an element with all below it (not the root: -EINVAL). */
int pci_elem_remove(struct pci_doc *doc, struct pci_elem *elem);

/* A bus id "0000:3b:00.0" as a number: its hex digits without separators; 0 for no hex digit. */
uint64_t pci_busid_parse(const char *text);

#endif
