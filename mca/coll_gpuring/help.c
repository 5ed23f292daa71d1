/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/help.h"

#include <stdio.h>
#include <string.h>

/* The file as it is, and a zero. The build copies it to where the compiler runs. */
__asm__(".pushsection .rodata\n"
        ".globl gpuring_help_texts\n"
        ".hidden gpuring_help_texts\n"
        ".type gpuring_help_texts, %object\n"
        "gpuring_help_texts:\n"
        ".incbin \".libs/help-mpi-coll-gpuring.txt\"\n"
        ".byte 0\n"
        ".size gpuring_help_texts, . - gpuring_help_texts\n"
        ".popsection\n");
extern const char gpuring_help_texts[];

bool gpuring_help_same(const char *path)
{
    const char *texts = gpuring_help_texts;
    FILE *file = fopen(path, "r");
    char part[1024];
    size_t n = 0;

    while (file != NULL && (n = fread(part, 1, sizeof part, file)) > 0 && strnlen(texts, n) == n &&
           memcmp(part, texts, n) == 0) {
        texts += n;
    }
    if (file != NULL) {
        fclose(file);
    }
    return file != NULL && n == 0 && *texts == '\0';
}

/* Of a line that is "[topic]": does it name this one? */
static bool begins(const char *line, const char *topic)
{
    size_t length = strlen(topic);

    return strncmp(line + 1, topic, length) == 0 && line[1 + length] == ']';
}

void gpuring_help_format(const char *topic, char *format, size_t size)
{
    size_t used = 0;
    bool inside = false;

    for (const char *line = gpuring_help_texts; *line != '\0';) {
        size_t length = strcspn(line, "\n");

        length += line[length] == '\n';
        if (line[0] == '[') {
            inside = begins(line, topic);
        } else if (inside && line[0] != '#' && used + length < size) {
            memcpy(format + used, line, length);
            used += length;
        }
        line += length;
    }
    format[used] = '\0';
}
