/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_DEFAULT */
#endif
#include "harness.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const harness_forms[FORMS] = {"blocking", "non-blocking", "persistent"};
int harness_rank, harness_size;
static int checks;
static MPI_Comm verdicts; /* copy of MPI_COMM_WORLD for the messages of harness_check */

/* Handles of the variables, from the start to the end: Open MPI counts from their allocation. */
#define PVARS 18
static struct {
    char name[64];
    MPI_T_pvar_handle handle;
} pvars[PVARS];
static int npvars;
static MPI_T_pvar_session session;

static void open_pvars(void)
{
    static const char *const names[] = {
        "calls",           "fallbacks",       "staged",           "bytes",       "calls_ring",
        "calls_tree",      "calls_direct",    "net_bytes",        "net_retries", "wireups",
        "staged_messages", "direct_messages", "chunked_messages", "resumed",     "reused",
        "kernel_messages", "mapped_calls",    "gathered"};
    int provided, index, count;

    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS ||
        MPI_T_pvar_session_create(&session) != MPI_SUCCESS) {
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(pvars[npvars].name, sizeof pvars[npvars].name, "coll_gpuring_%s", names[i]);
        if (MPI_T_pvar_get_index(pvars[npvars].name, MPI_T_PVAR_CLASS_COUNTER, &index) ==
                MPI_SUCCESS &&
            MPI_T_pvar_handle_alloc(session, index, NULL, &pvars[npvars].handle, &count) ==
                MPI_SUCCESS) {
            npvars++;
        }
    }
}

/* Before MPI_Finalize: Open MPI 4.1 crashes otherwise. */
static void close_pvars(void)
{
    while (npvars > 0) {
        MPI_T_pvar_handle_free(session, &pvars[--npvars].handle);
    }
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
}

long long harness_pvar(const char *name)
{
    unsigned long long value = 0;

    for (int i = 0; i < npvars; i++) {
        if (strcmp(pvars[i].name, name) == 0 &&
            MPI_T_pvar_read(session, pvars[i].handle, &value) == MPI_SUCCESS) {
            return (long long) value;
        }
    }
    return -1;
}

void harness_choose(const char *name, const char *value)
{
    int index, count, items = 0, verbosity, binding, scope, number = 0, length, text_length = 0;
    MPI_T_cvar_handle handle;
    MPI_Datatype type;
    MPI_T_enum values;
    char text[64] = "";

    if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS ||
        MPI_T_cvar_get_info(index, NULL, &text_length, &verbosity, &type, &values, NULL, &(int){0},
                            &binding, &scope) != MPI_SUCCESS ||
        MPI_T_enum_get_info(values, &items, NULL, &(int){0}) != MPI_SUCCESS ||
        MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS) {
        items = 0;
    }
    for (int i = 0; i < items && strcmp(text, value) != 0; i++) {
        length = sizeof text;
        MPI_T_enum_get_item(values, i, &number, text, &length);
    }
    if (strcmp(text, value) != 0 || MPI_T_cvar_write(handle, &number) != MPI_SUCCESS) {
        printf("Bail out! %s cannot be set to %s\n", name, value);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_T_cvar_handle_free(&handle);
}

/* Counters at the last call of harness_count. */
static long long counts[3];

void harness_count(void)
{
    counts[0] = harness_pvar("coll_gpuring_calls");
    counts[1] = harness_pvar("coll_gpuring_fallbacks");
    counts[2] = harness_pvar("coll_gpuring_staged");
}

bool harness_counted(long long served, long long delegated, long long staged)
{
    const long long before[] = {counts[0], counts[1], counts[2]};
    bool good;

    harness_count();
    good = counts[0] - before[0] == served && counts[1] - before[1] == delegated &&
           (staged < 0 || counts[2] - before[2] == staged);
    if (!good) {
        printf(
            "# rank %d: served %lld (expected %lld), delegated %lld (%lld), staged %lld (%lld)\n",
            harness_rank, counts[0] - before[0], served, counts[1] - before[1], delegated,
            counts[2] - before[2], staged);
    }
    return good;
}

void harness_start(int *argc, char ***argv, int level)
{
    int provided;

    if (MPI_Init_thread(argc, argv, level, &provided) != MPI_SUCCESS || provided < level) {
        printf("Bail out! MPI does not start with thread level %d\n", level);
        exit(2);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &harness_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &harness_size);
    MPI_Comm_dup(MPI_COMM_WORLD, &verdicts);
    open_pvars();
    harness_buffers_open();
    setvbuf(stdout, NULL, _IOLBF, 0);
}

int harness_finish(void)
{
    if (harness_rank == 0) {
        printf("1..%d\n", checks);
    }
    MPI_Comm_free(&verdicts);
    close_pvars();
    MPI_Finalize();
    harness_buffers_close();
    return 0;
}

/* Return true on all ranks if `good` is true on all ranks. On rank 0, *bad_rank is the first rank
 * on which it is not. */
static bool everywhere(bool good, int *bad_rank)
{
    int mine = good ? -1 : harness_rank, all = mine;

    for (int r = 1; r < harness_size; r++) {
        if (harness_rank == 0) {
            int theirs;

            MPI_Recv(&theirs, 1, MPI_INT, r, 7, verdicts, MPI_STATUS_IGNORE);
            all = all < 0 ? theirs : all;
        } else if (harness_rank == r) {
            MPI_Send(&mine, 1, MPI_INT, 0, 7, verdicts);
        }
    }
    for (int r = 1; r < harness_size; r++) {
        if (harness_rank == 0) {
            MPI_Send(&all, 1, MPI_INT, r, 8, verdicts);
        } else if (harness_rank == r) {
            MPI_Recv(&all, 1, MPI_INT, 0, 8, verdicts, MPI_STATUS_IGNORE);
        }
    }
    *bad_rank = all;
    return all < 0;
}

void harness_check(bool good, const char *format, ...)
{
    int bad_rank;
    bool passed = everywhere(good, &bad_rank);
    va_list arguments;

    checks++;
    if (harness_rank != 0) {
        return;
    }
    printf("%s %d - ", passed ? "ok" : "not ok", checks);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    if (!passed) {
        printf("# wrong on rank %d first\n", bad_rank);
    }
}

uint64_t harness_draw(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void harness_skip(const char *reason, const char *format, ...)
{
    va_list arguments;

    checks++;
    if (harness_rank == 0) {
        printf("ok %d - ", checks);
        va_start(arguments, format);
        vprintf(format, arguments);
        va_end(arguments);
        printf(" # SKIP %s\n", reason);
    }
}

/* MPI_T does not write the parameter, whose value is final for users. */
void harness_set_component(bool on)
{
    int (*find)(const char *, const char *, const char *, const char *);
    int (*value_of)(int, const void *, void *, const char **);
    void *found[] = {dlsym(RTLD_DEFAULT, "mca_base_var_find"),
                     dlsym(RTLD_DEFAULT, "mca_base_var_get_value")};
    static int priority;
    int *value = NULL, index;

    memcpy(&find, &found[0], sizeof find);
    memcpy(&value_of, &found[1], sizeof value_of);
    index = found[0] != NULL && found[1] != NULL ? find("ompi", "coll", "gpuring", "priority") : -1;
    if (index < 0 || value_of(index, &value, NULL, NULL) != 0) {
        return;
    }
    priority = *value > 0 ? *value : priority;
    *value = on ? priority : 0;
}

bool harness_have_component(void)
{
    const char *priority = getenv("OMPI_MCA_coll_gpuring_priority");
    const char *device = getenv("OMPI_MCA_coll_gpuring_device");

    if (getenv("OMPI_MCA_coll_gpuring_net") != NULL &&
        strcmp(getenv("OMPI_MCA_coll_gpuring_net"), "none") == 0) {
        return false; /* asked not to serve ranks of several nodes */
    }
    return npvars > 0 && priority != NULL && atoi(priority) > 0 && device != NULL &&
           strcmp(device, harness_on_gpu() ? "cuda" : "host") == 0;
}
