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
    /* Arithmetic, by ptx_alu.c: one result from one to four sources. */
    PTX_ADD,
    PTX_SUB,
    PTX_MUL, /* the lower half, or of floats */
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
    PTX_SETP_EQ, /* these have a predicate as result */
    PTX_SETP_NE,
    PTX_SETP_LT,
    PTX_SETP_LE,
    PTX_SETP_GT,
    PTX_SETP_GE,
    /* What moves bits, and control, by ptx_warp.c. */
    PTX_MOV,
    PTX_PACK,
    PTX_UNPACK,
    PTX_SELP,
    PTX_CVT,
    PTX_TID,
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
    /* Memory, by ptx_memory.c. */
    PTX_LD,
    PTX_ST,
    PTX_FENCE, /* of a warp: the lanes that reach it together */
};

enum ptx_space { PTX_GENERIC, PTX_GLOBAL, PTX_SHARED, PTX_PARAM };
enum ptx_order { PTX_WEAK, PTX_RELAXED, PTX_VOLATILE, PTX_ORDERED }; /* acquire, release */
enum ptx_scope { PTX_SCOPE_NONE, PTX_SCOPE_CTA, PTX_SCOPE_GPU, PTX_SCOPE_SYS };

/* Where addresses of a kernel's parameters begin, which all its threads share. */
#define PTX_KERNEL_PARAMETERS (UINT32_C(1) << 30)

/* Where generic addresses of shared memory begin: no memory of a host is there. */
#define PTX_SHARED_WINDOW (UINT64_C(1) << 63)

#define PTX_LANES     32
#define PTX_SOURCES   5
#define PTX_NO_SOURCE UINT32_MAX
#define PTX_CONSTANT  UINT32_C(0x80000000) /* a source in program->constants */
#define PTX_PRED_TRUE 1                    /* predicates 0 and 1 are constant */

/*
 * Registers are numbered within a warp: those of functions first, those of an entry behind them,
 * for only one entry runs. Nothing recurs, so a function has its registers once.
 */
struct ptx_inst {
    uint8_t op, type,
        from;             /* enum ptx_op, ptx_type; from: what cvt converts, what ld and st move */
    uint8_t space, order; /* of memory */
    uint8_t scope;        /* and of fences; that of volatile accesses is sys */
    uint8_t count;        /* of results or sources, of vectors and of (un)pack */
    uint8_t width;        /* bytes of the result's register */
    uint8_t guard_not;    /* @!p */
    uint32_t guard;       /* a predicate; PTX_PRED_TRUE: none */
    uint32_t to[4],
        sources[PTX_SOURCES]; /* registers, or predicates where the operation has them */
    uint32_t target;          /* an instruction, or a call */
    int64_t offset;           /* of an address */
    uint32_t line;
};

struct ptx_variable {
    uint32_t at, bytes; /* in shared memory, or among parameters: of a thread, or the kernel's */
};

#define PTX_PARAMETERS 8

struct ptx_function {
    char *name;
    bool entry;
    uint32_t first, end;            /* instructions */
    uint32_t registers, nregisters; /* where they begin, how many */
    uint32_t predicates, npredicates;
    uint32_t shared;                                        /* bytes in all */
    uint32_t nparameters, nshared, threads;                 /* threads: of .maxntid; 0: any */
    struct ptx_variable parameters[PTX_PARAMETERS], result; /* result: of 0 bytes if none */
    struct ptx_variable *variables;                         /* shared ones */
};

struct ptx_call {
    uint32_t function;
    uint32_t nparameters;
    struct ptx_variable parameters[PTX_PARAMETERS], result; /* the caller's */
};

struct ptx_program {
    char *text;
    struct ptx_inst *code;
    struct ptx_function *functions;
    struct ptx_call *calls;
    uint64_t (*constants)[PTX_LANES];
    uint32_t ncode, nfunctions, ncalls, nconstants;
    uint32_t registers, predicates; /* of a warp, at most */
    uint32_t parameters;            /* bytes for each thread */
};

/* Shared memory begins there, so that a null pointer is none. */
#define PTX_SHARED_BASE 64
/* Bytes between shared variables. */
#define PTX_SHARED_GAP 16

/* ptx_alu.c. The result on all lanes, of those in `active` at least; false: no such operation. A
 * comparison's result is a mask in result[0]. */
bool ptx_alu(unsigned op, unsigned type, uint64_t *result,
             const uint64_t *const sources[PTX_SOURCES]);

#endif
