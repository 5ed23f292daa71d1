/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Lexer of PTX for ptx_parse.c and ptx_decode.c. */
#ifndef GPURING_PTX_LEX_H
#define GPURING_PTX_LEX_H

#include "test/ptx/ptx_code.h"

enum ptx_word { PTX_END, PTX_NAME, PTX_NUMBER, PTX_STRING, PTX_MARK };

struct ptx_lex {
    const char *at;
    uint32_t line;      /* line of the current word */
    enum ptx_word kind; /* kind of the current word */
    char word[256];     /* names: also %registers, .directives and op.codes; marks: one character */
    int64_t number;     /* value or bits of a number */
    uint32_t lines;     /* number of lines read so far */
    bool failed;
    char *why; /* description of the first failure */
    size_t why_size;
};

void ptx_lex_start(struct ptx_lex *lex, const char *text, char *why, size_t size);
void ptx_next(struct ptx_lex *lex);
/* Write the current line and word to `why`, and end the text here. Always return false. */
bool ptx_refuse(struct ptx_lex *lex, const char *reason);
bool ptx_is(const struct ptx_lex *lex, const char *word);
/* Skip the current word if it is this one. Return false if it is another word. */
bool ptx_take(struct ptx_lex *lex, const char *word);
/* The same, but refuse the text if it is another word. */
bool ptx_need(struct ptx_lex *lex, const char *word);
bool ptx_need_number(struct ptx_lex *lex, int64_t *number);

#endif
