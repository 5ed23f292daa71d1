/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "gpuring_config.h"

#include "kernels/image.h"

#include <stddef.h>

#include "kernels/kernels.h"
#include "kernels/step.h"
#include "kernels/types.h"

#if GPURING_HAVE_CUDA
/* The file lies in the build folder, where the compiler runs; aligned as the driver wants it. */
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

/* How a type is represented: [0] where the order of values does not matter, [1] where it does. */
#define REPRESENTATION(type, words, ordered) \
    [GPURING_TYPE_##type] = {KERNELS_##words, KERNELS_##ordered},

static const uint8_t representations[GPURING_TYPE_COUNT][2] = {KERNELS_TYPES(REPRESENTATION)};

/* The kernel of that name of each protocol. */
#define NAME(PROTOCOL, protocol, name) \
    [GPURING_PROTOCOL_##PROTOCOL] = "gpuring_" #protocol "_" name,
#define NAMES(name) ((const char *const[GPURING_PROTOCOL_COUNT]){KERNELS_PROTOCOLS(NAME, name)})

const char *gpuring_kernel_name(uint32_t type, uint32_t op, uint32_t protocol)
{
    if (!gpuring_op_allows(op, type) || !gpuring_type_info(type)->device ||
        protocol >= GPURING_PROTOCOL_COUNT) {
        return NULL;
    }
    switch (KERNELS_CODE(op, representations[type][KERNELS_ORDERED(op)])) {
#define FAST(operation, name, representation, size)                      \
    case KERNELS_CODE(GPURING_OP_##operation, KERNELS_##representation): \
        return NAMES(#name "_" #representation)[protocol];
        KERNELS_FAST(FAST)
    default:
        return gpuring_type_info(type)->size > 8 ? NAMES("any_16")[protocol]
                                                 : NAMES("any_8")[protocol];
    }
}
