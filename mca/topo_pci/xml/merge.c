/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Merge documents: the views of several processes of a host become one tree. Elements are matched
 * level by level. If a PCI device has different depths (a container hides a switch), it is placed
 * at the deeper one, because that document has more information.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/xml/doc.h"

/* Kinds of elements and the attributes that identify them. A missing one matches any value. */
static const struct {
    const char *name;
    const char *keys[3];
} identities[] = {
    {"cpu", {"host_hash", "numaid"}}, {"pci", {"busid"}},      {"net", {"name", "port"}},
    {"nvlink", {"target"}},           {"pcilink", {"target"}},
};

static bool same_value(const struct pci_elem *a, const struct pci_elem *b, const char *key)
{
    const char *x = pci_elem_get(a, key), *y = pci_elem_get(b, key);
    if (!strcmp(key, "busid") || !strcmp(key, "target")) {
        uint64_t number = pci_busid_parse(x);
        if (number && number == pci_busid_parse(y)) {
            return true; /* they may differ in case or in leading zeros */
        }
    }
    return !strcmp(x ? x : "", y ? y : "");
}

static bool same(const struct pci_elem *a, const struct pci_elem *b)
{
    if (!pci_elem_is(a, b->name)) {
        return false;
    }
    if (pci_elem_is(a, "net") && !pci_elem_get(a, "name") && !pci_elem_get(b, "name")) {
        return same_value(a, b, "dev");
    }
    for (size_t i = 0; i < sizeof identities / sizeof identities[0]; i++) {
        for (size_t k = 0; pci_elem_is(a, identities[i].name) && k < 3 && identities[i].keys[k];
             k++) {
            if (!same_value(a, b, identities[i].keys[k])) {
                return false;
            }
        }
    }
    return true; /* gpu, nic, c2c: one of each below its parent */
}

static struct pci_elem *counterpart(const struct pci_elem *parent, const struct pci_elem *elem)
{
    struct pci_elem *child = parent->first;
    while (child && !same(child, elem)) {
        child = child->next;
    }
    return child;
}

/* Return true if ELEM is ABOVE or one of its descendants. */
static bool is_above(const struct pci_elem *above, const struct pci_elem *elem)
{
    while (elem && elem != above) {
        elem = elem->parent;
    }
    return elem;
}

/* Return the same PCI device below PARENT, at any depth. */
static struct pci_elem *device_below(const struct pci_doc *doc, const struct pci_elem *parent,
                                     const struct pci_elem *elem)
{
    struct pci_elem *found = NULL;
    if (!pci_elem_is(elem, "pci") || !pci_busid_parse(pci_elem_get(elem, "busid"))) {
        return NULL;
    }
    while ((found = pci_doc_next(doc, found, "pci"))) {
        if (same_value(found, elem, "busid") && is_above(parent, found->parent)) {
            return found;
        }
    }
    return NULL;
}

static int take_attributes(struct pci_elem *into, const struct pci_elem *from)
{
    for (size_t i = 0; i < from->nattributes; i++) {
        const char *key = from->attributes[i].key, *value = from->attributes[i].value;
        const char *have = pci_elem_get(into, key);
        bool flag = !strcmp(key, "gdr") || !strcmp(key, "keep");
        if (!have || !*have || (flag && !strcmp(value, "1"))) {
            int rc = pci_elem_set(into, key, value);
            if (rc) {
                return rc;
            }
        }
    }
    return 0;
}

struct merging {
    struct pci_doc *into;
    /* The element of INTO for the current element of FROM at each level. */
    struct pci_elem *merged[PCI_DOC_MAX_DEPTH + 1];
};

/*
 * Move the device ELEM to PARENT if it is elsewhere below the CPU of PARENT, because the switch at
 * PARENT is only visible in FROM.
 */
static int device_moved(const struct pci_doc *doc, struct pci_elem *parent,
                        const struct pci_elem *elem, struct pci_elem **moved)
{
    const struct pci_elem *cpu = parent;
    while (cpu && !pci_elem_is(cpu, "cpu")) {
        cpu = cpu->parent;
    }
    struct pci_elem *found = cpu ? device_below(doc, cpu, elem) : NULL;
    if (!found || is_above(found, parent)) {
        return 0;
    }
    int rc = pci_elem_move(found, parent);
    *moved = rc ? NULL : found;
    return rc;
}

static int merge_element(struct merging *merging, const struct pci_elem *from)
{
    struct pci_elem *parent = merging->merged[from->depth - 1];
    struct pci_elem *into = counterpart(parent, from);
    int rc = 0;
    if (!into) {
        into = device_below(merging->into, parent, from);
    }
    if (!into) {
        rc = device_moved(merging->into, parent, from, &into);
    }
    if (!into && !rc) {
        rc = pci_elem_add(merging->into, parent, from->name, &into);
    }
    merging->merged[from->depth] = into;
    return rc ? rc : take_attributes(into, from);
}

int pci_doc_merge(struct pci_doc *into, const struct pci_doc *from, struct pci_error *error)
{
    struct merging merging = {.into = into};
    struct pci_elem *elem = from->root;
    merging.merged[1] = into->root;
    int rc = take_attributes(into->root, from->root);
    while (!rc && (elem = pci_doc_next(from, elem, NULL))) {
        rc = merge_element(&merging, elem);
    }
    if (rc == -E2BIG) {
        return pci_error_set(error, rc,
                             "merged topology is above the limits of %u elements or %u levels",
                             PCI_DOC_MAX_ELEMENTS, PCI_DOC_MAX_DEPTH);
    }
    return rc ? pci_error_memory(error) : 0;
}
