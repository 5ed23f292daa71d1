/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Programs after parsing: numbers of registers, ranks of instructions, and release. */
#include "test/ptx/ptx_parser.h"

#include <stdlib.h>
#include <string.h>

static void move_operand(uint32_t *operand, const struct ptx_function *function)
{
    if (*operand == PTX_NO_SOURCE || (*operand & PTX_CONSTANT) != 0) {
        return;
    }
    if ((*operand & PTX_PREDICATE) != 0) {
        *operand &= ~PTX_PREDICATE;
        *operand += *operand > PTX_PRED_TRUE ? function->predicates : 0;
    } else {
        *operand += function->registers;
    }
}

/* Each function gets separate registers. The registers of all entries begin after those. */
void ptx_number_registers(struct ptx_program *program)
{
    uint32_t registers = 0, predicates = 0;

    for (uint32_t f = 0; f < program->nfunctions; f++) {
        struct ptx_function *function = &program->functions[f];

        if (!function->entry) {
            function->registers = registers;
            function->predicates = predicates;
            registers += function->nregisters;
            predicates += function->npredicates;
        }
    }
    for (uint32_t f = 0; f < program->nfunctions; f++) {
        struct ptx_function *function = &program->functions[f];
        uint32_t last_register, last_predicate;

        if (function->entry) {
            function->registers = registers;
            function->predicates = predicates;
        }
        last_register = function->registers + function->nregisters;
        last_predicate = function->predicates + function->npredicates + 2;
        program->registers =
            last_register > program->registers ? last_register : program->registers;
        program->predicates =
            last_predicate > program->predicates ? last_predicate : program->predicates;
        for (uint32_t i = function->first; i < function->end; i++) {
            struct ptx_inst *inst = &program->code[i];

            for (int t = 0; t < 4; t++) {
                move_operand(&inst->to[t], function);
            }
            for (int s = 0; s < PTX_SOURCES; s++) {
                move_operand(&inst->sources[s], function);
            }
            if (inst->guard != PTX_PRED_TRUE) {
                move_operand(&inst->guard, function);
            }
        }
    }
}

/* Get instruction k of the two that may follow. The fall-through is the last one, because the
 * target of a branch is the end of a loop more often than its body. Return false if there is none.
 */
static bool follows(const struct ptx_program *program, uint32_t i, uint32_t k, uint32_t *next)
{
    const struct ptx_inst *inst = &program->code[i];

    *next = k == 0 ? inst->target : i + 1;
    return k == 0 ? inst->op == PTX_BRA
                  : (inst->op != PTX_BRA && inst->op != PTX_RET) || inst->guard != PTX_PRED_TRUE;
}

/* Number the instructions of a function in an order in which each precedes all that it leads to,
 * except in loops: the reverse of the order in which a depth-first search leaves them. */
static void rank_function(struct ptx_program *program, const struct ptx_function *function,
                          uint32_t *path, uint8_t *seen)
{
    uint32_t rank = function->end, depth = 1, next;

    path[0] = function->first;
    while (depth > 0) {
        uint32_t i = path[depth - 1];

        if (seen[i] == 2) {
            program->code[i].rank = --rank;
            depth--;
        } else if (follows(program, i, seen[i]++, &next) && next < function->end &&
                   seen[next] == 0) {
            path[depth++] = next;
        }
    }
}

bool ptx_rank_instructions(struct ptx_program *program)
{
    uint32_t *path = malloc(program->ncode * sizeof *path + 1);
    uint8_t *seen = calloc(program->ncode + 1, 1);

    for (uint32_t f = 0; path != NULL && seen != NULL && f < program->nfunctions; f++) {
        rank_function(program, &program->functions[f], path, seen);
    }
    free(path);
    free(seen);
    return path != NULL && seen != NULL;
}

void ptx_program_free(struct ptx_program *program)
{
    if (program == NULL) {
        return;
    }
    for (uint32_t f = 0; f < program->nfunctions; f++) {
        free(program->functions[f].name);
        free(program->functions[f].variables);
    }
    free(program->functions);
    free(program->code);
    free(program->calls);
    free(program->constants);
    free(program->text);
    free(program);
}

bool ptx_program_has(const struct ptx_program *program, const char *kernel)
{
    for (uint32_t f = 0; f < program->nfunctions; f++) {
        if (program->functions[f].entry && strcmp(program->functions[f].name, kernel) == 0) {
            return true;
        }
    }
    return false;
}
