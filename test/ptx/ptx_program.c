/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Programs after parsing: numbers of registers, and release. */
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
