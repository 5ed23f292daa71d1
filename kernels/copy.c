/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "kernels/copy.h"

#include <stdint.h>
#include <string.h>

#define LEAST 1024 /* from where on memcpy is not the best */

#if defined(__x86_64__)
#include <immintrin.h>

/* Returns how many bytes it has copied: whole pairs of lines. */
__attribute__((target("avx2"))) static size_t copy_avx2(uint8_t *to, const uint8_t *from,
                                                        size_t bytes)
{
    size_t at = 0;

    for (; at + 128 <= bytes; at += 128) {
        __m256i part[4];

        for (int i = 0; i < 4; i++) {
            part[i] = _mm256_loadu_si256((const __m256i *) (const void *) (from + at) + i);
        }
        for (int i = 0; i < 4; i++) {
            _mm256_storeu_si256((__m256i *) (void *) (to + at) + i, part[i]);
        }
    }
    return at;
}

void gpuring_copy(void *to, const void *from, size_t bytes)
{
    size_t done = bytes >= LEAST && __builtin_cpu_supports("avx2") ? copy_avx2(to, from, bytes) : 0;

    memcpy((uint8_t *) to + done, (const uint8_t *) from + done, bytes - done);
}

void gpuring_copy_stream(void *to, const void *from, size_t bytes)
{
    size_t at = -(uintptr_t) to % 64; /* up to the first line of `to` */

    at = at < bytes ? at : bytes;
    memcpy(to, from, at);
    for (; at + 64 <= bytes; at += 64) {
        __m128i part[4];

        for (int i = 0; i < 4; i++) {
            part[i] =
                _mm_loadu_si128((const __m128i *) (const void *) ((const uint8_t *) from + at) + i);
        }
        for (int i = 0; i < 4; i++) {
            _mm_stream_si128((__m128i *) (void *) ((uint8_t *) to + at) + i, part[i]);
        }
    }
    memcpy((uint8_t *) to + at, (const uint8_t *) from + at, bytes - at);
    _mm_sfence();
}

#else

void gpuring_copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

void gpuring_copy_stream(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

#endif
