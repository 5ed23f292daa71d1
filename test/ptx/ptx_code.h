/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* A decoded PTX program. */
#ifndef GPURING_PTX_CODE_H
#define GPURING_PTX_CODE_H

#include "test/ptx/ptx.h"

/* X(type, bytes, kind) */
#define PTX_TYPES(X)    \
    X(pred, 0, PRED)    \
    X(b8, 1, BITS)      \
    X(b16, 2, BITS)     \
    X(b32, 4, BITS)     \
    X(b64, 8, BITS)     \
    X(u8, 1, UNSIGNED)  \
    X(u16, 2, UNSIGNED) \
    X(u32, 4, UNSIGNED) \
    X(u64, 8, UNSIGNED) \
    X(s8, 1, SIGNED)    \
    X(s16, 2, SIGNED)   \
    X(s32, 4, SIGNED)   \
    X(s64, 8, SIGNED)   \
    X(f32, 4, FLOAT)    \
    X(f64, 8, FLOAT)    \
    X(f16x2, 4, FLOAT)  \
    X(bf16x2, 4, FLOAT)

enum ptx_type {
#define PTX_TYPE(name, bytes, kind) PTX_##name,
    PTX_TYPES(PTX_TYPE)
#undef PTX_TYPE
        PTX_TYPE_COUNT
};
enum ptx_kind { PTX_PRED, PTX_BITS, PTX_UNSIGNED, PTX_SIGNED, PTX_FLOAT };

struct ptx_type_info {
    const char *name;
    uint8_t bytes, kind;
};
extern const struct ptx_type_info ptx_types[PTX_TYPE_COUNT];

enum ptx_op {
    /* Arithmetic (ptx_alu.c): one result from one to four sources. */
    PTX_ADD,
    PTX_SUB,
    PTX_MUL, /* lower half, or floats */
    PTX_MUL_HI,
    PTX_MUL_WIDE,
    PTX_DIV,
    PTX_REM,
    PTX_MIN,
    PTX_MAX,
    PTX_AND,
    PTX_OR,
    PTX_XOR,
    PTX_NOT,
    PTX_SHL,
    PTX_SHR,
    PTX_BFI,
    PTX_BFE,
    PTX_MAD,
    PTX_NEG,
    PTX_POPC,
    PTX_PRMT,
    PTX_SETP_EQ, /* from here on, the result is a predicate */
    PTX_SETP_NE,
    PTX_SETP_LT,
    PTX_SETP_LE,
    PTX_SETP_GT,
    PTX_SETP_GE,
    /* Moves and control (ptx_warp.c). */
    PTX_MOV,
    PTX_PACK,
    PTX_UNPACK,
    PTX_SELP,
    PTX_CVT,
    PTX_TID,
    PTX_NTID,
    PTX_CTAID,
    PTX_TIMER,
    PTX_CLOCK,
    PTX_BRA,
    PTX_CALL,
    PTX_RET,
    PTX_BAR_SYNC,
    PTX_BAR_RED_AND,
    PTX_BAR_ARRIVE,
    PTX_SHFL_IDX,
    PTX_VOTE_ALL,
    /* Memory (ptx_memory.c). */
    PTX_LD,
    PTX_ST,
    PTX_FENCE, /* for the lanes of a warp that reach it together */
};

enum ptx_space { PTX_GENERIC, PTX_GLOBAL, PTX_SHARED, PTX_PARAM };
enum ptx_order { PTX_WEAK, PTX_RELAXED, PTX_VOLATILE, PTX_ORDERED }; /* acquire, release */
enum ptx_scope { PTX_SCOPE_NONE, PTX_SCOPE_CTA, PTX_SCOPE_GPU, PTX_SCOPE_SYS };

/* First address of a kernel's parameters, which all its threads share. */
#define PTX_KERNEL_PARAMETERS (UINT32_C(1) << 30)

/* First generic address of shared memory. Host memory never has such addresses. */
#define PTX_SHARED_WINDOW (UINT64_C(1) << 63)

#define PTX_LANES     32
#define PTX_SOURCES   5
#define PTX_NO_SOURCE UINT32_MAX
#define PTX_CONSTANT  UINT32_C(0x80000000) /* flag of a source in program->constants */
#define PTX_PRED_TRUE 1                    /* predicates 0 and 1 are constant */

/*
 * Registers are numbered within a warp: first the registers of all functions, and then those of an
 * entry. Entries share their numbers, because only one of them runs. There is no recursion, so each
 * function needs only one set of registers.
 */
struct ptx_inst {
    uint8_t op, type,
        from; /* enum ptx_op, ptx_type; from: source type of cvt, memory type of ld, st */
    uint8_t space, order; /* of memory */
    uint8_t scope;        /* of memory and fences; volatile accesses have sys */
    uint8_t count;        /* elements of vectors, or of (un)pack */
    uint8_t width;        /* bytes of the result's register */
    uint8_t guard_not;    /* true for @!p */
    uint32_t guard;       /* a predicate; PTX_PRED_TRUE if there is none */
    uint32_t to[4],
        sources[PTX_SOURCES]; /* registers, or predicates where the operation has them */
    uint32_t target;          /* number of an instruction or a call */
    int64_t offset;           /* of an address */
    uint32_t line;
    uint32_t rank; /* place in an order in which threads meet again; see ptx_program.c */
};

struct ptx_variable {
    uint32_t at, bytes; /* place in shared memory or in the parameters */
};

#define PTX_PARAMETERS 10

struct ptx_function {
    char *name;
    bool entry;
    uint32_t first, end;            /* range of instructions */
    uint32_t registers, nregisters; /* first one and number */
    uint32_t predicates, npredicates;
    uint32_t shared;                                        /* total bytes */
    uint32_t nparameters, nshared, threads;                 /* threads: .maxntid or 0 */
    struct ptx_variable parameters[PTX_PARAMETERS], result; /* result: 0 bytes if there is none */
    struct ptx_variable *variables;                         /* shared variables */
};

struct ptx_call {
    uint32_t function;
    uint32_t nparameters;
    struct ptx_variable parameters[PTX_PARAMETERS], result; /* of the caller */
};

struct ptx_program {
    char *text;
    struct ptx_inst *code;
    struct ptx_function *functions;
    struct ptx_call *calls;
    uint64_t (*constants)[PTX_LANES];
    uint32_t ncode, nfunctions, ncalls, nconstants;
    uint32_t registers, predicates; /* maximum per warp */
    uint32_t parameters;            /* bytes per thread */
};

/* First offset in shared memory, so that a null pointer is invalid. */
#define PTX_SHARED_BASE 64
/* Bytes between shared variables. */
#define PTX_SHARED_GAP 16

/* ptx_alu.c. Compute the result on all lanes; only the active lanes are valid. Return false if
 * there is no such operation. The result of a comparison is a mask in result[0]. */
bool ptx_alu(unsigned op, unsigned type, uint64_t *result,
             const uint64_t *const sources[PTX_SOURCES]);

#endif
