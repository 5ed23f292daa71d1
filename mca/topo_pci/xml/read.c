/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Read documents with expat. DOCTYPE and entities are rejected, so only the given text is read. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <expat.h>

#include "mca/topo_pci/xml/doc.h"
#include "mca/topo_pci/xml/pci_file.h"

static const char no_entities[] = "DOCTYPE and entities are not accepted";

struct reading {
    XML_Parser parser;
    struct pci_doc *doc;
    struct pci_elem *at; /* the open element */
    struct pci_error *error;
    int rc; /* not 0: reading has been stopped */
};

/* Expat 2.9 has a line number of 64 bits and deprecates the other function. */
static unsigned long line_of(XML_Parser parser)
{
#if XML_MAJOR_VERSION > 2 || (XML_MAJOR_VERSION == 2 && XML_MINOR_VERSION >= 9)
    return (unsigned long) XML_GetCurrentLineNumber64(parser);
#else
    return (unsigned long) XML_GetCurrentLineNumber(parser);
#endif
}

/* Stop reading, and keep the message of the first failure, with the line. */
__attribute__((format(printf, 3, 4))) static void stop(struct reading *reading, int code,
                                                       const char *format, ...)
{
    char what[200];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    reading->rc = code == -ENOMEM
                      ? pci_error_memory(reading->error)
                      : pci_error_set(reading->error, code, "topology XML, line %lu: %s",
                                      line_of(reading->parser), what);
    XML_StopParser(reading->parser, XML_FALSE);
}

/* Add the attributes. Expat has checked that no name is repeated. */
static void read_attributes(struct reading *reading, const XML_Char **attributes)
{
    for (; !reading->rc && *attributes; attributes += 2) {
        int rc = pci_elem_set(reading->at, attributes[0], attributes[1]);
        if (rc) {
            stop(reading, rc, "more than %u attributes of an element", PCI_DOC_MAX_ATTRIBUTES);
        }
    }
}

static void check_root(struct reading *reading)
{
    const char *version = pci_elem_get(reading->at, "version");
    if (!pci_elem_is(reading->at, "system")) {
        stop(reading, -EINVAL, "starts with <%.40s>, not with <system>", reading->at->name);
    } else if (version && strcmp(version, "1")) {
        stop(reading, -EINVAL, "version %.40s; only version 1 is known", version);
    }
}

/* Expat may report elements after the point where it was stopped, which rc detects. */
static void on_start(void *context, const XML_Char *name, const XML_Char **attributes)
{
    struct reading *reading = context;
    struct pci_elem *parent = reading->at;
    int rc = reading->rc ? 0 : pci_elem_add(reading->doc, parent, name, &reading->at);
    if (rc && parent && parent->depth >= PCI_DOC_MAX_DEPTH) {
        stop(reading, rc, "more than %u levels of elements", PCI_DOC_MAX_DEPTH);
    } else if (rc) {
        stop(reading, rc, "more than %u elements", PCI_DOC_MAX_ELEMENTS);
    }
    read_attributes(reading, attributes);
    if (!parent && !reading->rc) {
        check_root(reading);
    }
}

static void on_end(void *context, const XML_Char *name)
{
    struct reading *reading = context;
    (void) name;
    if (!reading->rc) {
        reading->at = reading->at->parent;
    }
}

static void on_doctype(void *context, const XML_Char *name, const XML_Char *system,
                       const XML_Char *public, int internal)
{
    (void) name, (void) system, (void) public, (void) internal;
    stop(context, -EINVAL, "%s", no_entities);
}

/* Report an error that expat detected. */
static void on_fault(struct reading *reading)
{
    enum XML_Error fault = XML_GetErrorCode(reading->parser);
    if (fault == XML_ERROR_NO_MEMORY) {
        stop(reading, -ENOMEM, "%s", "");
    } else if (fault == XML_ERROR_UNDEFINED_ENTITY) {
        stop(reading, -EINVAL, "%s", no_entities);
    } else if (fault == XML_ERROR_NO_ELEMENTS && reading->at) {
        stop(reading, -EINVAL, "the text ends inside of <%.40s>", reading->at->name);
    } else {
        stop(reading, -EINVAL, "%s", XML_ErrorString(fault));
    }
}

/*
 * Return true if the text can be XML in UTF-8. Expat interprets other first bytes as UTF-16,
 * regardless of the requested encoding.
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
    if (size > PCI_DOC_MAX_BYTES) {
        return pci_error_set(error, -E2BIG, "topology XML of %zu bytes; at most %zu are accepted",
                             size, PCI_DOC_MAX_BYTES);
    }
    if (!size) {
        return pci_error_set(error, -EINVAL, "topology XML is empty");
    }
    if (!looks_like_xml(text, size)) {
        return pci_error_set(error, -EINVAL, "topology XML, line 1: not XML in UTF-8");
    }
    reading.doc = calloc(1, sizeof *reading.doc);
    reading.parser = XML_ParserCreate("UTF-8"); /* overrides the encoding that the text declares */
    if (!reading.doc || !reading.parser) {
        reading.rc = pci_error_memory(error);
    } else {
        XML_SetUserData(reading.parser, &reading);
        XML_SetElementHandler(reading.parser, on_start, on_end);
        XML_SetStartDoctypeDeclHandler(reading.parser, on_doctype);
        if (XML_Parse(reading.parser, text, (int) size, XML_TRUE) != XML_STATUS_OK && !reading.rc) {
            on_fault(&reading);
        }
    }
    XML_ParserFree(reading.parser);
    if (reading.rc) {
        pci_doc_free(reading.doc);
        return reading.rc;
    }
    *doc = reading.doc;
    return 0;
}

/* Read the text of a file or of standard input. The message contains its name. */
static int read_text(const char *path, char **text, size_t *size, struct pci_error *error)
{
    bool standard = !strcmp(path, "-");
    char why[200];
    int rc = standard
                 ? pci_file_read_open(STDIN_FILENO, PCI_DOC_MAX_BYTES, text, size, why, sizeof why)
                 : pci_file_read(path, PCI_DOC_MAX_BYTES, text, size, why, sizeof why);
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
