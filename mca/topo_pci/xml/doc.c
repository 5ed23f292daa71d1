/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Elements and attributes of a document. All traversals are loops, so deep input needs no deep
 * stack. */
#define _GNU_SOURCE /* vasprintf */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/xml/doc.h"

int pci_error_set(struct pci_error *error, int code, const char *format, ...)
{
    if (error) {
        va_list args;
        va_start(args, format);
        vsnprintf(error->text, sizeof error->text, format, args);
        va_end(args);
    }
    return code;
}

int pci_error_memory(struct pci_error *error)
{
    return pci_error_set(error, -ENOMEM, "out of memory while handling a topology");
}

int pci_array_reserve(void *array, size_t *capacity, size_t count, size_t size)
{
    void **at = array;
    size_t wanted = *capacity ? *capacity : 8;
    if (count <= *capacity) {
        return 0;
    }
    while (wanted < count) {
        if (wanted > SIZE_MAX / 2) {
            return -ENOMEM;
        }
        wanted *= 2;
    }
    void *grown = reallocarray(*at, wanted, size);
    if (!grown) {
        return -ENOMEM;
    }
    *at = grown;
    *capacity = wanted;
    return 0;
}

struct pci_arena_block {
    struct pci_arena_block *before;
    _Alignas(max_align_t) char array[];
};

void *pci_arena_array(struct pci_arena *arena, size_t count, size_t size)
{
    struct pci_arena_block *block = NULL;
    size_t bytes;

    if (!__builtin_mul_overflow(count, size, &bytes) && bytes <= SIZE_MAX - sizeof *block) {
        block = calloc(1, sizeof *block + bytes);
    }
    if (!block) {
        arena->failed = true;
        return NULL;
    }
    block->before = arena->last;
    arena->last = block;
    return block->array;
}

void pci_arena_free(struct pci_arena *arena)
{
    while (arena->last) {
        struct pci_arena_block *block = arena->last;

        arena->last = block->before;
        free(block);
    }
}

static struct pci_elem *elem_new(const char *name, struct pci_elem *parent)
{
    struct pci_elem *elem = calloc(1, sizeof *elem);
    if (!elem) {
        return NULL;
    }
    elem->name = strdup(name);
    if (!elem->name) {
        free(elem);
        return NULL;
    }
    elem->parent = parent;
    elem->depth = parent ? parent->depth + 1 : 1;
    return elem;
}

static void elem_free_one(struct pci_elem *elem)
{
    for (size_t i = 0; i < elem->nattributes; i++) {
        free(elem->attributes[i].key);
        free(elem->attributes[i].value);
    }
    free(elem->attributes);
    free(elem->name);
    free(elem);
}

static void elem_unlink(struct pci_elem *elem)
{
    struct pci_elem *parent = elem->parent;
    if (elem->previous) {
        elem->previous->next = elem->next;
    } else if (parent) {
        parent->first = elem->next;
    }
    if (elem->next) {
        elem->next->previous = elem->previous;
    } else if (parent) {
        parent->last = elem->previous;
    }
}

/* Free an element and its descendants. Return their number. */
static size_t elem_free(struct pci_elem *top)
{
    size_t n = 0;
    struct pci_elem *elem = top;
    for (;;) {
        while (elem->first) {
            elem = elem->first;
        }
        struct pci_elem *parent = elem->parent;
        bool done = elem == top;
        elem_unlink(elem);
        elem_free_one(elem);
        n++;
        if (done) {
            return n;
        }
        elem = parent;
    }
}

int pci_doc_new(struct pci_doc **doc, struct pci_error *error)
{
    struct pci_doc *made = calloc(1, sizeof *made);
    struct pci_elem *root;
    if (!made || pci_elem_add(made, NULL, "system", &root) || pci_elem_set(root, "version", "1")) {
        pci_doc_free(made);
        return pci_error_memory(error);
    }
    *doc = made;
    return 0;
}

void pci_doc_free(struct pci_doc *doc)
{
    if (doc && doc->root) {
        elem_free(doc->root);
    }
    free(doc);
}

struct pci_elem *pci_doc_root(const struct pci_doc *doc)
{
    return doc->root;
}

bool pci_elem_is(const struct pci_elem *elem, const char *name)
{
    return !strcmp(elem->name, name);
}

static struct pci_elem *after(const struct pci_elem *elem)
{
    if (elem->first) {
        return elem->first;
    }
    while (elem && !elem->next) {
        elem = elem->parent;
    }
    return elem ? elem->next : NULL;
}

struct pci_elem *pci_doc_next(const struct pci_doc *doc, const struct pci_elem *elem,
                              const char *name)
{
    struct pci_elem *found = elem ? after(elem) : doc->root;
    while (found && name && !pci_elem_is(found, name)) {
        found = after(found);
    }
    return found;
}

struct pci_elem *pci_doc_find(const struct pci_doc *doc, const char *name, const char *key,
                              const char *value)
{
    struct pci_elem *elem = NULL;
    while ((elem = pci_doc_next(doc, elem, name))) {
        const char *text = key ? pci_elem_get(elem, key) : NULL;
        if (!key || (text && value && !strcmp(text, value))) {
            return elem;
        }
    }
    return NULL;
}

const char *pci_elem_name(const struct pci_elem *elem)
{
    return elem->name;
}

struct pci_elem *pci_elem_parent(const struct pci_elem *elem)
{
    return elem->parent;
}

static struct pci_elem *named(struct pci_elem *elem, const char *name)
{
    while (elem && name && !pci_elem_is(elem, name)) {
        elem = elem->next;
    }
    return elem;
}

struct pci_elem *pci_elem_child(const struct pci_elem *elem, const char *name)
{
    return named(elem->first, name);
}

struct pci_elem *pci_elem_sibling(const struct pci_elem *elem, const char *name)
{
    return named(elem->next, name);
}

static struct pci_attribute *attribute(const struct pci_elem *elem, const char *key)
{
    for (size_t i = 0; i < elem->nattributes; i++) {
        if (!strcmp(elem->attributes[i].key, key)) {
            return &elem->attributes[i];
        }
    }
    return NULL;
}

const char *pci_elem_get(const struct pci_elem *elem, const char *key)
{
    const struct pci_attribute *found = attribute(elem, key);
    return found ? found->value : NULL;
}

long pci_elem_long(const struct pci_elem *elem, const char *key, long otherwise)
{
    const char *text = pci_elem_get(elem, key);
    char *end;
    if (!text || !*text) {
        return otherwise;
    }
    errno = 0;
    /* Use base 16 only with 0x, and never base 8: a leading zero does not mean octal in these
     * files. */
    long value = strtol(text, &end, strncasecmp(text, "0x", 2) ? 10 : 16);
    return errno || end == text ? otherwise : value;
}

bool pci_elem_attribute(const struct pci_elem *elem, size_t index, const char **key,
                        const char **value)
{
    if (index >= elem->nattributes) {
        return false;
    }
    *key = elem->attributes[index].key;
    *value = elem->attributes[index].value;
    return true;
}

static void elem_link(struct pci_elem *elem, struct pci_elem *parent)
{
    elem->parent = parent;
    elem->next = NULL;
    elem->previous = parent->last;
    if (parent->last) {
        parent->last->next = elem;
    } else {
        parent->first = elem;
    }
    parent->last = elem;
}

int pci_elem_move(struct pci_elem *elem, struct pci_elem *parent)
{
    uint32_t deepest = elem->depth, down = parent->depth + 1 - elem->depth;
    const struct pci_elem *end = elem;
    while (end && !end->next) {
        end = end->parent;
    }
    end = end ? end->next : NULL; /* the first element after ELEM's descendants */
    for (const struct pci_elem *below = elem; below != end; below = after(below)) {
        deepest = below->depth > deepest ? below->depth : deepest;
    }
    if (deepest + down > PCI_DOC_MAX_DEPTH) {
        return -E2BIG;
    }
    for (struct pci_elem *below = elem; below != end; below = after(below)) {
        below->depth += down; /* modulo 2^32, so that a move upwards works as well */
    }
    elem_unlink(elem);
    elem_link(elem, parent);
    return 0;
}

int pci_elem_add(struct pci_doc *doc, struct pci_elem *parent, const char *name,
                 struct pci_elem **elem)
{
    if (doc->nelements >= PCI_DOC_MAX_ELEMENTS || (parent && parent->depth >= PCI_DOC_MAX_DEPTH)) {
        return -E2BIG;
    }
    struct pci_elem *made = elem_new(name, parent);
    if (!made) {
        return -ENOMEM;
    }
    if (parent) {
        elem_link(made, parent);
    } else {
        doc->root = made;
    }
    doc->nelements++;
    *elem = made;
    return 0;
}

static void attribute_remove(struct pci_elem *elem, struct pci_attribute *found)
{
    free(found->key);
    free(found->value);
    size_t at = (size_t) (found - elem->attributes);
    memmove(found, found + 1, (--elem->nattributes - at) * sizeof *found);
}

/* Read the character at *TEXT and skip it. False: it is not UTF-8, or not allowed in XML. */
static bool character_valid(const unsigned char **text)
{
    static const uint32_t least[] = {0, 0x80, 0x800,
                                     0x10000}; /* least character by number of further bytes */
    unsigned first = *(*text)++;
    unsigned more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    uint32_t value = more ? first & (0x3fu >> more) : first;
    if (first >= 0xf8 || (first & 0xc0) == 0x80) {
        return false;
    }
    for (unsigned i = 0; i < more; i++, (*text)++) {
        if ((**text & 0xc0) != 0x80) {
            return false;
        }
        value = value << 6 | (**text & 0x3fu);
    }
    return value >= least[more] && value <= 0x10ffff && (value < 0xd800 || value > 0xdfff) &&
           value != 0xfffe && value != 0xffff &&
           (value >= 0x20 || value == '\t' || value == '\n' || value == '\r');
}

static bool text_valid(const char *text)
{
    const unsigned char *at = (const unsigned char *) text;
    while (*at) {
        if (!character_valid(&at)) {
            return false;
        }
    }
    return true;
}

static int attribute_put(struct pci_elem *elem, const char *key, const char *value)
{
    struct pci_attribute *found = attribute(elem, key);
    char *copy = strdup(value);
    if (!copy) {
        return -ENOMEM;
    }
    if (found) {
        free(found->value);
        found->value = copy;
        return 0;
    }
    char *name = strdup(key);
    int rc = name ? pci_array_reserve(&elem->attributes, &elem->attributes_capacity,
                                      elem->nattributes + 1, sizeof *elem->attributes)
                  : -ENOMEM;
    if (!rc && elem->nattributes >= PCI_DOC_MAX_ATTRIBUTES) {
        rc = -E2BIG;
    }
    if (rc) {
        free(name);
        free(copy);
        return rc;
    }
    elem->attributes[elem->nattributes++] = (struct pci_attribute){name, copy};
    return 0;
}

int pci_elem_set(struct pci_elem *elem, const char *key, const char *value)
{
    if (!value) {
        struct pci_attribute *found = attribute(elem, key);
        if (found) {
            attribute_remove(elem, found);
        }
        return 0;
    }
    return text_valid(value) ? attribute_put(elem, key, value) : -EINVAL;
}

int pci_elem_setf(struct pci_elem *elem, const char *key, const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0) {
        return -ENOMEM;
    }
    int rc = pci_elem_set(elem, key, text);
    free(text);
    return rc;
}

int pci_elem_remove(struct pci_doc *doc, struct pci_elem *elem)
{
    if (elem == doc->root) {
        return -EINVAL;
    }
    doc->nelements -= elem_free(elem);
    return 0;
}

uint64_t pci_busid_parse(const char *text)
{
    uint64_t id = 0;
    for (; text && *text; text++) {
        const char *digits = "0123456789abcdefABCDEF";
        const char *digit = strchr(digits, *text);
        if (digit) {
            size_t value = (size_t) (digit - digits);
            id = id << 4 | (value < 16 ? value : value - 6);
        } else if (*text != ':' && *text != '.') {
            break;
        }
    }
    return id;
}
