/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* What is known while a text is read, for ptx_parse.c, ptx_decode.c and ptx_symbols.c. */
#ifndef GPURING_PTX_PARSER_H
#define GPURING_PTX_PARSER_H

#include "test/ptx/ptx_lex.h"

enum ptx_symbol_kind {
    PTX_REGISTER,
    PTX_FAMILY, /* registers name0 .. */
    PTX_PARAMETER,
    PTX_SHARED_VARIABLE,
};

struct ptx_symbol {
    char *name;
    enum ptx_symbol_kind kind;
    enum ptx_type type;
    uint32_t first, count; /* registers; or where the variable is, and its bytes */
};

struct ptx_label {
    char *name;
    uint32_t at; /* instruction: of the label, or that branches there */
    uint32_t line;
};

struct ptx_list {
    void *items;
    uint32_t count, room;
};

struct ptx_parser {
    struct ptx_lex lex;
    struct ptx_program *program;
    struct ptx_function *function; /* of the instructions that are read */
    struct ptx_list code, functions, calls, constants, symbols, labels, branches;
    uint32_t parameters;        /* bytes in use */
    struct ptx_function module; /* the shared variables of all kernels */
};

/* In operands while they are read: a predicate, not a register. */
#define PTX_PREDICATE UINT32_C(0x40000000)

/* ptx_decode.c: the instruction whose opcode is the current word, to its semicolon. */
bool ptx_decode(struct ptx_parser *parser, uint32_t guard, bool guard_not);
/* ptx_program.c: what ptx_parse.c has numbered within functions is numbered within warps. */
void ptx_number_registers(struct ptx_program *program);

/* ptx_symbols.c */
/* Room for one more, of so many bytes, at its end; NULL: refused for lack of memory. */
void *ptx_append(struct ptx_parser *parser, struct ptx_list *list, size_t bytes);
/* The symbol that a name means, the innermost one; *index: of the register. NULL: none. */
const struct ptx_symbol *ptx_find(const struct ptx_parser *parser, const char *name,
                                  uint32_t *index);
/* A register, or a predicate, from the current word; of so many bytes (0: a predicate), or more. */
bool ptx_register(struct ptx_parser *parser, unsigned bytes, bool wider, uint32_t *operand,
                  uint8_t *width);
/* Copy the current word; NULL: refused for lack of memory. */
char *ptx_copy_name(struct ptx_parser *parser);
/* The current word is the name of this symbol from now on. */
bool ptx_declare(struct ptx_parser *parser, struct ptx_symbol description);
/* All but so many; all labels. */
void ptx_forget_symbols(struct ptx_parser *parser, uint32_t count);
void ptx_forget_labels(struct ptx_list *list);

#endif
