/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "test/ptx/ptx_lex.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ptx_lex_start(struct ptx_lex *lex, const char *text, char *why, size_t size)
{
    *lex = (struct ptx_lex){.at = text, .lines = 1, .why = why, .why_size = size};
    ptx_next(lex);
}

bool ptx_refuse(struct ptx_lex *lex, const char *reason)
{
    if (!lex->failed) {
        snprintf(lex->why, lex->why_size, "PTX line %u: \"%s\": %s", lex->line, lex->word, reason);
        lex->failed = true;
        lex->kind = PTX_END;
        lex->at = "";
    }
    return false;
}

static void skip_space(struct ptx_lex *lex)
{
    for (;; lex->at++) {
        if (lex->at[0] == '/' && lex->at[1] == '/') {
            lex->at += strcspn(lex->at, "\n");
        }
        if (*lex->at == '\n') {
            lex->lines++;
        }
        if (*lex->at == '\0' || !isspace((unsigned char) *lex->at)) {
            return;
        }
    }
}

static bool in_name(char c)
{
    return c != '\0' && (isalnum((unsigned char) c) || strchr("_$%.", c) != NULL);
}

/* Read a number: decimal, 0x..., or the bits of a float, 0f... and 0d... */
static void read_number(struct ptx_lex *lex)
{
    bool negative = lex->word[0] == '-';
    const char *digits = lex->word + negative;
    int base = 10;
    char *end;

    if (digits[0] == '0' && digits[1] != '\0' && strchr("xfdXFD", digits[1]) != NULL) {
        base = 16;
        digits += 2;
    }
    lex->number = (int64_t) strtoull(digits, &end, base);
    if (*end == 'U' && end[1] == '\0') {
        end++;
    }
    if (*end != '\0' || end == digits) {
        lex->kind = PTX_NAME; /* for example a version */
    }
    if (negative) {
        lex->number = -lex->number;
    }
}

void ptx_next(struct ptx_lex *lex)
{
    size_t length = 1;

    if (lex->failed) {
        return;
    }
    skip_space(lex);
    lex->line = lex->lines;
    if (*lex->at == '\0') {
        lex->kind = PTX_END;
        strcpy(lex->word, "the end");
        return;
    }
    if (*lex->at == '"') {
        lex->kind = PTX_STRING;
        length = strcspn(lex->at + 1, "\"\n") + 2;
    } else if (in_name(*lex->at) || (*lex->at == '-' && isdigit((unsigned char) lex->at[1]))) {
        lex->kind = *lex->at == '-' || isdigit((unsigned char) *lex->at) ? PTX_NUMBER : PTX_NAME;
        while (in_name(lex->at[length])) {
            length++;
        }
    } else {
        lex->kind = PTX_MARK;
    }
    if (length >= sizeof lex->word) {
        snprintf(lex->word, sizeof lex->word, "%s", lex->at);
        ptx_refuse(lex, "too long a word");
        return;
    }
    memcpy(lex->word, lex->at, length);
    lex->word[length] = '\0';
    lex->at += length;
    if (lex->kind == PTX_NUMBER) {
        read_number(lex);
    }
}

bool ptx_is(const struct ptx_lex *lex, const char *word)
{
    return lex->kind != PTX_END && strcmp(lex->word, word) == 0;
}

bool ptx_take(struct ptx_lex *lex, const char *word)
{
    bool taken = ptx_is(lex, word);

    if (taken) {
        ptx_next(lex);
    }
    return taken;
}

bool ptx_need(struct ptx_lex *lex, const char *word)
{
    char reason[64];

    if (ptx_take(lex, word)) {
        return true;
    }
    snprintf(reason, sizeof reason, "expected \"%.20s\" here", word);
    return ptx_refuse(lex, reason);
}

bool ptx_need_number(struct ptx_lex *lex, int64_t *number)
{
    if (lex->kind != PTX_NUMBER) {
        return ptx_refuse(lex, "expected a number here");
    }
    *number = lex->number;
    ptx_next(lex);
    return true;
}
