/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Parser of directives, scopes and functions of PTX. It refuses everything that it does not
 * know. */
#include "test/ptx/ptx_parser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool need_type(struct ptx_parser *parser, enum ptx_type *type)
{
    for (int i = 0; i < PTX_TYPE_COUNT; i++) {
        if (parser->lex.word[0] == '.' && strcmp(parser->lex.word + 1, ptx_types[i].name) == 0) {
            *type = (enum ptx_type) i;
            ptx_next(&parser->lex);
            return true;
        }
    }
    return ptx_refuse(&parser->lex, "no type that is known here");
}

/* .reg TYPE NAME; or NAME<COUNT>; */
static bool read_registers(struct ptx_parser *parser)
{
    struct ptx_symbol symbol = {.kind = PTX_REGISTER, .count = 1};
    uint32_t *used;
    int64_t count = 1;

    if (!need_type(parser, &symbol.type) || parser->lex.kind != PTX_NAME) {
        return ptx_refuse(&parser->lex, "expected the name of registers here");
    }
    used = symbol.type == PTX_pred ? &parser->function->npredicates : &parser->function->nregisters;
    symbol.first = *used + (symbol.type == PTX_pred ? 2 : 0);
    ptx_declare(parser, symbol);
    if (ptx_take(&parser->lex, "<")) {
        struct ptx_symbol *last =
            (struct ptx_symbol *) parser->symbols.items + parser->symbols.count - 1;

        if (!ptx_need_number(&parser->lex, &count) || count < 1 || count > 100000) {
            return ptx_refuse(&parser->lex, "no number of registers");
        }
        last->kind = PTX_FAMILY;
        last->count = (uint32_t) count;
        ptx_need(&parser->lex, ">");
    }
    *used += (uint32_t) count;
    return ptx_need(&parser->lex, ";");
}

/* [.align N] TYPE [.ptr .align N] NAME [BYTES]: place a variable at *end, and advance *end. */
static bool read_variable(struct ptx_parser *parser, enum ptx_symbol_kind kind, uint32_t *end,
                          struct ptx_variable *variable)
{
    struct ptx_symbol symbol = {.kind = kind};
    int64_t align = 0, bytes;

    if (ptx_take(&parser->lex, ".align") && !ptx_need_number(&parser->lex, &align)) {
        return false;
    }
    if (!need_type(parser, &symbol.type)) {
        return false;
    }
    if (ptx_take(&parser->lex, ".ptr")) { /* type of the target, which is not needed */
        int64_t ignored;

        if (!ptx_need(&parser->lex, ".align") || !ptx_need_number(&parser->lex, &ignored)) {
            return false;
        }
    }
    bytes = ptx_types[symbol.type].bytes;
    align = align > bytes ? align : bytes;
    if (bytes == 0 || align > 16 || (align & (align - 1)) != 0) {
        return ptx_refuse(&parser->lex, "a variable of no size or of an unknown alignment");
    }
    symbol.first = (uint32_t) ((*end + align - 1) / align * align);
    if (!ptx_declare(parser, symbol)) {
        return false;
    }
    if (ptx_take(&parser->lex, "[")) {
        int64_t elements = 0;

        ptx_need_number(&parser->lex, &elements);
        ptx_need(&parser->lex, "]");
        if (elements < 1 || elements > 65536) {
            return ptx_refuse(&parser->lex, "a variable of no size or too large");
        }
        bytes *= elements;
    }
    ((struct ptx_symbol *) parser->symbols.items)[parser->symbols.count - 1].count =
        (uint32_t) bytes;
    *variable = (struct ptx_variable){symbol.first, (uint32_t) bytes};
    *end = symbol.first + (uint32_t) bytes;
    return !parser->lex.failed;
}

/* Read a shared variable of a kernel, or of all later kernels. */
static bool read_shared(struct ptx_parser *parser, struct ptx_function *function)
{
    struct ptx_variable *variables =
        realloc(function->variables, (function->nshared + 1) * sizeof *function->variables);

    if (variables == NULL) {
        return ptx_refuse(&parser->lex, "no memory");
    }
    function->variables = variables;
    if (function->shared == 0) {
        function->shared = PTX_SHARED_BASE;
    }
    if (!read_variable(parser, PTX_SHARED_VARIABLE, &function->shared,
                       &variables[function->nshared])) {
        return false;
    }
    function->nshared++;
    function->shared += PTX_SHARED_GAP;
    return ptx_need(&parser->lex, ";");
}

/* Give a kernel the shared variables of the module, before its own variables. */
static bool share_module(struct ptx_parser *parser)
{
    struct ptx_function *function = parser->function;
    size_t bytes = parser->module.nshared * sizeof *function->variables;

    if (bytes > 0) {
        function->variables = malloc(bytes);
        if (function->variables == NULL) {
            return ptx_refuse(&parser->lex, "no memory");
        }
        memcpy(function->variables, parser->module.variables, bytes);
    }
    function->nshared = parser->module.nshared;
    function->shared = parser->module.shared;
    return true;
}

static bool read_label(struct ptx_parser *parser, struct ptx_list *list)
{
    struct ptx_label *label = ptx_append(parser, list, sizeof *label);

    if (label == NULL) {
        return false;
    }
    label->name = ptx_copy_name(parser);
    label->at = parser->code.count;
    label->line = parser->lex.line;
    ptx_next(&parser->lex);
    return !parser->lex.failed;
}

static bool read_instruction(struct ptx_parser *parser)
{
    struct ptx_lex *lex = &parser->lex;
    uint32_t guard = PTX_PRED_TRUE;
    bool guard_not = false;

    if (ptx_take(lex, "@")) {
        guard_not = ptx_take(lex, "!");
        if (!ptx_register(parser, 0, false, &guard, NULL)) {
            return false;
        }
    }
    if (ptx_is(lex, "bra") || ptx_is(lex, "bra.uni")) {
        struct ptx_inst *inst;

        ptx_next(lex);
        inst = ptx_append(parser, &parser->code, sizeof *inst);
        if (inst == NULL) {
            return false;
        }
        *inst = (struct ptx_inst){
            .op = PTX_BRA,
            .guard = guard,
            .guard_not = guard_not,
            .to = {PTX_NO_SOURCE, PTX_NO_SOURCE},
            .sources = {PTX_NO_SOURCE, PTX_NO_SOURCE, PTX_NO_SOURCE, PTX_NO_SOURCE},
            .line = lex->line};
        parser->code.count--; /* a branch is identified by its number */
        read_label(parser, &parser->branches);
        parser->code.count++;
        return ptx_need(lex, ";");
    }
    return ptx_decode(parser, guard, guard_not);
}

static bool read_statement(struct ptx_parser *parser)
{
    struct ptx_lex *lex = &parser->lex;
    struct ptx_variable ignored;

    if (ptx_take(lex, ".reg")) {
        return read_registers(parser);
    }
    if (ptx_take(lex, ".param")) {
        return read_variable(parser, PTX_PARAMETER, &parser->parameters, &ignored) &&
               ptx_need(lex, ";");
    }
    if (parser->function->entry && ptx_take(lex, ".shared")) {
        return read_shared(parser, parser->function);
    }
    if (ptx_take(lex, ".pragma")) {
        /* The bytes that a load needs: the interpreter loads all of them. */
        if (lex->kind == PTX_STRING && strncmp(lex->word, "\"used_bytes_mask ", 17) == 0) {
            ptx_next(lex);
            return ptx_need(lex, ";");
        }
        return ptx_need(lex, "\"nounroll\"") && ptx_need(lex, ";");
    }
    if (lex->kind == PTX_NAME && lex->word[0] == '$') {
        return read_label(parser, &parser->labels) && ptx_need(lex, ":");
    }
    return read_instruction(parser);
}

/* Read a scope from after the opening brace to the closing brace. */
static bool read_scope(struct ptx_parser *parser, unsigned depth)
{
    uint32_t symbols = parser->symbols.count;

    while (!parser->lex.failed && !ptx_is(&parser->lex, "}")) {
        if (parser->lex.kind == PTX_END || depth > 8) {
            return ptx_refuse(&parser->lex, "scopes that do not end, or too many of them");
        }
        if (ptx_take(&parser->lex, "{")) {
            read_scope(parser, depth + 1);
        } else {
            read_statement(parser);
        }
    }
    ptx_forget_symbols(parser, symbols);
    return ptx_need(&parser->lex, "}");
}

static bool resolve_branches(struct ptx_parser *parser)
{
    const struct ptx_label *labels = parser->labels.items, *branches = parser->branches.items;
    struct ptx_inst *code = parser->code.items;

    for (uint32_t i = 0; i < parser->branches.count && !parser->lex.failed; i++) {
        uint32_t l = 0;

        while (l < parser->labels.count && strcmp(labels[l].name, branches[i].name) != 0) {
            l++;
        }
        if (l == parser->labels.count || labels[l].at >= parser->code.count) {
            snprintf(parser->lex.word, sizeof parser->lex.word, "%s", branches[i].name);
            parser->lex.line = branches[i].line;
            return ptx_refuse(&parser->lex, "no instruction has this label");
        }
        code[branches[i].at].target = labels[l].at;
    }
    ptx_forget_labels(&parser->labels);
    ptx_forget_labels(&parser->branches);
    return !parser->lex.failed;
}

/* (.param ..., .param ...) */
static bool read_parameters(struct ptx_parser *parser)
{
    struct ptx_function *function = parser->function;
    uint32_t of_kernel = PTX_KERNEL_PARAMETERS;

    if (!ptx_need(&parser->lex, "(") || ptx_take(&parser->lex, ")")) {
        return !parser->lex.failed;
    }
    do {
        if (function->nparameters == PTX_PARAMETERS) {
            return ptx_refuse(&parser->lex, "too many parameters");
        }
        ptx_need(&parser->lex, ".param");
        if (!read_variable(parser, PTX_PARAMETER,
                           function->entry ? &of_kernel : &parser->parameters,
                           &function->parameters[function->nparameters++])) {
            return false;
        }
    } while (ptx_take(&parser->lex, ","));
    return ptx_need(&parser->lex, ")");
}

static bool read_attributes(struct ptx_parser *parser)
{
    struct ptx_lex *lex = &parser->lex;
    int64_t x = 0, y = 1, z = 1;

    for (;;) {
        if (ptx_take(lex, ".maxntid")) {
            ptx_need_number(lex, &x);
            if (ptx_take(lex, ",") && ptx_need_number(lex, &y)) {
                ptx_need(lex, ",");
                ptx_need_number(lex, &z);
            }
            if (x < 1 || x > 1024 || y != 1 || z != 1) {
                return ptx_refuse(lex, "blocks of another shape than a row of threads");
            }
            parser->function->threads = (uint32_t) x;
        } else if (ptx_take(lex, ".minnctapersm")) {
            ptx_need_number(lex, &x);
        } else {
            return !lex->failed;
        }
    }
}

static bool ends(const struct ptx_parser *parser)
{
    const struct ptx_inst *last =
        (const struct ptx_inst *) parser->code.items + parser->code.count - 1;

    return parser->code.count > parser->function->first && last->guard == PTX_PRED_TRUE &&
           (last->op == PTX_RET || last->op == PTX_BRA);
}

static bool read_function(struct ptx_parser *parser, bool entry)
{
    uint32_t symbols = parser->symbols.count;
    struct ptx_function *function = ptx_append(parser, &parser->functions, sizeof *function);

    if (function == NULL) {
        return false;
    }
    parser->function = function;
    function->entry = entry;
    function->first = parser->code.count;
    if (!share_module(parser)) {
        return false;
    }
    parser->parameters = (parser->parameters + 15) / 16 * 16;
    if (!entry && ptx_take(&parser->lex, "(")) {
        ptx_need(&parser->lex, ".param");
        read_variable(parser, PTX_PARAMETER, &parser->parameters, &function->result);
        ptx_need(&parser->lex, ")");
    }
    if (parser->lex.kind != PTX_NAME) {
        return ptx_refuse(&parser->lex, "expected the name of a function here");
    }
    function->name = ptx_copy_name(parser);
    ptx_next(&parser->lex);
    if (!read_parameters(parser) || !read_attributes(parser) || !ptx_need(&parser->lex, "{") ||
        !read_scope(parser, 0)) {
        return false;
    }
    function->end = parser->code.count;
    if (!ends(parser)) {
        return ptx_refuse(&parser->lex, "a function before this does not end with ret or bra");
    }
    ptx_forget_symbols(parser, symbols);
    return resolve_branches(parser);
}

static bool read_module(struct ptx_parser *parser)
{
    struct ptx_lex *lex = &parser->lex;

    while (!lex->failed && lex->kind != PTX_END) {
        if (ptx_take(lex, ".version") || ptx_take(lex, ".target")) {
            ptx_next(lex);
        } else if (ptx_take(lex, ".address_size")) {
            ptx_need(lex, "64");
        } else if (ptx_take(lex, ".shared")) {
            read_shared(parser, &parser->module);
        } else if (ptx_take(lex, ".func")) {
            read_function(parser, false);
        } else if (ptx_take(lex, ".visible")) {
            ptx_need(lex, ".entry");
            read_function(parser, true);
        } else {
            return ptx_refuse(lex, "unknown here");
        }
    }
    return !lex->failed;
}

/* Move the results to the program, even if the text was refused. */
static void hand_over(struct ptx_parser *parser)
{
    struct ptx_program *program = parser->program;

    program->code = parser->code.items;
    program->ncode = parser->code.count;
    program->functions = parser->functions.items;
    program->nfunctions = parser->functions.count;
    program->calls = parser->calls.items;
    program->ncalls = parser->calls.count;
    program->constants = parser->constants.items;
    program->nconstants = parser->constants.count;
    program->parameters = (parser->parameters + 15) / 16 * 16;
    ptx_forget_symbols(parser, 0);
    ptx_forget_labels(&parser->labels);
    ptx_forget_labels(&parser->branches);
    free(parser->module.variables);
    free(parser->symbols.items);
    free(parser->labels.items);
    free(parser->branches.items);
}

struct ptx_program *ptx_program_parse(const char *text, char *why, size_t size)
{
    struct ptx_parser parser = {.program = calloc(1, sizeof *parser.program)};
    bool good;

    if (parser.program == NULL || (parser.program->text = strdup(text)) == NULL) {
        snprintf(why, size, "no memory for PTX");
        free(parser.program);
        return NULL;
    }
    ptx_lex_start(&parser.lex, parser.program->text, why, size);
    good = read_module(&parser);
    hand_over(&parser);
    if (!good) {
        ptx_program_free(parser.program);
        return NULL;
    }
    ptx_number_registers(parser.program);
    if (!ptx_rank_instructions(parser.program)) {
        snprintf(why, size, "no memory for PTX");
        ptx_program_free(parser.program);
        return NULL;
    }
    return parser.program;
}

/* Return the whole file as a string, or NULL if it cannot be read. */
static char *read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t length = 0, room = 0;

    while (file != NULL && !feof(file) && !ferror(file)) {
        if (length + 1 >= room) {
            char *larger = realloc(text, room = 2 * room + 65536);

            if (larger == NULL) {
                free(text);
                text = NULL;
                break;
            }
            text = larger;
        }
        length += fread(text + length, 1, room - length - 1, file);
    }
    if (file == NULL || ferror(file) || text == NULL) {
        free(text);
        text = NULL;
    } else {
        text[length] = '\0';
    }
    if (file != NULL) {
        fclose(file);
    }
    return text;
}

struct ptx_program *ptx_program_read(const char *path, char *why, size_t size)
{
    char *text = read_file(path);
    struct ptx_program *program = NULL;

    if (text == NULL) {
        snprintf(why, size, "cannot be read");
    } else {
        program = ptx_program_parse(text, why, size);
    }
    free(text);
    return program;
}
