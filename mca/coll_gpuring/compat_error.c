/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * MPI error codes. Each status has a separate code, so that MPI_Error_string and the message of
 * MPI_ERRORS_ARE_FATAL state the cause. MPI_Error_class maps the code to a class of MPI. The class
 * itself is the code if it describes the status completely (no memory), or if fault-tolerant
 * programs compare the code with a class.
 *
 * A code is created when it is first returned, because Open MPI creates codes only between the end
 * of MPI_Init and the beginning of MPI_Finalize, which frees them. At other times, and in programs
 * that only use sessions, the class is returned.
 */
#include "mca/coll_gpuring/compat.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "mca/coll_gpuring/util/status.h"

#define COUNT_ONE(name, number, text) +1
enum { STATUS_COUNT = 1 GPURING_ERRORS(COUNT_ONE) };
#undef COUNT_ONE

static struct {
    pthread_mutex_t lock;   /* guards `code` */
    int code[STATUS_COUNT]; /* by the number of the status; 0: not created yet */
} made = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int class_of(int status)
{
    switch (status) {
    case GPURING_ERR_ARG:
    case GPURING_ERR_DISAGREE:
        return MPI_ERR_ARG;
    case GPURING_ERR_NOMEM:
    case GPURING_ERR_FILES:
        return MPI_ERR_NO_MEM;
    case GPURING_ERR_COUNTS:
        return MPI_ERR_TRUNCATE;
    case GPURING_ERR_UNSUPPORTED:
        return MPI_ERR_UNSUPPORTED_OPERATION;
#if defined(MPI_ERR_PROC_FAILED)
    case GPURING_ERR_PEER:
        return MPI_ERR_PROC_FAILED;
#endif
    default:
        return MPI_ERR_OTHER;
    }
}

static bool has_own_code(int status, int class)
{
#if defined(MPI_ERR_PROC_FAILED)
    if (class == MPI_ERR_PROC_FAILED) {
        return false;
    }
#endif
    (void) class;
    return status != GPURING_ERR_NOMEM && -status < STATUS_COUNT;
}

bool gpuring_compat_world_exists(void)
{
    int initialized = 0, finalized = 1;

    return PMPI_Initialized(&initialized) == MPI_SUCCESS && initialized &&
           PMPI_Finalized(&finalized) == MPI_SUCCESS && !finalized;
}

/* Create a code. Returns the code, or 0 after an error. */
static int make_code(int status, int class)
{
    char text[MPI_MAX_ERROR_STRING];
    int code;

    snprintf(text, sizeof text, "coll/gpuring: %s (see the messages of gpuring in the output)",
             gpuring_status_text(status));
    return PMPI_Add_error_code(class, &code) == MPI_SUCCESS &&
                   PMPI_Add_error_string(code, text) == MPI_SUCCESS
               ? code
               : 0;
}

int gpuring_compat_error_code(int status)
{
    int class = class_of(status), code = 0;

    if (has_own_code(status, class) && gpuring_compat_world_exists()) {
        pthread_mutex_lock(&made.lock);
        if (made.code[-status] == 0) {
            made.code[-status] = make_code(status, class);
        }
        code = made.code[-status];
        pthread_mutex_unlock(&made.lock);
    }
    return code != 0 ? code : class;
}

void gpuring_compat_errors_forget(void)
{
    memset(made.code, 0, sizeof made.code);
}
