/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Tuning files: measured rules that say which algorithm and protocol serve a size, or that the
 * component that would serve without us does. No MPI; gpuring-perf writes them.
 *
 *   gpuring-tuning 1
 *   allreduce memory=host nodes=2 ranks=2 bytes=0-4095 previous
 *   allreduce memory=* nodes=2- ranks=* bytes=65536- ring simple     # a comment
 *
 * A rule a line, in this order of words; the first one that matches counts. Numbers are N, N-M, N-
 * or *; memory is host, cuda or *; bytes are those of the vector. What serves is `previous`, or an
 * algorithm and, if wanted, a protocol, by the names of coll_gpuring_algorithm and _protocol; auto:
 * as without a file.
 */
#ifndef GPURING_ENGINE_TUNING_H
#define GPURING_ENGINE_TUNING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GPURING_TUNING_MAX_FILE  (1u << 20) /* bytes */
#define GPURING_TUNING_MAX_RULES 1024
#define GPURING_TUNING_MAX_LINE  512

enum gpuring_tuning_memory { GPURING_TUNING_HOST, GPURING_TUNING_CUDA, GPURING_TUNING_MEMORIES };

struct gpuring_tuning_span {
    uint64_t first, last; /* both included; UINT64_MAX: without an end */
};

struct gpuring_tuning_rule {
    uint32_t memories; /* bits 1 << enum gpuring_tuning_memory */
    struct gpuring_tuning_span nodes, ranks, bytes;
    int algorithm; /* enum gpuring_param_algorithm */
    int protocol;  /* enum gpuring_param_protocol */
};

struct gpuring_tuning {
    struct gpuring_tuning_rule *rules; /* NULL: none */
    uint32_t count;
};

/*
 * Read text of `bytes` bytes, or a file. Returns 0, or a negative gpuring_status: *error then says
 * what is wrong, in which line and word, and what may stand there; the file version puts the path
 * in front. `error` has room for `size` bytes. gpuring_tuning_clear gives the rules back.
 */
int gpuring_tuning_parse(const char *text, size_t bytes, struct gpuring_tuning *tuning, char *error,
                         size_t size);
int gpuring_tuning_read(const char *path, struct gpuring_tuning *tuning, char *error, size_t size);
void gpuring_tuning_clear(struct gpuring_tuning *tuning);

/* The whole of a file, with a zero behind it; NULL: none, *error says why. The caller frees it. */
char *gpuring_tuning_load(const char *path, size_t *bytes, char *error, size_t size);

/* One line without its end: 1 and the rule, 0 if it holds none, or negative and *error. */
int gpuring_tuning_line(const char *text, size_t length, struct gpuring_tuning_rule *rule,
                        char *error, size_t size);

/* The rule as a line of a file, without its end; the number of characters, as snprintf. */
int gpuring_tuning_text(const struct gpuring_tuning_rule *rule, char *text, size_t size);

#define GPURING_TUNING_VERSION_LINE "gpuring-tuning 1"

/* Equal for equal rules, whatever else is in the files. */
#define GPURING_TUNING_NONE   UINT64_C(0)                                 /* no file was given */
#define GPURING_TUNING_BROKEN UINT64_C(1)                                 /* it cannot be used */
uint64_t gpuring_tuning_fingerprint(const struct gpuring_tuning *tuning); /* neither of these */

/* The rules for one kind of memory and number of nodes and ranks, in their order: few, as a rule.
 */
struct gpuring_tuned_range {
    struct gpuring_tuning_span bytes;
    int8_t algorithm; /* enum gpuring_algorithm, -1: none is named */
    int8_t protocol;  /* enum gpuring_protocol, -1: none is named */
    bool previous;    /* delegated to the previous component */
};
struct gpuring_tuned {
    uint32_t count;
    struct gpuring_tuned_range range[];
};

/* *tuned: to be freed by free(), NULL if no rule matches. 0 or GPURING_ERR_NOMEM. */
int gpuring_tuned_find(const struct gpuring_tuning *tuning, enum gpuring_tuning_memory memory,
                       uint64_t nodes, uint64_t ranks, struct gpuring_tuned **tuned);

/* The first rule for a size; one that names nothing if there is none. tuned may be NULL. */
static inline const struct gpuring_tuned_range *gpuring_tuned_at(const struct gpuring_tuned *tuned,
                                                                 uint64_t bytes)
{
    static const struct gpuring_tuned_range nothing = {.algorithm = -1, .protocol = -1};

    for (uint32_t i = 0; tuned != NULL && i < tuned->count; i++) {
        const struct gpuring_tuned_range *range = &tuned->range[i];

        if (range->bytes.first <= bytes && bytes <= range->bytes.last) {
            return range;
        }
    }
    return &nothing;
}

/* "0-4095 previous, 4096- ring simple", cut where the room ends. */
void gpuring_tuned_text(const struct gpuring_tuned *tuned, char *text, size_t size);

/* Does any rule name it (enum gpuring_param_algorithm)? */
bool gpuring_tuning_names(const struct gpuring_tuning *tuning, int algorithm);

#endif
