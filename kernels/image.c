/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "gpuring_config.h"

#include "kernels/image.h"

#include <stddef.h>

#include "kernels/kernels.h"
#include "kernels/step.h"
#include "kernels/types.h"

#if GPURING_HAVE_CUDA
/* The file is relative to the build folder, where the compiler runs. The driver requires
 * alignment. */
__asm__(".pushsection .rodata\n"
        ".balign 64\n"
        ".globl gpuring_kernel_image\n"
        ".hidden gpuring_kernel_image\n"
        ".type gpuring_kernel_image, %object\n"
        "gpuring_kernel_image:\n"
        ".incbin \"kernels/kernels.fatbin\"\n"
        ".size gpuring_kernel_image, . - gpuring_kernel_image\n"
        ".popsection\n");
#endif

/* Representation of a type: [0] for operations that do not compare values, [1] for those that
 * do. */
#define REPRESENTATION(type, words, ordered) \
    [GPURING_TYPE_##type] = {KERNELS_##words, KERNELS_##ordered},

static const uint8_t representations[GPURING_TYPE_COUNT][2] = {KERNELS_TYPES(REPRESENTATION)};

/* The kernels that a protocol has, in the order of their numbers. */
#define FAST(operation, name, representation, size) FAST_##name##_##representation,
enum { KERNELS_FAST(FAST) ANY_8, ANY_16, KERNELS };
#undef FAST
_Static_assert(GPURING_KERNELS == KERNELS * GPURING_PROTOCOL_COUNT, "so many there are");

#define NAME(PROTOCOL, protocol, name)                  "gpuring_" #protocol "_" name,
#define FAST(PROTOCOL, protocol, op, name, words, size) NAME(PROTOCOL, protocol, #name "_" #words)
#define FAST_OF(...)                                    KERNELS_PROTOCOLS(FAST, __VA_ARGS__)

/* Names by number. Kernels of one reduction have consecutive numbers in the order of the
 * protocols. */
static const char *const names[GPURING_KERNELS] = {
    KERNELS_FAST(FAST_OF) KERNELS_PROTOCOLS(NAME, "any_8") KERNELS_PROTOCOLS(NAME, "any_16")};
#undef FAST
_Static_assert(GPURING_PROTOCOL_SIMPLE == 0 && GPURING_PROTOCOL_LL == 1 &&
                   GPURING_PROTOCOL_LL128 == 2,
               "the order of KERNELS_PROTOCOLS");

uint32_t gpuring_kernel_threads(const struct gpuring_work *work)
{
    uint64_t size = gpuring_type_info(work->type)->size, first, bytes;
    struct gpuring_lane last = work->first;
    uint32_t threads = GPURING_LL_THREADS;

    if (work->protocol != GPURING_PROTOCOL_LL) {
        return GPURING_KERNEL_THREADS;
    }
    last.part_begin += work->parts - last.part_end;
    last.part_end = work->parts;
    gpuring_lane_range(work, &last, size, &first, &bytes);
    bytes =
        size * gpuring_window_chunk(bytes, work->has_blocks ? 1 : last.nchunks, work->chunk, size);
    if (work->has_blocks || last.nchunks > 1) { /* one for each peer */
        uint32_t npeers = last.nsends > last.nrecvs ? last.nsends : last.nrecvs;

        bytes *= npeers > 0 ? npeers : 1;
    }
    while (threads < GPURING_KERNEL_THREADS && 8 * (uint64_t) threads < bytes) {
        threads *= 2;
    }
    return threads;
}

int gpuring_kernel_number(uint32_t type, uint32_t op, uint32_t protocol)
{
    int kernel;

    if (!gpuring_op_allows(op, type) || !gpuring_type_info(type)->device ||
        protocol >= GPURING_PROTOCOL_COUNT) {
        return -1;
    }
    switch (KERNELS_CODE(op, representations[type][KERNELS_ORDERED(op)])) {
#define FAST(operation, name, representation, size)                      \
    case KERNELS_CODE(GPURING_OP_##operation, KERNELS_##representation): \
        kernel = FAST_##name##_##representation;                         \
        break;
        KERNELS_FAST(FAST)
    default:
        kernel = gpuring_type_info(type)->size > 8 ? ANY_16 : ANY_8;
        break;
    }
    return kernel * GPURING_PROTOCOL_COUNT + (int) protocol;
}

const char *gpuring_kernel_numbered(int number)
{
    return number >= 0 && number < GPURING_KERNELS ? names[number] : NULL;
}

const char *gpuring_kernel_name(uint32_t type, uint32_t op, uint32_t protocol)
{
    return gpuring_kernel_numbered(gpuring_kernel_number(type, op, protocol));
}
