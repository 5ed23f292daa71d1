/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Documents: the tree of a node topology in the XML format that NCCL reads and writes (version 1:
 * system, cpu, pci, gpu, nvlink, c2c, pcilink, nic, net). Unknown elements and attributes are kept
 * and written.
 *
 * Threads: no shared state. A document may be read by several threads; one may change it.
 * Returns: 0 or a negative errno value. Outputs are only set on success. If a function has an
 * argument struct pci_error, it describes a failure and its remedy; it may be NULL. The engine
 * prints nothing.
 */
#ifndef TOPO_PCI_XML_PCI_DOC_H
#define TOPO_PCI_XML_PCI_DOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pci_error {
    char text[512]; /* one line without a newline; empty if nothing failed */
};

/*
 * Limits of time and memory for malicious or absurd input. Input beyond a limit returns -E2BIG, and
 * the message names the limit.
 */
#define PCI_DOC_MAX_BYTES      ((size_t) 64 << 20)
#define PCI_DOC_MAX_ELEMENTS   1000000u
#define PCI_DOC_MAX_DEPTH      64u
#define PCI_DOC_MAX_ATTRIBUTES 64u /* of one element */

struct pci_doc;
struct pci_elem;

/* Create a document with an empty <system version="1">. The caller frees it. */
int pci_doc_new(struct pci_doc **doc, struct pci_error *error);
void pci_doc_free(struct pci_doc *doc); /* NULL is allowed */

/*
 * Read a document. Network access, DOCTYPE and entities are rejected. A missing version means 1,
 * and other versions are rejected. PATH "-" is standard input. Returns -EINVAL if the text is not
 * XML or not a topology, and for a file also the errors of pci_file_read(). The message names file
 * and line.
 */
int pci_doc_read(const char *path, struct pci_doc **doc, struct pci_error *error);
int pci_doc_parse(const void *text, size_t size, struct pci_doc **doc, struct pci_error *error);

/*
 * Write a document to TEXT. The same document produces the same bytes. TEXT is allocated and ends
 * with a NUL, which SIZE (may be NULL) does not count. Free it with free().
 */
int pci_doc_format(const struct pci_doc *doc, char **text, size_t *size, struct pci_error *error);

/*
 * Merge FROM into INTO, e.g. the partial trees of several processes of a host. Elements are the
 * same if their kind and identity are equal: cpu by host_hash and numaid, pci by busid, nic by its
 * place, net by name and port (without a name: dev), gpu, nvlink, pcilink and c2c by their target
 * or place. Attributes that are missing or empty in INTO are copied. "gdr" and "keep" become 1 if
 * one side has 1. INTO keeps its value in all other contradictions. FROM is unchanged.
 */
int pci_doc_merge(struct pci_doc *into, const struct pci_doc *from, struct pci_error *error);

/*
 * Keep all nets and the GPUs with these ranks of the document (or positions if it has no ranks;
 * NULL: the first n). Remove the rest and the branches that contain none of them. Number the kept
 * GPUs 0 .. n-1 in the order of their old ranks, without changing dev. Returns -ENOENT for an
 * unknown rank, and -EINVAL if there is no rank or a duplicate.
 */
int pci_doc_keep_gpus(struct pci_doc *doc, const unsigned *ranks, size_t n,
                      struct pci_error *error);

/* Return the root, <system>. Elements belong to their document and exist until they or it are
 * freed. */
struct pci_elem *pci_doc_root(const struct pci_doc *doc);

/* Return the element after ELEM in document order (NULL: the root), with this NAME unless it is
 * NULL. */
struct pci_elem *pci_doc_next(const struct pci_doc *doc, const struct pci_elem *elem,
                              const char *name);

/* Return the first element NAME whose attribute KEY has VALUE (KEY NULL: any), or NULL. */
struct pci_elem *pci_doc_find(const struct pci_doc *doc, const char *name, const char *key,
                              const char *value);

const char *pci_elem_name(const struct pci_elem *elem);
struct pci_elem *pci_elem_parent(const struct pci_elem *elem); /* NULL for the root */
struct pci_elem *pci_elem_child(const struct pci_elem *elem,
                                const char *name); /* first; NULL: any */
struct pci_elem *pci_elem_sibling(const struct pci_elem *elem, const char *name); /* next */

/* Return an attribute's text, which is valid until it is set again, or NULL. */
const char *pci_elem_get(const struct pci_elem *elem, const char *key);

/* Return an attribute as a number (decimal or 0x); OTHERWISE if missing or not a number. */
long pci_elem_long(const struct pci_elem *elem, const char *key, long otherwise);

/* Return the attribute with this INDEX in their order; false after the last one. */
bool pci_elem_attribute(const struct pci_elem *elem, size_t index, const char **key,
                        const char **value);

/* Add a child at the end. NAME must be allowed in XML. -E2BIG: too deep or too many. */
int pci_elem_add(struct pci_doc *doc, struct pci_elem *parent, const char *name,
                 struct pci_elem **elem);

/* Set an attribute; VALUE NULL removes it. KEY must be allowed in XML. -EINVAL: invalid text. */
int pci_elem_set(struct pci_elem *elem, const char *key, const char *value);
int pci_elem_setf(struct pci_elem *elem, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Remove an element and its descendants (not the root: -EINVAL). */
int pci_elem_remove(struct pci_doc *doc, struct pci_elem *elem);

/* Return a bus ID "0000:3b:00.0" as a number: its hex digits without separators, or 0. */
uint64_t pci_busid_parse(const char *text);

#endif
