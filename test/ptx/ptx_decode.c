/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Decoding of one PTX instruction: its opcode, which is split at the dots, and its operands. */
#include "test/ptx/ptx_parser.h"

#include <string.h>

/* Opcodes that end with a type, which is also the type of all operands. read_arithmetic handles the
 * exceptions. ptx_alu defines the supported types. */
static const struct {
    const char *name;
    enum ptx_op op;
    uint8_t kinds; /* bits of enum ptx_kind; nvcc writes .rn if it does not fuse */
    uint8_t sources;
} forms[] = {
#define INTEGERS (1 << PTX_UNSIGNED | 1 << PTX_SIGNED)
#define FLOATS   (1 << PTX_FLOAT)
#define BITS     (1 << PTX_BITS | 1 << PTX_PRED)
    {"add", PTX_ADD, INTEGERS, 2},
    {"add.rn", PTX_ADD, FLOATS, 2},
    {"sub", PTX_SUB, INTEGERS, 2},
    {"sub.rn", PTX_SUB, FLOATS, 2},
    {"mul.lo", PTX_MUL, INTEGERS, 2},
    {"mul.rn", PTX_MUL, FLOATS, 2},
    {"mul.hi", PTX_MUL_HI, INTEGERS, 2},
    {"mul.wide", PTX_MUL_WIDE, INTEGERS, 2},
    {"div", PTX_DIV, INTEGERS, 2},
    {"rem", PTX_REM, INTEGERS, 2},
    {"min", PTX_MIN, INTEGERS | FLOATS, 2},
    {"max", PTX_MAX, INTEGERS | FLOATS, 2},
    {"and", PTX_AND, BITS, 2},
    {"or", PTX_OR, BITS, 2},
    {"xor", PTX_XOR, BITS, 2},
    {"not", PTX_NOT, BITS, 1},
    {"shl", PTX_SHL, BITS, 2},
    {"shr", PTX_SHR, INTEGERS, 2},
    {"bfi", PTX_BFI, BITS, 4},
    {"bfe", PTX_BFE, INTEGERS, 3},
    {"mad.lo", PTX_MAD, INTEGERS, 3},
    {"neg", PTX_NEG, 1 << PTX_SIGNED, 1},
    {"popc", PTX_POPC, 1 << PTX_BITS, 1},
    {"prmt", PTX_PRMT, 1 << PTX_BITS, 3},
    {"setp.eq", PTX_SETP_EQ, INTEGERS | FLOATS | BITS, 2},
    {"setp.ne", PTX_SETP_NE, INTEGERS | FLOATS | BITS, 2},
    {"setp.lt", PTX_SETP_LT, INTEGERS | FLOATS, 2},
    {"setp.le", PTX_SETP_LE, INTEGERS | FLOATS, 2},
    {"setp.gt", PTX_SETP_GT, INTEGERS | FLOATS, 2},
    {"setp.ge", PTX_SETP_GE, INTEGERS | FLOATS, 2},
    {"selp", PTX_SELP, INTEGERS | FLOATS | 1 << PTX_BITS, 3},
    {"mov", PTX_MOV, INTEGERS | FLOATS | BITS, 1},
    {"cvta.to.global", PTX_MOV, INTEGERS, 1},
};

/* Skip a part of an opcode with the dot before it. Return false if it is another part. */
static bool part(const char **at, const char *name)
{
    size_t length = strlen(name);

    if ((*at)[0] != '.' || strncmp(*at + 1, name, length) != 0 ||
        ((*at)[length + 1] != '.' && (*at)[length + 1] != '\0')) {
        return false;
    }
    *at += length + 1;
    return true;
}

static bool type_part(const char **at, uint8_t *type)
{
    for (int i = 0; i < PTX_TYPE_COUNT; i++) {
        if (part(at, ptx_types[i].name)) {
            *type = (uint8_t) i;
            return true;
        }
    }
    return false;
}

/* Return the source for a constant, which is equal on all lanes. Each constant is stored once. */
static uint32_t constant(struct ptx_parser *parser, uint64_t bits)
{
    const uint64_t(*known)[PTX_LANES] = parser->constants.items;
    uint64_t *lanes;

    for (uint32_t i = 0; i < parser->constants.count; i++) {
        if (known[i][0] == bits) {
            return i | PTX_CONSTANT;
        }
    }
    lanes = ptx_append(parser, &parser->constants, PTX_LANES * sizeof *lanes);
    for (int i = 0; lanes != NULL && i < PTX_LANES; i++) {
        lanes[i] = bits;
    }
    return (parser->constants.count - 1) | PTX_CONSTANT;
}

/* Read a register or a number of this type. If `wider`, accept wider registers, too. */
static bool read_source(struct ptx_parser *parser, unsigned type, bool wider, uint32_t *operand)
{
    struct ptx_lex *lex = &parser->lex;
    unsigned bytes = ptx_types[type].bytes;

    if (lex->kind != PTX_NUMBER) {
        return ptx_register(parser, bytes, wider, operand, NULL);
    }
    if (bytes == 0) {
        *operand = (lex->number != 0 ? PTX_PRED_TRUE : 0) | PTX_PREDICATE;
    } else {
        *operand = constant(parser, (uint64_t) lex->number & (UINT64_MAX >> (64 - 8 * bytes)));
    }
    ptx_next(lex);
    return !lex->failed;
}

/* Read registers in braces: a vector, or parts of a register. */
static bool read_braces(struct ptx_parser *parser, unsigned count, unsigned bytes, bool wider,
                        uint32_t *operands, uint8_t *width)
{
    ptx_need(&parser->lex, "{");
    for (unsigned i = 0; i < count && !parser->lex.failed; i++) {
        if (i > 0) {
            ptx_need(&parser->lex, ",");
        }
        ptx_register(parser, bytes, wider, &operands[i], width);
    }
    return ptx_need(&parser->lex, "}");
}

static bool of_kernel(const struct ptx_symbol *symbol)
{
    return symbol->kind == PTX_PARAMETER && symbol->first >= PTX_KERNEL_PARAMETERS;
}

/* Read special operands of mov: halves, special registers, and addresses of variables. */
static bool read_mov(struct ptx_parser *parser, struct ptx_inst *inst)
{
    static const struct {
        const char *name;
        enum ptx_op op;
        uint8_t bytes;
    } specials[] = {
        {"%tid.x", PTX_TID, 4},     {"%ntid.x", PTX_NTID, 4},
        {"%ctaid.x", PTX_CTAID, 4}, {"%globaltimer", PTX_TIMER, 8},
        {"%clock64", PTX_CLOCK, 8}, {"%clock64", PTX_TIMER, 8}, /* a cycle is a nanosecond */
    };
    unsigned bytes = ptx_types[inst->type].bytes;
    struct ptx_lex *lex = &parser->lex;
    const struct ptx_symbol *symbol;
    uint32_t index;

    inst->count = 2;
    if (ptx_is(lex, "{") && ptx_types[inst->type].kind == PTX_BITS) {
        inst->op = PTX_UNPACK;
        return read_braces(parser, 2, bytes / 2, false, inst->to, &inst->width) &&
               ptx_need(lex, ",") && ptx_register(parser, bytes, false, &inst->sources[0], NULL);
    }
    if (!ptx_register(parser, bytes, false, &inst->to[0], &inst->width) || !ptx_need(lex, ",")) {
        return false;
    }
    if (ptx_is(lex, "{") && ptx_types[inst->type].kind == PTX_BITS) {
        inst->op = PTX_PACK;
        return read_braces(parser, 2, bytes / 2, false, inst->sources, NULL);
    }
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        if (bytes == specials[i].bytes && ptx_take(lex, specials[i].name)) {
            inst->op = (uint8_t) specials[i].op;
            return !lex->failed;
        }
    }
    symbol = lex->kind == PTX_NAME ? ptx_find(parser, lex->word, &index) : NULL;
    if (symbol != NULL && ((symbol->kind == PTX_SHARED_VARIABLE && bytes >= 4) ||
                           (of_kernel(symbol) && bytes == 8))) {
        inst->sources[0] = constant(parser, symbol->first);
        ptx_next(lex);
        return !lex->failed;
    }
    return read_source(parser, inst->type, false, &inst->sources[0]);
}

/* Return true if the operation is supported. For arithmetic, ptx_alu decides this. */
static bool computes(const struct ptx_inst *inst)
{
    static const uint64_t ones[PTX_LANES];
    static const uint64_t *const sources[PTX_SOURCES] = {ones, ones, ones, ones, ones};
    uint64_t result[PTX_LANES];

    return inst->op >= PTX_MOV || (inst->type == PTX_pred && inst->op <= PTX_NOT) ||
           ptx_alu(inst->op, inst->type, result, sources);
}

static bool read_arithmetic(struct ptx_parser *parser, struct ptx_inst *inst, unsigned sources)
{
    struct ptx_lex *lex = &parser->lex;
    unsigned bytes = ptx_types[inst->type].bytes, to = bytes;

    if (inst->op == PTX_MOV) {
        return read_mov(parser, inst);
    }
    to = inst->op == PTX_MUL_WIDE                             ? 2 * bytes
         : inst->op == PTX_POPC                               ? 4
         : inst->op >= PTX_SETP_EQ && inst->op <= PTX_SETP_GE ? 0
                                                              : bytes;
    if (!ptx_register(parser, to, false, &inst->to[0], &inst->width)) {
        return false;
    }
    for (unsigned s = 0; s < sources; s++) {
        unsigned type = inst->type;

        if ((s == 1 && (inst->op == PTX_SHL || inst->op == PTX_SHR)) ||
            (s >= 2 && inst->op == PTX_BFI) || (s >= 1 && inst->op == PTX_BFE)) {
            type = PTX_u32;
        }
        if (s == 2 && inst->op == PTX_SELP) {
            type = PTX_pred;
        }
        if (!ptx_need(lex, ",") || !read_source(parser, type, false, &inst->sources[s])) {
            return false;
        }
    }
    return true;
}

/* Read a cvt between integer types. */
static bool read_cvt(struct ptx_parser *parser, struct ptx_inst *inst, const char *at)
{
    const unsigned integers = 1 << PTX_UNSIGNED | 1 << PTX_SIGNED;

    inst->op = PTX_CVT;
    if (!type_part(&at, &inst->type) || !type_part(&at, &inst->from) || *at != '\0' ||
        (integers >> ptx_types[inst->type].kind & integers >> ptx_types[inst->from].kind & 1) ==
            0) {
        return ptx_refuse(&parser->lex, "a conversion that is not known");
    }
    ptx_next(&parser->lex);
    return ptx_register(parser, ptx_types[inst->type].bytes, true, &inst->to[0], &inst->width) &&
           ptx_need(&parser->lex, ",") &&
           ptx_register(parser, ptx_types[inst->from].bytes, true, &inst->sources[0], NULL);
}

/* [register+offset], [variable+offset] */
static bool read_address(struct ptx_parser *parser, struct ptx_inst *inst)
{
    struct ptx_lex *lex = &parser->lex;
    const struct ptx_symbol *symbol;
    uint32_t index;

    if (!ptx_need(lex, "[")) {
        return false;
    }
    symbol = lex->kind == PTX_NAME ? ptx_find(parser, lex->word, &index) : NULL;
    if (symbol != NULL && symbol->kind > PTX_FAMILY) {
        if ((symbol->kind == PTX_PARAMETER) != (inst->space == PTX_PARAM) ||
            (symbol->kind == PTX_SHARED_VARIABLE) != (inst->space == PTX_SHARED)) {
            return ptx_refuse(lex, "a variable of another space");
        }
        inst->sources[0] = constant(parser, symbol->first);
        ptx_next(lex);
    } else if ((inst->space == PTX_PARAM && inst->op != PTX_LD) ||
               !ptx_register(parser, inst->space == PTX_SHARED ? 4 : 8, inst->space == PTX_SHARED,
                             &inst->sources[0], NULL)) {
        return ptx_refuse(lex, "no address in this space");
    }
    if (ptx_take(lex, "+") && !ptx_need_number(lex, &inst->offset)) {
        return false;
    }
    if (inst->space == PTX_PARAM && symbol != NULL && symbol->kind == PTX_PARAMETER &&
        (inst->offset < 0 || (of_kernel(symbol) && inst->op != PTX_LD) ||
         inst->offset + inst->count * ptx_types[inst->from].bytes > symbol->count)) {
        return ptx_refuse(lex, "beyond the end of a parameter");
    }
    return ptx_need(lex, "]");
}

static bool scope_part(const char **at, uint8_t *scope)
{
    *scope = part(at, "sys")   ? PTX_SCOPE_SYS
             : part(at, "gpu") ? PTX_SCOPE_GPU
             : part(at, "cta") ? PTX_SCOPE_CTA
                               : PTX_SCOPE_NONE;
    return *scope != PTX_SCOPE_NONE;
}

/* Read the parts of an opcode between ld or st and the type. */
static bool read_memory_parts(const char **at, struct ptx_inst *inst)
{
    inst->count = 1;
    inst->space = PTX_GENERIC;
    inst->order = PTX_WEAK;
    if (part(at, "volatile")) {
        inst->order = PTX_VOLATILE;
        inst->scope = PTX_SCOPE_SYS;
    } else if (part(at, "relaxed")) {
        inst->order = PTX_RELAXED;
    } else if (part(at, inst->op == PTX_LD ? "acquire" : "release")) {
        inst->order = PTX_ORDERED;
    }
    if (inst->order != PTX_WEAK && inst->order != PTX_VOLATILE && !scope_part(at, &inst->scope)) {
        return false;
    }
    if (part(at, "global")) {
        inst->space = PTX_GLOBAL;
    } else if (part(at, "shared")) {
        inst->space = PTX_SHARED;
    } else if (part(at, "param")) {
        inst->space = PTX_PARAM;
    }
    if (part(at, "v2")) {
        inst->count = 2;
    } else if (part(at, "v4")) {
        inst->count = 4;
    }
    return type_part(at, &inst->from) && **at == '\0' && ptx_types[inst->from].bytes > 0;
}

static bool read_values(struct ptx_parser *parser, struct ptx_inst *inst, uint32_t *values)
{
    unsigned bytes = ptx_types[inst->from].bytes;

    if (inst->count > 1) {
        return read_braces(parser, inst->count, bytes, true, values, &inst->width);
    }
    return inst->op == PTX_LD ? ptx_register(parser, bytes, true, &values[0], &inst->width)
                              : read_source(parser, inst->from, true, &values[0]);
}

static bool read_memory(struct ptx_parser *parser, struct ptx_inst *inst, const char *at)
{
    struct ptx_lex *lex = &parser->lex;

    inst->op = lex->word[0] == 'l' ? PTX_LD : PTX_ST;
    if (!read_memory_parts(&at, inst)) {
        return ptx_refuse(lex, "an access to memory that is not known");
    }
    ptx_next(lex);
    if (inst->op == PTX_LD) {
        return read_values(parser, inst, inst->to) && ptx_need(lex, ",") &&
               read_address(parser, inst);
    }
    return read_address(parser, inst) && ptx_need(lex, ",") &&
           read_values(parser, inst, &inst->sources[1]);
}

static bool read_variable(struct ptx_parser *parser, struct ptx_variable *variable)
{
    struct ptx_lex *lex = &parser->lex;
    uint32_t index = 0;
    const struct ptx_symbol *symbol =
        lex->kind == PTX_NAME ? ptx_find(parser, lex->word, &index) : NULL;

    if (symbol == NULL || symbol->kind != PTX_PARAMETER) {
        return ptx_refuse(lex, "expected a parameter here that is declared");
    }
    *variable = (struct ptx_variable){symbol->first, symbol->count};
    ptx_next(lex);
    return !lex->failed;
}

static bool agree(const struct ptx_call *call, const struct ptx_function *function)
{
    bool same =
        call->nparameters == function->nparameters && call->result.bytes == function->result.bytes;

    for (uint32_t i = 0; same && i < call->nparameters; i++) {
        same = call->parameters[i].bytes == function->parameters[i].bytes;
    }
    return same;
}

/* call.uni [(result),] function [, (parameters)] */
static bool read_call(struct ptx_parser *parser, struct ptx_inst *inst)
{
    struct ptx_lex *lex = &parser->lex;
    const struct ptx_function *functions = parser->functions.items;
    struct ptx_call *call = ptx_append(parser, &parser->calls, sizeof *call);

    inst->op = PTX_CALL;
    inst->target = parser->calls.count - 1;
    if (call == NULL || (ptx_take(lex, "(") && (!read_variable(parser, &call->result) ||
                                                !ptx_need(lex, ")") || !ptx_need(lex, ",")))) {
        return false;
    }
    while (call->function < parser->functions.count &&
           (functions[call->function].entry || functions[call->function].end == 0 ||
            !ptx_is(lex, functions[call->function].name))) {
        call->function++;
    }
    if (call->function == parser->functions.count) {
        return ptx_refuse(lex, "no function before has this name");
    }
    ptx_next(lex);
    if (ptx_take(lex, ",")) {
        ptx_need(lex, "(");
        do {
            if (call->nparameters == PTX_PARAMETERS ||
                !read_variable(parser, &call->parameters[call->nparameters++])) {
                return ptx_refuse(lex, "too many parameters");
            }
        } while (ptx_take(lex, ","));
        ptx_need(lex, ")");
    }
    return agree(call, &functions[call->function]) ||
           ptx_refuse(lex, "parameters that the function does not take");
}

static bool need_barrier_zero(struct ptx_parser *parser)
{
    return ptx_is(&parser->lex, "0") ? ptx_need(&parser->lex, "0")
                                     : ptx_refuse(&parser->lex, "a barrier other than 0");
}

/* bar.sync a [, b]; bar.arrive a, b: number of the barrier, and of the threads that it expects */
static bool read_barrier(struct ptx_parser *parser, struct ptx_inst *inst)
{
    struct ptx_lex *lex = &parser->lex;

    inst->op = ptx_is(lex, "bar.sync") ? PTX_BAR_SYNC : PTX_BAR_ARRIVE;
    inst->type = PTX_b32;
    ptx_next(lex);
    if (!read_source(parser, PTX_b32, false, &inst->sources[0])) {
        return false;
    }
    if (ptx_take(lex, ",")) {
        return read_source(parser, PTX_b32, false, &inst->sources[1]);
    }
    return inst->op == PTX_BAR_SYNC || ptx_refuse(lex, "expected a number of threads here");
}

/* Read instructions that threads run together, and ret. */
static bool read_control(struct ptx_parser *parser, struct ptx_inst *inst)
{
    struct ptx_lex *lex = &parser->lex;

    inst->type = PTX_pred;
    if (ptx_take(lex, "ret")) {
        inst->op = PTX_RET;
        return true;
    }
    if (strncmp(lex->word, "fence.acq_rel.", 14) == 0) {
        const char *at = lex->word + 13;

        inst->op = PTX_FENCE;
        if (!scope_part(&at, &inst->scope) || *at != '\0') {
            return ptx_refuse(lex, "a fence that is not known");
        }
        ptx_next(lex);
        return !lex->failed;
    }
    if (ptx_is(lex, "cvta.shared.u64") || ptx_is(lex, "cvta.to.shared.u64")) {
        inst->op = ptx_take(lex, "cvta.shared.u64") ? PTX_ADD : PTX_SUB;
        (void) ptx_take(lex, "cvta.to.shared.u64");
        inst->type = PTX_u64;
        inst->sources[1] = constant(parser, PTX_SHARED_WINDOW);
        return ptx_register(parser, 8, false, &inst->to[0], &inst->width) && ptx_need(lex, ",") &&
               read_source(parser, PTX_u64, false, &inst->sources[0]);
    }
    if (ptx_take(lex, "call.uni")) {
        return read_call(parser, inst);
    }
    if (ptx_is(lex, "bar.sync") || ptx_is(lex, "bar.arrive")) {
        return read_barrier(parser, inst);
    }
    if (ptx_take(lex, "bar.red.and.pred")) {
        inst->op = PTX_BAR_RED_AND;
        return ptx_register(parser, 0, false, &inst->to[0], NULL) && ptx_need(lex, ",") &&
               need_barrier_zero(parser) && ptx_need(lex, ",") &&
               read_source(parser, PTX_pred, false, &inst->sources[0]);
    }
    if (ptx_take(lex, "vote.sync.all.pred")) {
        inst->op = PTX_VOTE_ALL;
        return ptx_register(parser, 0, false, &inst->to[0], NULL) && ptx_need(lex, ",") &&
               read_source(parser, PTX_pred, false, &inst->sources[0]) && ptx_need(lex, ",") &&
               read_source(parser, PTX_b32, false, &inst->sources[3]);
    }
    if (ptx_take(lex,
                 "bar.warp.sync")) { /* a vote without a predicate, and a barrier of the warp */
        inst->op = PTX_VOTE_ALL;
        return read_source(parser, PTX_b32, false, &inst->sources[3]);
    }
    if (ptx_take(lex, "shfl.sync.idx.b32")) {
        inst->op = PTX_SHFL_IDX;
        inst->type = PTX_b32;
        ptx_register(parser, 4, false, &inst->to[0], &inst->width);
        if (ptx_take(lex, "|")) {
            ptx_register(parser, 0, false, &inst->to[1], NULL);
        }
        for (int s = 0; s < 4 && !lex->failed; s++) {
            ptx_need(lex, ",");
            read_source(parser, PTX_b32, false, &inst->sources[s]);
        }
        return !lex->failed;
    }
    return ptx_refuse(lex, "an instruction that is not known");
}

/* Find the form of an opcode, and set its type. Return false if there is none. */
static bool find_form(const char *word, struct ptx_inst *inst, unsigned *sources)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t length = strlen(forms[i].name);
        const char *at = word + length;

        if (strncmp(word, forms[i].name, length) == 0 && type_part(&at, &inst->type) &&
            *at == '\0' && (forms[i].kinds >> ptx_types[inst->type].kind & 1) != 0) {
            inst->op = (uint8_t) forms[i].op;
            *sources = forms[i].sources;
            return computes(inst);
        }
    }
    return false;
}

static bool read_instruction(struct ptx_parser *parser, struct ptx_inst *inst)
{
    const char *word = parser->lex.word;
    unsigned sources;
    char opcode[sizeof parser->lex.word];

    memcpy(opcode, word, sizeof opcode);
    if (strncmp(word, "cvt.", 4) == 0) {
        return read_cvt(parser, inst, opcode + 3);
    }
    if (strncmp(word, "ld.", 3) == 0 || strncmp(word, "st.", 3) == 0) {
        return read_memory(parser, inst, opcode + 2);
    }
    if (find_form(opcode, inst, &sources)) {
        ptx_next(&parser->lex);
        return read_arithmetic(parser, inst, sources);
    }
    return read_control(parser, inst);
}

bool ptx_decode(struct ptx_parser *parser, uint32_t guard, bool guard_not)
{
    struct ptx_inst inst = {.guard = guard, .guard_not = guard_not, .line = parser->lex.line};
    struct ptx_inst *place;

    memset(inst.to, 0xff, sizeof inst.to); /* PTX_NO_SOURCE */
    memset(inst.sources, 0xff, sizeof inst.sources);
    if (parser->lex.kind != PTX_NAME) {
        return ptx_refuse(&parser->lex, "expected an instruction here");
    }
    if (!read_instruction(parser, &inst) || !ptx_need(&parser->lex, ";")) {
        return false;
    }
    if (inst.guard != PTX_PRED_TRUE && inst.op >= PTX_CALL && inst.op <= PTX_VOTE_ALL &&
        inst.op != PTX_RET) {
        return ptx_refuse(&parser->lex, "before this, a guarded instruction that is not known so");
    }
    place = ptx_append(parser, &parser->code, sizeof *place);
    if (place != NULL) {
        *place = inst;
    }
    return place != NULL;
}
