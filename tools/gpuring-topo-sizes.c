/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* Lists of sizes: 1K,64K,1M or 1K-1G (powers of two). */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpuring-argument.h"
#include "gpuring-topo-machine.h"

enum {
    SIZES_MAX = 1024,
};

static const char sizes_default[] = "1K-1G";

/* Read a size that is not 0 and can be doubled without overflow. */
static int size_read(const char **text, uint64_t *size)
{
    return argument_bytes(text, size) == 0 && *size > 0 && *size <= UINT64_MAX >> 1 ? 0 : -1;
}

static int size_add(uint64_t *sizes, size_t *count, uint64_t size)
{
    if (*count >= SIZES_MAX) {
        return -1;
    }
    sizes[(*count)++] = size;
    return 0;
}

static int sizes_parse(const char *text, uint64_t *sizes, size_t *count)
{
    do {
        uint64_t first, last;

        if (size_read(&text, &first) != 0) {
            return -1;
        }
        last = first;
        if (*text == '-') {
            text++;
            if (size_read(&text, &last) != 0 || last < first) {
                return -1;
            }
        }
        for (; first <= last; first *= 2) {
            if (size_add(sizes, count, first) != 0) {
                return -1;
            }
        }
    } while (*text == ',' && *++text);
    return *text ? -1 : 0;
}

int topo_sizes_read(const struct topo_options *options, uint64_t **sizes, size_t *count)
{
    const char *text = options->sizes ? options->sizes : sizes_default;

    *count = 0;
    *sizes = malloc(SIZES_MAX * sizeof(**sizes));
    if (!*sizes) {
        topo_message("%s", strerror(ENOMEM));
        return TOPO_EXIT_FAILURE;
    }
    if (sizes_parse(text, *sizes, count) != 0) {
        topo_message("--sizes: '%s' is not a list of at most %d sizes (1K,64K or 1K-1G)", text,
                     SIZES_MAX);
        free(*sizes);
        return TOPO_EXIT_USAGE;
    }
    return TOPO_EXIT_OK;
}
