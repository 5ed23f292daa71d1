/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * An interpreter of the PTX that nvcc generates from our kernels. It is a test double that runs the
 * compiled kernels without a GPU, so none of its results is a result of a GPU. It does not model
 * timing. Memory has the order of the host, which is stronger than that of a GPU, unless the launch
 * uses a modelled memory (ptx_weak.h).
 *
 *   ptx_lex.c      text -> words                    ptx_alu.c     arithmetic on a warp
 *   ptx_parse.c    directives, scopes, functions    ptx_memory.c  loads and stores, their checks
 *   ptx_decode.c   one instruction                  ptx_race.c    races between threads of a block
 *   ptx_program.c  the numbers of registers         ptx_warp.c    threads of a warp
 *   ptx_symbols.c  symbol table                     ptx_sync.c    shuffles and votes
 *   ptx_code.h     the decoded program              ptx_run.c     blocks and their barriers
 *   ptx_count.c    counts of slow operations
 *   ptx_weak.c     accesses to memory that guarantees only the order of PTX, with
 *                  ptx_weak_buffer.c (store buffer), ptx_weak_agents.c (blocks and hosts), and
 *                  ptx_clock.c (their vector clocks)
 */
#ifndef GPURING_PTX_H
#define GPURING_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ptx_program;
struct ptx_machine;
struct ptx_weak;

enum ptx_error {
    PTX_OK,
    PTX_NO_KERNEL,  /* no such entry, or it has other parameters or a lower maximum of threads */
    PTX_NO_MEMORY,  /* no host memory for the interpreter */
    PTX_ADDRESS,    /* the GPU cannot access the address, or it is not in a shared variable */
    PTX_MISALIGNED, /* an access that is not naturally aligned */
    PTX_UNWRITTEN,  /* a read of a register or shared memory that was not written */
    PTX_RACE,       /* two threads of a block access a byte without a barrier, and one writes */
    PTX_BARRIER,    /* not all threads of the block reach a barrier */
    PTX_SYNC,       /* not all lanes of a shuffle or vote reach it */
    PTX_ARITHMETIC, /* an integer division by zero */
    PTX_LIMIT,      /* too many instructions */
    PTX_ORDER,      /* unordered accesses of two agents, and one writes (ptx_weak.h) */
};

struct ptx_fault {
    enum ptx_error error;
    char text[640]; /* description with kernel, line, block, thread and address */
};

/* Get the range [*begin, *end) of memory around an address. Return false if the GPU cannot access
 * it. */
typedef bool ptx_reach_fn(void *context, uint64_t address, uint64_t *begin, uint64_t *end);

/* Counts of operations that are slow on a GPU (ptx_count.c): the maximum over all blocks. */
struct ptx_counts {
    uint64_t fences;       /* system fences that a warp runs */
    uint64_t in_flight;    /* bytes of global memory in flight for loads at the same time */
    uint64_t rounds;       /* times that a warp waits for loads before its first store */
    uint64_t instructions; /* instructions of all warps of all blocks */
    uint64_t longest;      /* maximum instructions of a warp */
    uint64_t waits;        /* maximum times that a warp waits for loads */
    uint64_t path;         /* instructions that depend on each other, across warps and barriers */
};

struct ptx_launch {
    const char *kernel;
    uint32_t blocks, threads; /* threads per block: a multiple of 32, at most 992 */
    const void *parameters;   /* packed with natural alignment; must stay valid until the end */
    size_t bytes;             /* size of `parameters` */
    uint64_t seed;            /* seed for the order in which threads run */
    uint64_t limit;           /* maximum warp instructions; 0: no limit */
    ptx_reach_fn *reach;
    /* Called before each volatile, relaxed or acquiring load, or NULL. A test may change the value
     * that the load returns. */
    void (*reads)(void *context, uint64_t address);
    void *context;
    /* If not NULL, operations are counted and added to these counts. In this case, threads of a
     * warp run together if they can, and the clock advances evenly. */
    struct ptx_counts *counts;
    /* NULL, or the modelled memory (ptx_weak.h). The launch belongs to rank `rank` on GPU `gpu`.
     * The agents of its blocks begin with `agent`, which is equal for all launches of a machine.
     * The agent of its host is `host`. */
    struct ptx_weak *weak;
    uint32_t rank, gpu, agent, host;
};

/* Parse a text, which is copied. On failure return NULL, with the line and the word in `why`. */
struct ptx_program *ptx_program_parse(const char *text, char *why, size_t size);
/* The same for the text of a file. */
struct ptx_program *ptx_program_read(const char *path, char *why, size_t size);
void ptx_program_free(struct ptx_program *program);
bool ptx_program_has(const struct ptx_program *program, const char *kernel);

/* Create a machine, or return NULL if there is no memory. A machine runs one launch at a time and
 * keeps its memory for the next one. */
struct ptx_machine *ptx_machine_create(const struct ptx_program *program);
void ptx_machine_free(struct ptx_machine *machine);
/* Run a grid to its end. If it was stopped, return an error with a description in fault->text. The
 * interpreter yields the core whenever a kernel reads the clock, because the kernel then waits for
 * other threads of the host. */
enum ptx_error ptx_machine_run(struct ptx_machine *machine, const struct ptx_launch *launch,
                               struct ptx_fault *fault);
/* Run a grid in turns of one warp each, for several machines in one thread. `launch` and `fault`
 * must stay valid until *ended is true. */
enum ptx_error ptx_machine_start(struct ptx_machine *machine, const struct ptx_launch *launch,
                                 struct ptx_fault *fault);
enum ptx_error ptx_machine_turn(struct ptx_machine *machine, bool *ended);

#endif
