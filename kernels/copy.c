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
#define LEAST_TIMED   4096      /* bytes, from where on `rep movsb` is not always the best */
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

static void copy_strings(void *to, const void *from, size_t bytes)
{
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

static void copy_around(void *to, const void *from, size_t bytes)
{
    gpuring_copy_stream(to, from, bytes);
    gpuring_copy_stream_end();
}

/*
 * Of two ways into a slot neither is the quicker one everywhere. `rep movsb` has to wait for each
 * line that the reader's core holds; what goes around the caches has to be fetched from memory.
 * That depends on processors and on where the reader's core is, and nothing tells it: processes are
 * moved, and virtual machines do not know. So now and then some copies are made one way and some
 * the other; the first ones of each way, which find slots as the other has left them, are not
 * timed. Of the process, with all its neighbours. Threads may spoil one another's times, which
 * costs speed alone.
 */
#define PERIOD  512 /* copies, of which the first ones are trials: */
#define TRIAL   12  /* so many each way, */
#define UNTIMED 8   /* of which so many are not timed: the slots of a connection */
#define GAIN    2   /* of the second way, which takes the reader longer: measured, Zen 4 */

static void (*const ways[])(void *to, const void *from, size_t bytes) = {copy_strings, copy_around};

/* All atomic. */
static struct {
    uint32_t copies;  /* so far */
    uint32_t way;     /* the quicker one */
    uint64_t time[2]; /* of the last trials: cycles a KiB, summed up */
} timed;

static void copy_trial(uint32_t at, void *to, const void *from, size_t bytes)
{
    uint32_t way = at / TRIAL;
    uint64_t *time = &timed.time[way], begin = __rdtsc(), sum;

    ways[way](to, from, bytes);
    sum = (__rdtsc() - begin) * 1024 / bytes;
    if (at % TRIAL > UNTIMED) {
        sum += __atomic_load_n(time, __ATOMIC_RELAXED);
    }
    __atomic_store_n(time, sum, __ATOMIC_RELAXED);
    if (at == 2 * TRIAL - 1) {
        uint64_t first = __atomic_load_n(&timed.time[0], __ATOMIC_RELAXED);

        __atomic_store_n(&timed.way, sum * GAIN < first, __ATOMIC_RELAXED);
    }
}

static void copy_quickly(void *to, const void *from, size_t bytes)
{
    uint32_t copies = __atomic_load_n(&timed.copies, __ATOMIC_RELAXED), at = copies % PERIOD;

    __atomic_store_n(&timed.copies, copies + 1, __ATOMIC_RELAXED);
    if (at < 2 * TRIAL) {
        copy_trial(at, to, from, bytes);
    } else {
        ways[__atomic_load_n(&timed.way, __ATOMIC_RELAXED)](to, from, bytes);
    }
}

void gpuring_copy_to_slot(void *to, const void *from, size_t bytes)
{
    if (bytes < LEAST_STRINGS || !has_strings()) {
        memcpy(to, from, bytes);
    } else if (bytes < LEAST_TIMED) {
        copy_strings(to, from, bytes);
    } else {
        copy_quickly(to, from, bytes);
    }
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
