/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "gpuring-argument.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int argument_number(const char **text, uint64_t low, uint64_t high, uint64_t *value)
{
    unsigned long long number;
    char *end;

    if (!isdigit((unsigned char) **text)) {
        return -1;
    }
    errno = 0;
    number = strtoull(*text, &end, 10);
    if (errno != 0 || number < low || number > high) {
        return -1;
    }
    *value = number;
    *text = end;
    return 0;
}

int argument_bytes(const char **text, uint64_t *bytes)
{
    static const char units[] = "KMG";
    const char *after = *text, *unit;
    uint64_t number;
    unsigned shift;

    if (argument_number(&after, 0, UINT64_MAX, &number) != 0) {
        return -1;
    }
    unit = *after != '\0' ? strchr(units, toupper((unsigned char) *after)) : NULL;
    shift = unit != NULL ? 10 * (unsigned) (unit - units + 1) : 0;
    if (number > UINT64_MAX >> shift) {
        return -1;
    }
    *bytes = number << shift;
    *text = after + (unit != NULL);
    return 0;
}

int argument_whole(const char *text, uint64_t low, uint64_t high, uint64_t *value)
{
    uint64_t number;

    if (argument_number(&text, low, high, &number) != 0 || *text != '\0') {
        return -1;
    }
    *value = number;
    return 0;
}

void argument_message(const char *tool, const char *format, va_list args)
{
    fprintf(stderr, "%s: ", tool);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}
