/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Writes documents: two blanks a level, attributes in their order, empty elements closed at once.
 */
#define _GNU_SOURCE /* asprintf, vasprintf */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
            fputc((unsigned char) *text < 0x20 ? '?' : *text, out); /* XML has no other ones */
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

static int write_all(int fd, const char *text, size_t size)
{
    while (size) {
        ssize_t n = write(fd, text, size);
        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        text += n > 0 ? n : 0;
        size -= n > 0 ? (size_t) n : 0;
    }
    return 0;
}

/* Writes a new file beside PATH, then renames it. */
static int replace(const char *path, const char *text, size_t size)
{
    char *beside;
    if (asprintf(&beside, "%s.%ld.tmp", path, (long) getpid()) < 0) {
        return -ENOMEM;
    }
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    int rc = fd < 0 ? -errno : write_all(fd, text, size);
    if (fd >= 0 && close(fd) && !rc) {
        rc = -errno;
    }
    if (!rc && rename(beside, path)) {
        rc = -errno;
    }
    if (rc && fd >= 0) {
        unlink(beside);
    }
    free(beside);
    return rc;
}

/* Devices and pipes (/dev/stdout) are written in place: a rename would put a file there. */
static bool is_special(const char *path)
{
    struct stat info;
    return !stat(path, &info) && !S_ISREG(info.st_mode);
}

static int write_in_place(const char *path, const char *text, size_t size)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int rc = fd < 0 ? -errno : write_all(fd, text, size);
    if (fd >= 0 && close(fd) && !rc) {
        rc = -errno;
    }
    return rc;
}

int pci_doc_write(const struct pci_doc *doc, const char *path, struct pci_error *error)
{
    char *text;
    size_t size;
    int rc = pci_doc_format(doc, &text, &size, error);
    if (rc) {
        return rc;
    }
    rc = !strcmp(path, "-") ? write_all(STDOUT_FILENO, text, size)
         : is_special(path) ? write_in_place(path, text, size)
                            : replace(path, text, size);
    free(text);
    if (rc) {
        return pci_error_set(error, rc, "cannot write topology file %.300s: %s", path,
                             strerror(-rc));
    }
    return 0;
}
