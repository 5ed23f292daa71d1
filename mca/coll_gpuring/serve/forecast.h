/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Forecasts: what the ranks expect of small calls with a root, where they see no common pages and
 * would have to exchange messages to know where all buffers are (mixed_memory.c).
 *
 * Calls of the same collective and about the same size are of one kind. The ranks agree on the
 * first ones of a kind. After an agreement with the same result as the one before, 1, 2, 4 .. 64
 * calls go without: all ranks take them for what they agreed on last. A result that differs begins
 * anew.
 *
 *     calls of one kind   a a . a . . a . . . . a       a: the ranks agree first
 *
 * Each rank asks for each call of the kind, in the order of the calls, and learns each result
 * before it asks for the next. So all ranks expect the same, without a message. No MPI.
 */
#ifndef GPURING_SERVE_FORECAST_H
#define GPURING_SERVE_FORECAST_H

#include <stdint.h>

/* Of one kind of calls; begins as zero. */
struct gpuring_forecast {
    uint8_t result; /* of the last agreement */
    uint8_t run;    /* so many calls go without after it; */
    uint8_t left;   /* .. so many of them are left */
};

enum gpuring_expected {
    GPURING_EXPECTED_UNKNOWN, /* the ranks are to agree */
    GPURING_EXPECTED_HOST,    /* not all ranks have a buffer on a GPU */
    GPURING_EXPECTED_GPU,     /* all have */
};

#define GPURING_FORECAST_RUN 64 /* calls at most that go without an agreement */

/* What is expected of the next call. */
static inline enum gpuring_expected gpuring_forecast_next(const struct gpuring_forecast *forecast)
{
    return forecast->left > 0 ? (enum gpuring_expected) forecast->result : GPURING_EXPECTED_UNKNOWN;
}

/* The same, and it is made. */
static inline enum gpuring_expected gpuring_forecast_ask(struct gpuring_forecast *forecast)
{
    enum gpuring_expected expected = gpuring_forecast_next(forecast);

    forecast->left = (uint8_t) (forecast->left - (expected != GPURING_EXPECTED_UNKNOWN));
    return expected;
}

/* The ranks have agreed on the call that was asked for last. */
static inline void gpuring_forecast_learn(struct gpuring_forecast *forecast,
                                          enum gpuring_expected result)
{
    unsigned run = result != forecast->result ? 0 : forecast->run == 0 ? 1 : 2u * forecast->run;

    forecast->result = (uint8_t) result;
    forecast->run = (uint8_t) (run < GPURING_FORECAST_RUN ? run : GPURING_FORECAST_RUN);
    forecast->left = forecast->run;
}

#endif
