/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Words of a PTX text, for ptx_parse.c and ptx_decode.c. */
#ifndef GPURING_PTX_LEX_H
#define GPURING_PTX_LEX_H

#include "test/ptx/ptx_code.h"

enum ptx_word { PTX_END, PTX_NAME, PTX_NUMBER, PTX_STRING, PTX_MARK };

struct ptx_lex {
    const char *at;
    uint32_t line;      /* of the word */
    enum ptx_word kind; /* of the current word */
    char word[256];     /* names: also %registers, .directives and op.codes; marks: one character */
    int64_t number;     /* its value, or bits */
    uint32_t lines;     /* read so far */
    bool failed;
    char *why; /* of the first failure */
    size_t why_size;
};

void ptx_lex_start(struct ptx_lex *lex, const char *text, char *why, size_t size);
void ptx_next(struct ptx_lex *lex);
/* Says in `why` which line and word are not understood; the text ends here. Always false. */
bool ptx_refuse(struct ptx_lex *lex, const char *reason);
bool ptx_is(const struct ptx_lex *lex, const char *word);
/* The current word, if it is this one, is passed over. */
bool ptx_take(struct ptx_lex *lex, const char *word);
/* The same; anything else is refused. */
bool ptx_need(struct ptx_lex *lex, const char *word);
bool ptx_need_number(struct ptx_lex *lex, int64_t *number);

#endif
