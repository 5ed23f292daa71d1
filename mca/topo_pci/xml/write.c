/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Write documents with two blanks per level, attributes in order, and short empty elements. */
#include <stdio.h>
#include <stdlib.h>

#include "mca/topo_pci/xml/doc.h"

void pci_xml_put(FILE *out, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\t':
        case '\n':
        case '\r':
            fprintf(out, "&#%d;", *text);
            break;
        default:
            fputc((unsigned char) *text < 0x20 ? '?' : *text,
                  out); /* XML allows no other control characters */
        }
    }
}

static void put_open(FILE *out, const struct pci_elem *elem)
{
    fprintf(out, "%*s<%s", (int) (2 * (elem->depth - 1)), "", elem->name);
    for (size_t i = 0; i < elem->nattributes; i++) {
        fprintf(out, " %s=\"", elem->attributes[i].key);
        pci_xml_put(out, elem->attributes[i].value);
        fputc('"', out);
    }
    fputs(elem->first ? ">\n" : "/>\n", out);
}

static void put_doc(FILE *out, const struct pci_doc *doc)
{
    const struct pci_elem *elem = doc->root;
    while (elem) {
        put_open(out, elem);
        if (elem->first) {
            elem = elem->first;
            continue;
        }
        while (elem && !elem->next) {
            elem = elem->parent;
            if (elem) {
                fprintf(out, "%*s</%s>\n", (int) (2 * (elem->depth - 1)), "", elem->name);
            }
        }
        elem = elem ? elem->next : NULL;
    }
}

int pci_doc_format(const struct pci_doc *doc, char **text, size_t *size, struct pci_error *error)
{
    char *buffer = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&buffer, &length);
    if (!out) {
        return pci_error_memory(error);
    }
    put_doc(out, doc);
    bool failed = ferror(out);
    if (fclose(out) || failed) {
        free(buffer);
        return pci_error_memory(error);
    }
    *text = buffer;
    if (size) {
        *size = length;
    }
    return 0;
}
