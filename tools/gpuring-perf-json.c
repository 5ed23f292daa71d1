/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* JSON files. */
#include "gpuring-perf.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/xml/pci_file.h"

int perf_json_try(const char *path)
{
    char why[128];

    return strcmp(path, "-") == 0 || pci_file_write(path, NULL, 0, why, sizeof why) == 0
               ? 0
               : perf_message("[cannot-write] cannot write %s: %s", path, why);
}

int perf_json_write(const struct json_t *document, const char *path)
{
    char *text = json_dumps(document, JSON_INDENT(1) | JSON_PRESERVE_ORDER), why[128];
    int status = 0;

    if (text == NULL) {
        return perf_message("[cannot-write] cannot write %s: no JSON", path);
    }
    if (strcmp(path, "-") == 0) {
        puts(text);
    } else if (pci_file_write(path, text, strlen(text), why, sizeof why) != 0) {
        status = perf_message("[cannot-write] cannot write %s: %s", path, why);
    }
    free(text);
    return status;
}
