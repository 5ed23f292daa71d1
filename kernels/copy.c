/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "kernels/copy.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#define LEAST_VECTORS 1024      /* bytes, from where on memcpy is not the best */
#define LEAST_STRINGS 512       /* bytes, from where on memcpy is not the best */
#define PIECE         (8 << 10) /* 32 KiB at a time and more take three times as long (AMD Zen 5) */
#define ERMS          (1u << 9) /* CPUID, leaf 7, EBX: enhanced rep movsb and stosb */

/* Has the processor fast string operations (ERMS)? */
static int has_strings(void)
{
    static int known; /* atomic: 0: not asked yet, 1: no, 2: yes; equal, whoever writes it */
    int found = __atomic_load_n(&known, __ATOMIC_RELAXED);
    unsigned a, b = 0, c, d;

    if (found == 0) {
        found = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & ERMS) != 0 ? 2 : 1;
        __atomic_store_n(&known, found, __ATOMIC_RELAXED);
    }
    return found == 2;
}

void gpuring_copy_to_slot(void *to, const void *from, size_t bytes)
{
    if (bytes < LEAST_STRINGS || !has_strings()) {
        memcpy(to, from, bytes);
        return;
    }
    while (bytes > 0) {
        size_t piece = bytes < PIECE ? bytes : PIECE, count = piece;

        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
        bytes -= piece;
    }
}

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
    size_t done =
        bytes >= LEAST_VECTORS && __builtin_cpu_supports("avx2") ? copy_avx2(to, from, bytes) : 0;

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
}

void gpuring_copy_stream_end(void)
{
    _mm_sfence();
}

#else

void gpuring_copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

void gpuring_copy_to_slot(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

void gpuring_copy_stream(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

void gpuring_copy_stream_end(void)
{
}

#endif
