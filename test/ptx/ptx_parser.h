/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* State of the parser, for ptx_parse.c, ptx_decode.c and ptx_symbols.c. */
#ifndef GPURING_PTX_PARSER_H
#define GPURING_PTX_PARSER_H

#include "test/ptx/ptx_lex.h"

enum ptx_symbol_kind {
    PTX_REGISTER,
    PTX_FAMILY, /* registers name0, name1, ... */
    PTX_PARAMETER,
    PTX_SHARED_VARIABLE,
};

struct ptx_symbol {
    char *name;
    enum ptx_symbol_kind kind;
    enum ptx_type type;
    uint32_t first, count; /* of registers; or place and bytes of a variable */
};

struct ptx_label {
    char *name;
    uint32_t at; /* instruction of the label, or instruction that branches there */
    uint32_t line;
};

struct ptx_list {
    void *items;
    uint32_t count, room;
};

struct ptx_parser {
    struct ptx_lex lex;
    struct ptx_program *program;
    struct ptx_function *function; /* function whose instructions are read */
    struct ptx_list code, functions, calls, constants, symbols, labels, branches;
    uint32_t parameters;        /* bytes in use */
    struct ptx_function module; /* the shared variables of all kernels */
};

/* Flag of operands in the parser: a predicate, not a register. */
#define PTX_PREDICATE UINT32_C(0x40000000)

/* ptx_decode.c: read the instruction whose opcode is the current word, including its semicolon. */
bool ptx_decode(struct ptx_parser *parser, uint32_t guard, bool guard_not);
/* ptx_program.c: replace the register numbers of functions with numbers within a warp. */
void ptx_number_registers(struct ptx_program *program);
/* Set the ranks of all instructions. Return false if there is no memory. */
bool ptx_rank_instructions(struct ptx_program *program);

/* ptx_symbols.c */
/* Append a zeroed item of `bytes` bytes to a list. Return NULL if there is no memory, which also
 * refuses the text. */
void *ptx_append(struct ptx_parser *parser, struct ptx_list *list, size_t bytes);
/* Return the innermost symbol with this name, or NULL. *index is the index of a register. */
const struct ptx_symbol *ptx_find(const struct ptx_parser *parser, const char *name,
                                  uint32_t *index);
/* Read the current word as a register of `bytes` bytes, or as a predicate if that is 0. If `wider`,
 * accept wider registers, too. */
bool ptx_register(struct ptx_parser *parser, unsigned bytes, bool wider, uint32_t *operand,
                  uint8_t *width);
/* Copy the current word. Return NULL if there is no memory, which also refuses the text. */
char *ptx_copy_name(struct ptx_parser *parser);
/* Declare a symbol whose name is the current word. */
bool ptx_declare(struct ptx_parser *parser, struct ptx_symbol description);
/* Remove all symbols except for the first `count`; remove all labels. */
void ptx_forget_symbols(struct ptx_parser *parser, uint32_t count);
void ptx_forget_labels(struct ptx_list *list);

#endif
