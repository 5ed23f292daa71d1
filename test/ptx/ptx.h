/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * An interpreter of PTX, as far as nvcc makes it of our kernels: a test double, so that what nvcc
 * has made of the source runs somewhere without a GPU. Nothing that it runs is a GPU result: it
 * knows no timing, and orders memory as the host does, which is more strictly, unless the launch
 * has a memory of its own (ptx_weak.h).
 *
 *   ptx_lex.c      text -> words                    ptx_alu.c     arithmetic on a warp
 *   ptx_parse.c    directives, scopes, functions    ptx_memory.c  loads and stores, their checks
 *   ptx_decode.c   one instruction                  ptx_race.c    who has accessed which byte
 *   ptx_program.c  the numbers of registers         ptx_warp.c    threads of a warp, one by one
 *   ptx_symbols.c  names and what they mean         ptx_sync.c    their shuffles and votes
 *   ptx_code.h     the decoded program              ptx_run.c     blocks and their barriers
 *   ptx_count.c    what takes time on a GPU
 *   ptx_weak.c     accesses where order is only what PTX guarantees: with ptx_weak_buffer.c, stores
 *                  that wait, ptx_weak_agents.c, who takes part, and ptx_clock.c, what they know
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
    PTX_NO_KERNEL,  /* no such entry, or one that takes other parameters or fewer threads */
    PTX_NO_MEMORY,  /* of the host, for the interpreter */
    PTX_ADDRESS,    /* memory that the GPU does not reach, or no shared variable */
    PTX_MISALIGNED, /* an access that is not naturally aligned */
    PTX_UNWRITTEN,  /* a register or shared memory is read that nobody has written */
    PTX_RACE,       /* two threads of a block, one of them writing, and no barrier between */
    PTX_BARRIER,    /* not all threads of the block reach it */
    PTX_SYNC,       /* a shuffle or vote that not all its lanes reach */
    PTX_ARITHMETIC, /* an integer division by zero */
    PTX_LIMIT,      /* too many instructions */
    PTX_ORDER,      /* two agents access memory, one of them writing, in no order (ptx_weak.h) */
};

struct ptx_fault {
    enum ptx_error error;
    char text[640]; /* kernel, line, block, thread, address: what is wrong */
};

/* Memory around an address that the GPU reaches, [*begin, *end); false: none. */
typedef bool ptx_reach_fn(void *context, uint64_t address, uint64_t *begin, uint64_t *end);

/* What takes time on a GPU (ptx_count.c). Of the block that has most. */
struct ptx_counts {
    uint64_t fences;       /* system fences that its warps run, one after the other */
    uint64_t in_flight;    /* bytes of global memory that its loads have under way at once */
    uint64_t rounds;       /* times that a warp waits for loads before its first store */
    uint64_t instructions; /* of all warps of all blocks */
};

struct ptx_launch {
    const char *kernel;
    uint32_t blocks, threads; /* threads of a block: a multiple of 32, at most 992 */
    const void *parameters;   /* one after the other, each naturally aligned; kept to the end */
    size_t bytes;             /* at least what the kernel takes */
    uint64_t seed;            /* of the order in which threads run */
    uint64_t limit;           /* instructions of warps; 0: none */
    ptx_reach_fn *reach;
    /* A volatile, relaxed or acquiring load of this address begins: a test may change what it will
     * find. NULL: nobody asks. */
    void (*reads)(void *context, uint64_t address);
    void *context;
    /* NULL, or what is counted, added to what is there; threads of a warp then run together where
     * they can, and the clock goes evenly. */
    struct ptx_counts *counts;
    /* NULL, or the memory, see ptx_weak.h; the launch is one of rank `rank` on GPU `gpu`. Its
     * blocks are the agents from `agent` on, the same for all launches of a machine; its host is
     * `host`. */
    struct ptx_weak *weak;
    uint32_t rank, gpu, agent, host;
};

/* The text is copied. NULL: `why` says which line and word are not understood. */
struct ptx_program *ptx_program_parse(const char *text, char *why, size_t size);
void ptx_program_free(struct ptx_program *program);
bool ptx_program_has(const struct ptx_program *program, const char *kernel);

/* A machine runs one launch at a time and keeps its memory for the next one. NULL: no memory. */
struct ptx_machine *ptx_machine_create(const struct ptx_program *program);
void ptx_machine_free(struct ptx_machine *machine);
/* Runs a grid to its end. Not PTX_OK: it was stopped, as fault->text says. Other host threads get
 * the core whenever a kernel reads the clock: it waits for something then. */
enum ptx_error ptx_machine_run(struct ptx_machine *machine, const struct ptx_launch *launch,
                               struct ptx_fault *fault);
/* The same in turns of a warp each, for several machines in one thread: `launch` and `fault` are
 * kept to the end, which *ended reports. */
enum ptx_error ptx_machine_start(struct ptx_machine *machine, const struct ptx_launch *launch,
                                 struct ptx_fault *fault);
enum ptx_error ptx_machine_turn(struct ptx_machine *machine, bool *ended);

#endif
