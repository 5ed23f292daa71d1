/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Tuning files: measured rules that say which algorithm and protocol serve a size, or that the
 * component that would serve without us does. No MPI; gpuring-perf writes them.
 *
 *   gpuring-tuning 1
 *   allreduce memory=host nodes=2 ranks=2 bytes=0-4095 previous
 *   allgather memory=* nodes=2- ranks=* bytes=65536- ring simple     # a comment
 *
 * A rule a line, in this order of words; the first one that matches counts. It is for a collective
 * in all its forms: allgather is also MPI_Allgatherv, reduce_scatter MPI_Reduce_scatter_block.
 * Numbers are N, N-M, N- or *; memory is host, cuda or *; bytes are those of the vector, or of all
 * ranks' blocks together. What serves is `previous`, or an algorithm and, if wanted, a protocol, by
 * the names of coll_gpuring_algorithm and _protocol; auto: as without a file.
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

/* Those of the rules that are for a kind of memory and a number of nodes and ranks, in their order:
 * few, as a rule. gpuring_tuning_clear gives them back. 0 or GPURING_ERR_NOMEM. */
int gpuring_tuning_match(const struct gpuring_tuning *tuning, enum gpuring_tuning_memory memory,
                         uint64_t nodes, uint64_t ranks, struct gpuring_tuning *matching);

/* Of such rules the first one for a size; one that names nothing (auto) if there is none. tuning
 * may be NULL. */
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

/* "allreduce 0-4095 previous, allgather 4096- ring simple", cut where the room ends. */
void gpuring_tuning_summary(const struct gpuring_tuning *matching, char *text, size_t size);

/* Does any rule of a collective name it (enum gpuring_param_algorithm)? */
bool gpuring_tuning_names(const struct gpuring_tuning *tuning, int collective, int algorithm);

#endif
