/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "kernels/copy.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#define LEAST_VECTORS 1024      /* bytes from which on vectors are faster than memcpy */
#define LEAST_STRINGS 512       /* bytes from which on `rep movsb` is faster than memcpy */
#define LEAST_TIMED   4096      /* bytes from which on `rep movsb` may be slower */
#define PIECE         (8 << 10) /* bytes; from 32 KiB on it takes three times as long (Zen 5) */
#define ERMS          (1u << 9) /* CPUID, leaf 7, EBX: enhanced rep movsb and stosb */

/* Return true if the processor has fast string operations (ERMS). */
static int has_strings(void)
{
    static int known; /* atomic; 0: unknown, 1: no, 2: yes; all threads write the same value */
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

/* Copy whole pairs of lines, and return the number of copied bytes. */
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
    size_t at = -(uintptr_t) to % 64; /* bytes before the first whole line of `to` */

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
 * There are two ways to copy into a slot, and neither is always faster. `rep movsb` waits for each
 * line that is in the cache of the reader's core. After stores around the caches, the reader has to
 * load the data from memory. The faster way depends on the processor and on the distance of the
 * reader's core, which cannot be queried, because processes move between cores, and virtual
 * machines hide the topology. Therefore time some copies of both ways from time to time. The first
 * copies of each way are not timed, because the other way has left the slots in a different state.
 * The result is for the whole process with all its peers. Threads may disturb each other's timings,
 * which affects only speed.
 */
#define PERIOD  512 /* copies from one trial to the next */
#define TRIAL   12  /* copies of each way in a trial */
#define UNTIMED 8   /* copies that are not timed, as many as a connection has slots */
#define GAIN    2   /* required gain of the second way, which is slower to read (Zen 4) */

static void (*const ways[])(void *to, const void *from, size_t bytes) = {copy_strings, copy_around};

/* All atomic. */
static struct {
    uint32_t copies;  /* number of copies so far */
    uint32_t way;     /* the faster way */
    uint64_t time[2]; /* sums over the last trial, in cycles per KiB */
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
