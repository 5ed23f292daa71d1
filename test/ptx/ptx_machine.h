/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* State of a running interpreter: a grid of blocks of warps. */
#ifndef GPURING_PTX_MACHINE_H
#define GPURING_PTX_MACHINE_H

#include "test/ptx/ptx_code.h"

#define PTX_DEPTH  4 /* maximum depth of calls; there is no recursion */
#define PTX_RANGES 8
#define PTX_PAGE   UINT64_C(8192)

#define PTX_BARRIERS 16
#define PTX_WARPS    32

struct ptx_barrier {
    uint32_t here, needed; /* numbers of threads */
    uint32_t pc, verdict;  /* instruction of the first thread; result of bar.red.and so far */
    uint32_t arrived;      /* warps that have arrived without waiting (bar.arrive) */
    uint64_t path;         /* longest path of a warp that has arrived, see ptx_count.c */
};

/* The last writer and reader of each byte of a page; see ptx_race.c. */
struct ptx_page {
    uint64_t number;
    uint32_t writer[PTX_PAGE], reader[PTX_PAGE];
    uint32_t readers[PTX_PAGE]; /* global memory: bits of the warps that have read it */
};

struct ptx_shadow {
    struct ptx_page **pages; /* hash table by page number */
    struct ptx_page *last;
    uint32_t count, room;
};

/* A load of a warp that is performed later than its instruction; see ptx_late.c. */
#define PTX_LATE 4
struct ptx_late {
    const struct ptx_inst *inst;
    uint32_t pc, active;
    uint32_t turns; /* turns that the warp waits for its value */
    uint64_t address[PTX_LANES];
};

/*
 * Each lane is in exactly one of the four masks. While it waits, its program counter remains at the
 * barrier, shuffle or vote. The layout of registers is regs[register][lane].
 */
struct ptx_warp {
    struct ptx_block *block;
    uint32_t first; /* number of the thread of lane 0 */
    uint32_t runnable, at_barrier, at_sync, exited;
    uint32_t barrier; /* barrier at which the lanes of at_barrier wait */
    uint32_t pc[PTX_LANES], depth[PTX_LANES], returns[PTX_DEPTH][PTX_LANES];
    uint64_t (*regs)[PTX_LANES];
    uint32_t *written; /* for each register: lanes that have written it */
    uint32_t *pending; /* for each register: loads whose result was not used so far */
    uint64_t fences, under_way, most_under_way, rounds, waits, instructions,
        path; /* see ptx_count.c */
    bool stored;
    uint32_t *preds, *preds_written; /* for each predicate: a bit for each lane */
    uint8_t *parameters;             /* of lane 0, followed by those of the other lanes */
    struct ptx_late late[PTX_LATE];
    uint32_t nlate;
};

struct ptx_block {
    struct ptx_machine *machine;
    uint32_t number, nwarps, exited; /* exited: number of threads */
    uint32_t index, agent;           /* among the blocks of the machine, and in ptx_weak.h */
    struct ptx_barrier barriers[PTX_BARRIERS];
    /* Order between warps, see ptx_race.c. */
    uint32_t tick, known[PTX_WARPS][PTX_WARPS], floor[PTX_WARPS], arrived[PTX_WARPS];
    uint32_t reads[PTX_WARPS]; /* tick at which each warp last read global memory */
    struct ptx_warp *warps;
    uint8_t *shared;
    struct ptx_shadow shadow;              /* accesses to global memory */
    struct ptx_page *shadow_shared;        /* writers of shared memory */
    uint32_t (*readers_shared)[PTX_WARPS]; /* [PTX_PAGE] */
};

struct ptx_range {
    uint64_t begin, end;
};

struct ptx_machine {
    const struct ptx_program *program;
    struct ptx_block **blocks;  /* kept between launches */
    uint32_t nblocks, nwarps;   /* nwarps: per block */
    uint64_t warp_instructions; /* in all launches */
    /* State of the current launch. */
    const struct ptx_launch *launch;
    size_t parameters; /* bytes that the kernel uses */
    const struct ptx_function *entry;
    struct ptx_fault *fault;
    struct ptx_range ranges[PTX_RANGES];
    uint32_t nranges;
    uint32_t left;                   /* number of running blocks */
    uint64_t end;                    /* limit for warp_instructions, or 0 */
    uint64_t random, clock, pace;    /* pace: nanoseconds per warp instruction */
    uint64_t grain;                  /* resolution of %globaltimer in nanoseconds */
    bool looked_at_clock, unchecked; /* unchecked: no memory for race checks */
};

uint64_t ptx_random(struct ptx_machine *machine);

/* Stop the launch with an error of lane `lane` at instruction `pc`. Always return false. */
bool ptx_fail(struct ptx_warp *warp, enum ptx_error error, uint32_t pc, uint32_t lane,
              const char *format, ...) __attribute__((format(printf, 5, 6)));

/* ptx_memory.c: run ld or st of the active lanes. Return false if the launch was stopped. */
bool ptx_access(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc, uint32_t active);
/* Perform a load of modelled memory, and store its result in registers. Return false if the launch
 * was stopped. */
bool ptx_load_modelled(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc,
                       uint32_t active, const uint64_t *address);
/* Return the values of a source on all lanes. */
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
/* Stop the launch because these lanes have read a register that they have not written. Always
 * return false. */
bool ptx_unwritten(struct ptx_warp *warp, uint32_t pc, uint32_t lanes);

/* ptx_sync.c: these lanes have reached a shuffle or vote. Return false if the launch was
 * stopped. */
bool ptx_sync(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc, uint32_t active);

/*
 * ptx_race.c: a thread of this warp (or several threads, PTX_MANY) accesses 1 to 16 naturally
 * aligned bytes. Return false if this is a race: another thread has accessed the bytes without a
 * barrier of both in between, and one of them has written. *other is that thread, or PTX_MANY.
 */
#define PTX_MANY 1023
bool ptx_race_read(struct ptx_block *block, uint32_t warp, uint64_t address, uint32_t bytes,
                   uint32_t thread, uint32_t *other);
bool ptx_race_write(struct ptx_block *block, uint32_t warp, uint64_t address, uint32_t bytes,
                    uint32_t thread, uint32_t *other);
/* The same for shared memory. *unwritten is true if no thread has written the bytes in this
 * launch. */
bool ptx_race_read_shared(struct ptx_block *block, uint32_t warp, uint32_t at, uint32_t bytes,
                          uint32_t thread, uint32_t *other, bool *unwritten);
bool ptx_race_write_shared(struct ptx_block *block, uint32_t warp, uint32_t at, uint32_t bytes,
                           uint32_t thread, uint32_t *other);
/* A warp arrives at a barrier without waiting; and a barrier is complete. The warps of `waited`
 * have waited for it, and the warps of `arrived` have arrived before. */
void ptx_race_arrive(struct ptx_block *block, uint32_t warp);
void ptx_race_barrier(struct ptx_block *block, uint32_t waited, uint32_t arrived);
/* Begin a new tick, because a thread has released its earlier accesses (ptx_weak.h). */
void ptx_race_fence(struct ptx_block *block);
/* Begin a launch, in which no shared memory is written. */
void ptx_race_restart(struct ptx_block *block);
void ptx_race_free(struct ptx_block *block);

/* ptx_weak.c: accesses to global memory and fences of lanes. Return false if the launch was
 * stopped. */
bool ptx_weak_load(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc, uint32_t active,
                   const uint64_t *address, uint64_t values[4][PTX_LANES]);
bool ptx_weak_store(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc,
                    uint32_t active, const uint64_t *address);
void ptx_weak_fence(struct ptx_warp *warp, uint8_t scope, uint32_t lanes);
/* ptx_late.c: decide at random whether to perform a load later, and record it. Return true if so.
 */
bool ptx_late_add(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc, uint32_t active,
                  const uint64_t *address);
/* Return true if the warp must end its turn, because the instruction waits for a late load. */
bool ptx_late_stalls(struct ptx_warp *warp, const struct ptx_inst *inst);
/* Perform the late loads that must precede an instruction; or that must precede an access of these
 * lanes to `bytes` bytes each. Return false if the launch was stopped. */
bool ptx_late_before(struct ptx_warp *warp, const struct ptx_inst *inst);
bool ptx_late_meets(struct ptx_warp *warp, uint32_t active, const uint64_t *address,
                    uint32_t bytes);
/* ptx_weak_agents.c: start a launch, and return false if this is impossible. End a launch after its
 * blocks have ended, and return false if some of their stores are not visible yet. */
bool ptx_weak_start(struct ptx_machine *machine);
bool ptx_weak_ended(struct ptx_machine *machine);
/* See ptx_race_arrive and ptx_race_barrier. */
void ptx_weak_arrive(struct ptx_block *block, uint32_t warp);
void ptx_weak_barrier(struct ptx_block *block, uint32_t waited, uint32_t arrived);

/* ptx_count.c: count starts and ends, accesses to global memory, and other instructions. */
void ptx_count_start(struct ptx_warp *warp);
void ptx_count_fence(struct ptx_warp *warp);
void ptx_count_access(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t active);
void ptx_count_use(struct ptx_warp *warp, const struct ptx_inst *inst);
/* A warp arrives at a barrier; and the warp has waited for a barrier that is complete. */
void ptx_count_arrive(const struct ptx_warp *warp, struct ptx_barrier *barrier);
void ptx_count_continue(struct ptx_warp *warp, const struct ptx_barrier *barrier);
void ptx_count_end(const struct ptx_block *block);

/* ptx_warp.c: run at most `most` instructions of a warp. Return false if the launch was stopped.
 * *done is the number of instructions, or 0 if no lane is runnable. */
bool ptx_warp_run(struct ptx_warp *warp, uint32_t most, uint32_t *done);

/* ptx_run.c: these lanes wait at a barrier; all lanes arrive at a barrier and continue; or these
 * lanes exit. */
bool ptx_barrier_wait(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc,
                      uint32_t lanes, uint32_t verdicts);
bool ptx_barrier_arrive(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc);
bool ptx_exit(struct ptx_warp *warp, uint32_t pc, uint32_t lanes);

#endif
