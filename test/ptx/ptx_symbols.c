/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Symbols of PTX (registers, variables and labels), and growing lists. */
#include "test/ptx/ptx_parser.h"

#include <stdlib.h>
#include <string.h>

void *ptx_append(struct ptx_parser *parser, struct ptx_list *list, size_t bytes)
{
    void *item;

    if (list->count == list->room) {
        uint32_t room = list->room > 0 ? 2 * list->room : 64;
        void *items = realloc(list->items, room * bytes);

        if (items == NULL) {
            ptx_refuse(&parser->lex, "no memory");
            return NULL;
        }
        list->items = items;
        list->room = room;
    }
    item = (char *) list->items + list->count++ * bytes;
    memset(item, 0, bytes);
    return item;
}

char *ptx_copy_name(struct ptx_parser *parser)
{
    char *copy = strdup(parser->lex.word);

    if (copy == NULL) {
        ptx_refuse(&parser->lex, "no memory");
    }
    return copy;
}

const struct ptx_symbol *ptx_find(const struct ptx_parser *parser, const char *name,
                                  uint32_t *index)
{
    const struct ptx_symbol *symbols = parser->symbols.items;
    size_t stem = strlen(name);
    unsigned long number;

    while (stem > 0 && name[stem - 1] >= '0' && name[stem - 1] <= '9') {
        stem--;
    }
    number = strtoul(name + stem, NULL, 10);
    for (uint32_t i = parser->symbols.count; i-- > 0;) {
        const struct ptx_symbol *symbol = &symbols[i];

        if (symbol->kind == PTX_FAMILY && strncmp(symbol->name, name, stem) == 0 &&
            symbol->name[stem] == '\0' && name[stem] != '\0' && number < symbol->count) {
            *index = symbol->first + (uint32_t) number;
            return symbol;
        }
        if (symbol->kind != PTX_FAMILY && strcmp(symbol->name, name) == 0) {
            *index = symbol->first;
            return symbol;
        }
    }
    return NULL;
}

bool ptx_register(struct ptx_parser *parser, unsigned bytes, bool wider, uint32_t *operand,
                  uint8_t *width)
{
    struct ptx_lex *lex = &parser->lex;
    uint32_t index = 0;
    const struct ptx_symbol *symbol = ptx_find(parser, lex->word, &index);
    unsigned has = symbol != NULL ? ptx_types[symbol->type].bytes : 0;

    if (lex->kind != PTX_NAME || symbol == NULL || symbol->kind > PTX_FAMILY) {
        return ptx_refuse(lex, "expected a register here that is declared");
    }
    if (has != bytes && !(wider && bytes > 0 && has > bytes)) {
        return ptx_refuse(lex, "a register of another size than the instruction's");
    }
    *operand = bytes == 0 ? index | PTX_PREDICATE : index;
    if (width != NULL) {
        *width = (uint8_t) has;
    }
    ptx_next(lex);
    return true;
}

bool ptx_declare(struct ptx_parser *parser, struct ptx_symbol description)
{
    struct ptx_symbol *symbol = ptx_append(parser, &parser->symbols, sizeof *symbol);

    if (symbol != NULL) {
        *symbol = description;
        symbol->name = ptx_copy_name(parser);
        ptx_next(&parser->lex);
    }
    return !parser->lex.failed;
}

void ptx_forget_symbols(struct ptx_parser *parser, uint32_t count)
{
    struct ptx_symbol *symbols = parser->symbols.items;

    while (parser->symbols.count > count) {
        free(symbols[--parser->symbols.count].name);
    }
}

void ptx_forget_labels(struct ptx_list *list)
{
    struct ptx_label *labels = list->items;

    while (list->count > 0) {
        free(labels[--list->count].name);
    }
}
