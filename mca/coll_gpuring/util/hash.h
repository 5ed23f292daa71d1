/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* FNV-1a with 64 bits (Fowler, Noll, Vo): equal on all hosts for equal input. */
#ifndef GPURING_UTIL_HASH_H
#define GPURING_UTIL_HASH_H

#include <stddef.h>
#include <stdint.h>

#define GPURING_HASH_START UINT64_C(0xcbf29ce484222325)

static inline uint64_t gpuring_hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
    const uint8_t *byte = (const uint8_t *) bytes;

    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* Hash a number, lowest byte first. */
static inline uint64_t gpuring_hash_number(uint64_t hash, uint64_t number)
{
    for (int shift = 0; shift < 64; shift += 8) {
        hash = (hash ^ (number >> shift & 0xff)) * UINT64_C(0x100000001b3);
    }
    return hash;
}

#endif
