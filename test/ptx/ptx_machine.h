/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The interpreter while it runs: a grid of blocks of warps. */
#ifndef GPURING_PTX_MACHINE_H
#define GPURING_PTX_MACHINE_H

#include "test/ptx/ptx_code.h"

#define PTX_DEPTH  4 /* of calls; nothing recurs */
#define PTX_RANGES 8
#define PTX_PAGE   UINT64_C(8192)

#define PTX_BARRIERS 16
#define PTX_WARPS    32

struct ptx_barrier {
    uint32_t here, needed; /* threads */
    uint32_t pc, verdict;  /* of the first that came; and, bar.red: no false so far */
    uint32_t arrived;      /* warps that have arrived and gone on */
};

/* Of each byte of a page: who has written and read it last; see ptx_race.c. */
struct ptx_page {
    uint64_t number;
    uint32_t writer[PTX_PAGE], reader[PTX_PAGE];
    uint32_t readers[PTX_PAGE]; /* of global memory: the warps of those who have read it */
};

struct ptx_shadow {
    struct ptx_page **pages; /* by a hash of their number */
    struct ptx_page *last;
    uint32_t count, room;
};

/*
 * A lane is in exactly one of the four masks. Its program counter stays at the barrier, shuffle or
 * vote that it waits at. Registers lie lane by lane: regs[register][lane].
 */
struct ptx_warp {
    struct ptx_block *block;
    uint32_t first; /* thread of lane 0 */
    uint32_t runnable, at_barrier, at_sync, exited;
    uint32_t barrier; /* at which at_barrier wait */
    uint32_t pc[PTX_LANES], depth[PTX_LANES], returns[PTX_DEPTH][PTX_LANES];
    uint64_t (*regs)[PTX_LANES];
    uint32_t *written; /* lanes that have written a register */
    uint32_t *pending; /* a load brings it, which nobody has used yet */
    uint64_t fences, under_way, most_under_way, rounds; /* see ptx_count.c */
    bool stored;
    uint32_t *preds, *preds_written; /* predicates: a bit for each lane */
    uint8_t *parameters;             /* of lane 0; the others' follow */
};

struct ptx_block {
    struct ptx_machine *machine;
    uint32_t number, nwarps, exited; /* threads that are gone */
    uint32_t index, agent;           /* of the machine's blocks, and in ptx_weak.h */
    struct ptx_barrier barriers[PTX_BARRIERS];
    /* Order between warps, see ptx_race.c. */
    uint32_t tick, known[PTX_WARPS][PTX_WARPS], floor[PTX_WARPS], arrived[PTX_WARPS];
    uint32_t reads[PTX_WARPS]; /* tick at which each last read global memory */
    struct ptx_warp *warps;
    uint8_t *shared;
    struct ptx_shadow shadow;              /* of global memory */
    struct ptx_page *shadow_shared;        /* its writers */
    uint32_t (*readers_shared)[PTX_WARPS]; /* [PTX_PAGE] */
};

struct ptx_range {
    uint64_t begin, end;
};

struct ptx_machine {
    const struct ptx_program *program;
    struct ptx_block **blocks;  /* kept from launch to launch */
    uint32_t nblocks, nwarps;   /* nwarps: of each of them */
    uint64_t warp_instructions; /* of all launches */
    /* Of the launch. */
    const struct ptx_launch *launch;
    size_t parameters; /* bytes of them that the kernel takes */
    const struct ptx_function *entry;
    struct ptx_fault *fault;
    struct ptx_range ranges[PTX_RANGES];
    uint32_t nranges;
    uint32_t left;                   /* blocks that run */
    uint64_t end;                    /* of warp_instructions, if the launch has a limit */
    uint64_t random, clock, pace;    /* nanoseconds for each instruction of a warp */
    uint64_t grain;                  /* nanoseconds that %globaltimer goes on at a time */
    bool looked_at_clock, unchecked; /* unchecked: no memory to look for races */
};

uint64_t ptx_random(struct ptx_machine *machine);

/* Stops the launch: what lane `lane` has done wrong there. Always false. */
bool ptx_fail(struct ptx_warp *warp, enum ptx_error error, uint32_t pc, uint32_t lane,
              const char *format, ...) __attribute__((format(printf, 5, 6)));

/* ptx_memory.c: ld and st of the active lanes; false: stopped. */
bool ptx_access(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc, uint32_t active);
/* The lanes of a source. */
static inline const uint64_t *ptx_source(const struct ptx_warp *warp, uint32_t source)
{
    return (source & PTX_CONSTANT) != 0
               ? warp->block->machine->program->constants[source & ~PTX_CONSTANT]
               : warp->regs[source];
}

/* ptx_warp.c: store results of active lanes, in a register and in a predicate. */
void ptx_commit(struct ptx_warp *warp, uint32_t to, uint32_t active, const uint64_t *result);
void ptx_commit_pred(struct ptx_warp *warp, uint32_t to, uint32_t active, uint32_t bits);
uint32_t ptx_lanes_at(const struct ptx_warp *warp, uint32_t lanes, uint32_t pc);
void ptx_set_pc(struct ptx_warp *warp, uint32_t lanes, uint32_t pc);
/* Stops the launch: these lanes have read what they have not written. Always false. */
bool ptx_unwritten(struct ptx_warp *warp, uint32_t pc, uint32_t lanes);

/* ptx_sync.c: these lanes have reached a shuffle or vote; false: stopped. */
bool ptx_sync(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc, uint32_t active);

/*
 * ptx_race.c: a thread of the block, of this warp, or PTX_MANY of them, accesses bytes, 1 to 16,
 * naturally aligned. false: another thread has done so, too, with no barrier in between that both
 * take part in, and one of them has written; *other is it, or PTX_MANY of them.
 */
#define PTX_MANY 1023
bool ptx_race_read(struct ptx_block *block, uint32_t warp, uint64_t address, uint32_t bytes,
                   uint32_t thread, uint32_t *other);
bool ptx_race_write(struct ptx_block *block, uint32_t warp, uint64_t address, uint32_t bytes,
                    uint32_t thread, uint32_t *other);
/* The same for shared memory; *unwritten: nobody has written the bytes since the launch. */
bool ptx_race_read_shared(struct ptx_block *block, uint32_t warp, uint32_t at, uint32_t bytes,
                          uint32_t thread, uint32_t *other, bool *unwritten);
bool ptx_race_write_shared(struct ptx_block *block, uint32_t warp, uint32_t at, uint32_t bytes,
                           uint32_t thread, uint32_t *other);
/* A warp arrives at a barrier and goes on; and a barrier is complete: those of `waited` have
 * waited, those of `arrived` had arrived. */
void ptx_race_arrive(struct ptx_block *block, uint32_t warp);
void ptx_race_barrier(struct ptx_block *block, uint32_t waited, uint32_t arrived);
/* A thread passes on what it did (ptx_weak.h), which ends here. */
void ptx_race_fence(struct ptx_block *block);
/* A new launch: nothing of shared memory is written. */
void ptx_race_restart(struct ptx_block *block);
void ptx_race_free(struct ptx_block *block);

/* ptx_weak.c: accesses of global memory, and fences, of lanes; false: stopped. */
bool ptx_weak_load(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc, uint32_t active,
                   const uint64_t *address, uint64_t values[4][PTX_LANES]);
bool ptx_weak_store(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc,
                    uint32_t active, const uint64_t *address);
void ptx_weak_fence(struct ptx_warp *warp, uint8_t scope, uint32_t lanes);
/* ptx_weak_agents.c: a launch starts; false: it cannot. All of its blocks have ended; false: some
 * of their stores are not visible yet. */
bool ptx_weak_start(struct ptx_machine *machine);
bool ptx_weak_ended(struct ptx_machine *machine);
/* As ptx_race_arrive and ptx_race_barrier. */
void ptx_weak_arrive(struct ptx_block *block, uint32_t warp);
void ptx_weak_barrier(struct ptx_block *block, uint32_t waited, uint32_t arrived);

/* ptx_count.c: a warp or block starts, or ends, or runs an instruction; accesses of global memory.
 */
void ptx_count_start(struct ptx_warp *warp);
void ptx_count_fence(struct ptx_warp *warp);
void ptx_count_access(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t active);
void ptx_count_use(struct ptx_warp *warp, const struct ptx_inst *inst);
void ptx_count_end(const struct ptx_block *block);

/* ptx_warp.c: runs lanes of a warp, at most so many instructions; false: the launch is stopped.
 * *done: instructions run; 0: no lane is runnable. */
bool ptx_warp_run(struct ptx_warp *warp, uint32_t most, uint32_t *done);

/* ptx_run.c: these lanes have reached a barrier, and wait or, all lanes, go on; or the end. */
bool ptx_barrier_wait(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc,
                      uint32_t lanes, uint32_t verdicts);
bool ptx_barrier_arrive(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc);
bool ptx_exit(struct ptx_warp *warp, uint32_t pc, uint32_t lanes);

#endif
