/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Forecasts of where the buffers of small calls with a root are. They are used where the ranks see
 * no common status pages and would need an exchange of messages for each call (mixed_memory.c).
 *
 * Calls of the same collective and about the same size are of one kind. The ranks agree on the
 * first calls of a kind. After an agreement with the same result as the one before, all ranks use
 * this result for the next 1, 2, 4 .. 64 calls without a new agreement. A different result starts
 * the sequence again.
 *
 *     calls of one kind   a a . a . . a . . . . a       a: the ranks agree first
 *
 * Each rank queries the forecast for each call of the kind, in the order of the calls, and records
 * each result before its next query. Therefore all ranks get the same forecast without a message.
 * No MPI.
 */
#ifndef GPURING_SERVE_FORECAST_H
#define GPURING_SERVE_FORECAST_H

#include <stdint.h>

/* The forecast for one kind of calls. Initially zero. */
struct gpuring_forecast {
    uint8_t result; /* of the last agreement */
    uint8_t run;    /* number of calls that follow this agreement without one */
    uint8_t left;   /* number of these calls that were not made yet */
};

enum gpuring_expected {
    GPURING_EXPECTED_UNKNOWN, /* the ranks must agree */
    GPURING_EXPECTED_HOST,    /* not all ranks have a buffer on a GPU */
    GPURING_EXPECTED_GPU,     /* all have */
};

#define GPURING_FORECAST_RUN 64 /* maximum number of calls between two agreements */

/* Return the forecast for the next call. */
static inline enum gpuring_expected gpuring_forecast_next(const struct gpuring_forecast *forecast)
{
    return forecast->left > 0 ? (enum gpuring_expected) forecast->result : GPURING_EXPECTED_UNKNOWN;
}

/* Return the forecast for the next call, and count the call as made. */
static inline enum gpuring_expected gpuring_forecast_ask(struct gpuring_forecast *forecast)
{
    enum gpuring_expected expected = gpuring_forecast_next(forecast);

    forecast->left = (uint8_t) (forecast->left - (expected != GPURING_EXPECTED_UNKNOWN));
    return expected;
}

/* Record the result of the agreement on the call of the last query. */
static inline void gpuring_forecast_learn(struct gpuring_forecast *forecast,
                                          enum gpuring_expected result)
{
    unsigned run = result != forecast->result ? 0 : forecast->run == 0 ? 1 : 2u * forecast->run;

    forecast->result = (uint8_t) result;
    forecast->run = (uint8_t) (run < GPURING_FORECAST_RUN ? run : GPURING_FORECAST_RUN);
    forecast->left = forecast->run;
}

#endif
