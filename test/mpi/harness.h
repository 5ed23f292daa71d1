/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Common parts of the MPI test programs: results that are reported once for all ranks, predictable
 * data of every type, and the performance variables of the component.
 *
 * Rank 0 of a program prints one TAP line per check, and the program returns 0. The test script
 * fails if a line begins with "not ok" or if the program returns another status.
 */
#ifndef GPURING_TEST_HARNESS_H
#define GPURING_TEST_HARNESS_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <mpi-ext.h>

/* Name of a call that creates a persistent collective: MPIX_ in Open MPI 4.1, MPI_ from 5.0 on. */
#if defined(OMPI_HAVE_MPI_EXT_PCOLLREQ)
#define HARNESS_INIT(name) MPIX_##name##_init
#else
#define HARNESS_INIT(name) MPI_##name##_init
#endif

/* An Open MPI without Fortran does not declare these
 * types, or not completely. They are known by name only. */
#ifndef MPI_REAL8
#undef MPI_2INTEGER
#undef MPI_2REAL
#undef MPI_2DOUBLE_PRECISION
#define MPI_2INTEGER          MPI_DATATYPE_NULL
#define MPI_2REAL             MPI_DATATYPE_NULL
#define MPI_2DOUBLE_PRECISION MPI_DATATYPE_NULL
#define MPI_INTEGER1          MPI_DATATYPE_NULL
#define MPI_INTEGER2          MPI_DATATYPE_NULL
#define MPI_INTEGER4          MPI_DATATYPE_NULL
#define MPI_INTEGER8          MPI_DATATYPE_NULL
#define MPI_REAL4             MPI_DATATYPE_NULL
#define MPI_REAL8             MPI_DATATYPE_NULL
#define MPI_REAL16            MPI_DATATYPE_NULL
#define MPI_COMPLEX8          MPI_DATATYPE_NULL
#define MPI_COMPLEX16         MPI_DATATYPE_NULL
#define MPI_COMPLEX32         MPI_DATATYPE_NULL
#define MPI_LOGICAL1          MPI_DATATYPE_NULL
#define MPI_LOGICAL2          MPI_DATATYPE_NULL
#define MPI_LOGICAL4          MPI_DATATYPE_NULL
#define MPI_LOGICAL8          MPI_DATATYPE_NULL
#endif

/* Forms of a collective. */
enum form { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };
extern const char *const harness_forms[FORMS];

/* Start MPI (and MPI_ERRORS_RETURN on the world); level: MPI_THREAD_SINGLE or MULTIPLE. */
void harness_start(int *argc, char ***argv, int level);
/* Print the TAP plan, finish MPI, return the program's exit status. */
int harness_finish(void);

extern int harness_rank, harness_size; /* of MPI_COMM_WORLD */

/*
 * Buffers for MPI, in host memory or, with GPURING_TEST_MEMORY=cuda, in memory of GPU number (local
 * rank modulo GPUs), which the program fills and reads only with copies. GPURING_TEST_SORT selects
 * the sort of memory (standin.h). Failures end the program.
 */
void *harness_alloc(size_t bytes);
void harness_free(void *buffer); /* NULL is allowed */
void harness_write(void *buffer, const void *host, size_t bytes);
void harness_read(void *host, const void *buffer, size_t bytes);
bool harness_on_gpu(void);
/* Called by harness_start and harness_finish. */
void harness_buffers_open(void);
void harness_buffers_close(void);

/*
 * Make one check, which passes if `good` is true on every rank of the world. Collective over the
 * world. Uses only point-to-point messages, so that it does not use the code under test.
 */
void harness_check(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Report a check as skipped, with the reason. Only rank 0 prints it, and the function is local. */
void harness_skip(const char *reason, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Return the next random number of a sequence. Any initial state is valid. */
uint64_t harness_draw(uint64_t *state);

/* Return the value of a performance variable, or -1 if Open MPI does not know it. */
long long harness_pvar(const char *name);
/* Set a parameter of the component with a list of values, for communicators that are created from
 * now on. Failures end the program. */
void harness_choose(const char *name, const char *value);
/* Remember the counters of calls. */
void harness_count(void);
/* Return true if exactly these numbers of calls were served, delegated and staged (-1: any number)
 * since the last harness_count, which this function calls again. Otherwise print a comment. */
bool harness_counted(long long served, long long delegated, long long staged);
/* Return true if coll/gpuring is loaded and mpirun's parameters let it serve the test's buffers. */
bool harness_have_component(void);
/* Enable or disable the component for communicators that are created from now on. */
void harness_set_component(bool on);

/*
 * Types. put writes element i with a small integer value (re, im: the imaginary part of complex
 * types, the index of pair types), same compares element i with one.
 */
enum harness_class {
    HARNESS_INTEGER,
    HARNESS_OTHER_INTEGER, /* Fortran's, and addresses: MPI allows no logical operations on them */
    HARNESS_FLOATING,
    HARNESS_COMPLEX,
    HARNESS_LOGICAL,
    HARNESS_BYTE,
    HARNESS_PAIR,
};

struct harness_type {
    const char *name;
    MPI_Datatype handle; /* MPI_DATATYPE_NULL: this Open MPI does not have it */
    enum harness_class class;
    size_t size; /* extent */
    void (*put)(void *buffer, size_t i, long re, long im);
    bool (*same)(const void *buffer, size_t i, long re, long im);
};

struct harness_op {
    const char *name;
    MPI_Op handle;
    unsigned classes; /* bits 1 << enum harness_class on which MPI allows it */
    void (*fold)(const struct harness_type *type, long *re, long *im, long with_re, long with_im);
};

/* Return all types or operations. The arrays end with name == NULL. Call after MPI_Init. */
const struct harness_type *harness_types(void);
const struct harness_op *harness_ops(void);
const struct harness_type *harness_type_named(const char *name);
const struct harness_op *harness_op_named(const char *name);

/* The contribution of a rank at a position; chosen so that every type represents
 * the result of every operation exactly, and so that neighbours and ranks differ. */
void harness_value(const struct harness_type *type, const struct harness_op *op, int rank, size_t i,
                   long *re, long *im);
/* Compute the result of ranks 0 .. size-1 at a position. */
void harness_expected(const struct harness_type *type, const struct harness_op *op, int size,
                      size_t i, long *re, long *im);

/* Fill a buffer with a rank's contributions, and count wrong results; *first: the first one. */
void harness_fill(const struct harness_type *type, const struct harness_op *op, int rank,
                  void *buffer, size_t count);
size_t harness_wrong(const struct harness_type *type, const struct harness_op *op, int size,
                     const void *buffer, size_t count, size_t *first);

#endif
