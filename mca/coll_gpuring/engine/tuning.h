/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Tuning files: measured rules that select an algorithm and protocol for a size, or the component
 * that would serve without us. gpuring-perf writes them. No MPI.
 *
 *   gpuring-tuning 1
 *   allreduce memory=host nodes=2 ranks=2 bytes=0-4095 previous
 *   allgather memory=* nodes=2- ranks=* bytes=65536- ring simple     # a comment
 *
 * Each line has one rule with its words in this order, and the first rule that matches applies. A
 * rule covers a collective in all its forms: allgather includes MPI_Allgatherv, and reduce_scatter
 * includes MPI_Reduce_scatter_block. Numbers are N, N-M, N- or *; memory is host, cuda or *; bytes
 * are those of the vector, or of all ranks' blocks together. The last words are `previous`, or an
 * algorithm and an optional protocol, with the names of coll_gpuring_algorithm and _protocol. auto
 * means the same as no file.
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
    uint64_t first, last; /* both included; UINT64_MAX: no end */
};

struct gpuring_tuning_rule {
    int collective;    /* enum gpuring_collective */
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
 * Read text of `bytes` bytes, or a file. Return 0 or a negative gpuring_status. After an error,
 * *error (of `size` bytes) describes it, with line, word and permitted values; gpuring_tuning_read
 * adds the path. gpuring_tuning_clear frees the rules.
 */
int gpuring_tuning_parse(const char *text, size_t bytes, struct gpuring_tuning *tuning, char *error,
                         size_t size);
int gpuring_tuning_read(const char *path, struct gpuring_tuning *tuning, char *error, size_t size);
void gpuring_tuning_clear(struct gpuring_tuning *tuning);

/* Read a file. Return its contents with a terminating NUL, which the caller frees, or NULL and the
 * reason in *error. */
char *gpuring_tuning_load(const char *path, size_t *bytes, char *error, size_t size);

/* Parse one line without its newline. Return 1 and the rule, 0 if the line contains no rule, or a
 * negative gpuring_status and *error. */
int gpuring_tuning_line(const char *text, size_t length, struct gpuring_tuning_rule *rule,
                        char *error, size_t size);

/* Write a rule as a line of a tuning file, without a newline. Return the number of characters, as
 * snprintf does. */
int gpuring_tuning_text(const struct gpuring_tuning_rule *rule, char *text, size_t size);

#define GPURING_TUNING_VERSION_LINE "gpuring-tuning 1"

/* Return a fingerprint that is equal for equal rules, regardless of other contents of the files. It
 * never returns the two values for files that are missing or broken. */
#define GPURING_TUNING_NONE   UINT64_C(0) /* no file was given */
#define GPURING_TUNING_BROKEN UINT64_C(1) /* the file cannot be used */
uint64_t gpuring_tuning_fingerprint(const struct gpuring_tuning *tuning);

/* Select the rules that apply to a kind of memory and a number of nodes and ranks, in the order of
 * the file. Usually there are few. Return 0 or GPURING_ERR_NOMEM. Free the result with
 * gpuring_tuning_clear. */
int gpuring_tuning_match(const struct gpuring_tuning *tuning, enum gpuring_tuning_memory memory,
                         uint64_t nodes, uint64_t ranks, struct gpuring_tuning *matching);

/* Return the first of these rules for a size, or a rule that selects nothing (auto) if there is
 * none. tuning may be NULL. */
static inline const struct gpuring_tuning_rule *gpuring_tuning_at(
    const struct gpuring_tuning *tuning, int collective, uint64_t bytes)
{
    static const struct gpuring_tuning_rule nothing = {.algorithm = 0, .protocol = 0};

    for (uint32_t i = 0; tuning != NULL && i < tuning->count; i++) {
        const struct gpuring_tuning_rule *rule = &tuning->rules[i];

        if (rule->collective == collective && rule->bytes.first <= bytes &&
            bytes <= rule->bytes.last) {
            return rule;
        }
    }
    return &nothing;
}

/* Write "allreduce 0-4095 previous, allgather 4096- ring simple", truncated to `size`. */
void gpuring_tuning_summary(const struct gpuring_tuning *matching, char *text, size_t size);

/* Return true if any rule of a collective selects this algorithm (enum gpuring_param_algorithm). */
bool gpuring_tuning_names(const struct gpuring_tuning *tuning, int collective, int algorithm);
/* Return true if any rule selects this protocol (enum gpuring_param_protocol). */
bool gpuring_tuning_names_protocol(const struct gpuring_tuning *tuning, int protocol);

#endif
