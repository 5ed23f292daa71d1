/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Reads documents through libxml2's streaming reader, with network, DOCTYPE and entities refused.
 */
#define _GNU_SOURCE /* strcasestr */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libxml/xmlreader.h>

#include "mca/topo_pci/graph/internal.h"
#include "mca/topo_pci/xml/pci_file.h"

struct reading {
    xmlTextReaderPtr reader;
    struct pci_doc *doc;
    struct pci_elem *at; /* the open element */
    struct pci_error *error;
    char fault[256]; /* what libxml2 said, first line of the first message */
};

static int line(const struct reading *reading)
{
    return xmlTextReaderGetParserLineNumber(reading->reader);
}

/* libxml2 calls this for every error and warning; the first one is the cause. */
static void on_fault(void *context, xmlErrorPtr fault)
{
    struct reading *reading = context;
    if (!reading->fault[0] && fault->level >= XML_ERR_ERROR && fault->message) {
        /* How it puts a limit of its own varies, but it always has this word in it. */
        const char *text = strcasestr(fault->message, "huge")
                               ? "a text or comment is longer than 10 MB"
                               : fault->message;
        strncpy(reading->fault, text, sizeof(reading->fault) - 1);
        reading->fault[strcspn(reading->fault, "\n")] = '\0';
    }
}

static int too_big(struct reading *reading, const char *what, size_t limit)
{
    return pci_error_set(reading->error, -E2BIG, "topology XML, line %d: more than %zu %s",
                         line(reading), limit, what);
}

static int read_attributes(struct reading *reading)
{
    int more = xmlTextReaderMoveToFirstAttribute(reading->reader);
    size_t n = 0;
    while (more == 1) {
        const char *key = (const char *) xmlTextReaderConstName(reading->reader);
        const char *value = (const char *) xmlTextReaderConstValue(reading->reader);
        int rc = key ? pci_elem_put(reading->at, key, value ? value : "") : -ENOMEM;
        if (rc == -E2BIG || ++n > PCI_DOC_MAX_ATTRIBUTES) {
            return too_big(reading, "attributes of an element", PCI_DOC_MAX_ATTRIBUTES);
        }
        if (rc) {
            return pci_error_memory(reading->error);
        }
        more = xmlTextReaderMoveToNextAttribute(reading->reader);
    }
    xmlTextReaderMoveToElement(reading->reader);
    return 0;
}

static int check_root(struct reading *reading)
{
    const char *version = pci_elem_get(reading->at, "version");
    if (!pci_elem_is(reading->at, "system")) {
        return pci_error_set(reading->error, -EINVAL,
                             "topology XML, line %d: starts with <%.40s>, not with <system>",
                             line(reading), reading->at->name);
    }
    if (version && strcmp(version, "1")) {
        return pci_error_set(reading->error, -EINVAL,
                             "topology XML, line %d: version %.40s; only version 1 is known",
                             line(reading), version);
    }
    return 0;
}

static int open_element(struct reading *reading)
{
    const char *name = (const char *) xmlTextReaderConstName(reading->reader);
    bool closed = xmlTextReaderIsEmptyElement(reading->reader) == 1;
    struct pci_elem *parent = reading->at;
    int rc = !name    ? -ENOMEM
             : parent ? pci_elem_append(reading->doc, parent, name, &reading->at)
                      : pci_doc_start(reading->doc, name);
    if (rc == -E2BIG) {
        return parent->depth >= PCI_DOC_MAX_DEPTH
                   ? too_big(reading, "levels of elements", PCI_DOC_MAX_DEPTH)
                   : too_big(reading, "elements", PCI_DOC_MAX_ELEMENTS);
    }
    if (rc) {
        return pci_error_memory(reading->error);
    }
    if (!parent) {
        reading->at = reading->doc->root;
    }
    rc = read_attributes(reading);
    if (!rc && !parent) {
        rc = check_root(reading);
    }
    if (closed) {
        reading->at = parent;
    }
    return rc;
}

static int read_node(struct reading *reading)
{
    switch (xmlTextReaderNodeType(reading->reader)) {
    case XML_READER_TYPE_ELEMENT:
        return open_element(reading);
    case XML_READER_TYPE_END_ELEMENT:
        reading->at = reading->at ? reading->at->parent : NULL;
        return 0;
    case XML_READER_TYPE_DOCUMENT_TYPE:
    case XML_READER_TYPE_ENTITY_REFERENCE:
        return pci_error_set(reading->error, -EINVAL,
                             "topology XML, line %d: DOCTYPE and entities are not accepted",
                             line(reading));
    default:
        return 0; /* text, comments, processing instructions */
    }
}

static int read_all(struct reading *reading)
{
    int more;
    while ((more = xmlTextReaderRead(reading->reader)) == 1) {
        int rc = read_node(reading);
        if (rc) {
            return rc;
        }
    }
    if (more < 0) {
        return pci_error_set(reading->error, -EINVAL, "topology XML, line %d: %s", line(reading),
                             reading->fault[0] ? reading->fault : "not well-formed");
    }
    return 0;
}

/*
 * Whether this can be XML in UTF-8. Anything else is kept from libxml2, which would guess UTF-16 or
 * EBCDIC from the first bytes and print what its converters dislike to standard error.
 */
static bool looks_like_xml(const char *text, size_t size)
{
    static const char mark[] = "\xef\xbb\xbf"; /* of byte order */
    size_t start = size > 3 && !memcmp(text, mark, 3) ? 3 : 0;
    return strchr("<\t\n\r ", text[start]) && !memchr(text, '\0', size);
}

int pci_doc_parse(const void *text, size_t size, struct pci_doc **doc, struct pci_error *error)
{
    struct reading reading = {.error = error};
    if (size > PCI_DOC_MAX_BYTES || size > INT_MAX) {
        return pci_error_set(error, -E2BIG, "topology XML of %zu bytes; at most %zu are accepted",
                             size, PCI_DOC_MAX_BYTES);
    }
    if (!size) {
        return pci_error_set(error, -EINVAL, "topology XML is empty");
    }
    if (!looks_like_xml(text, size)) {
        return pci_error_set(error, -EINVAL, "topology XML, line 1: not XML in UTF-8");
    }
    reading.doc = pci_doc_alloc();
    /* What the text says about its encoding is not asked. */
    reading.reader = xmlReaderForMemory(text, (int) size, NULL, "UTF-8",
                                        XML_PARSE_NONET | XML_PARSE_NOBLANKS | XML_PARSE_COMPACT |
                                            XML_PARSE_IGNORE_ENC);
    if (!reading.doc || !reading.reader) {
        pci_doc_free(reading.doc);
        xmlFreeTextReader(reading.reader);
        return pci_error_memory(error);
    }
    xmlTextReaderSetStructuredErrorHandler(reading.reader, on_fault, &reading);
    int rc = read_all(&reading);
    if (!rc && !reading.doc->root) {
        rc = pci_error_set(error, -EINVAL, "topology XML has no element");
    }
    xmlFreeTextReader(reading.reader);
    if (rc) {
        pci_doc_free(reading.doc);
        return rc;
    }
    *doc = reading.doc;
    return 0;
}

/* The text of a file, or of standard input; the message names it. */
static int read_text(const char *path, char **text, size_t *size, struct pci_error *error)
{
    bool standard = !strcmp(path, "-");
    char why[200];
    int rc = standard
                 ? pci_file_read_open(STDIN_FILENO, PCI_DOC_MAX_BYTES, text, size, why, sizeof(why))
                 : pci_file_read(path, PCI_DOC_MAX_BYTES, text, size, why, sizeof(why));
    return rc ? pci_error_set(error, rc, "%.300s: %s", standard ? "standard input" : path, why) : 0;
}

int pci_doc_read(const char *path, struct pci_doc **doc, struct pci_error *error)
{
    struct pci_error cause = {""};
    char *text;
    size_t size;
    int rc = read_text(path, &text, &size, error);
    if (rc) {
        return rc;
    }
    rc = pci_doc_parse(text, size, doc, &cause);
    free(text);
    if (rc) {
        pci_error_set(error, rc, "%.200s: %.300s", strcmp(path, "-") ? path : "standard input",
                      cause.text);
    }
    return rc;
}
