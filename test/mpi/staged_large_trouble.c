/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "staged_large.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "scarce.h"

static void (*arm)(const char *list);
static int (*reached)(void);
static void (*scarce_from)(long number);
static long (*scarce_end)(void);

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);

    if (found == NULL) {
        printf("Bail out! there is no %s: the stand-in driver or scarce.la is not loaded\n", name);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return found;
}

static void find_standin(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *found;

    found = symbol(library, "gpuring_standin_arm");
    memcpy(&arm, &found, sizeof found);
    found = symbol(library, "gpuring_standin_reached");
    memcpy(&reached, &found, sizeof found);
}

static void fault_begin(const struct large_trouble *trouble, long n)
{
    char fault[96];

    snprintf(fault, sizeof fault, trouble->fault, n);
    arm(fault);
}

static bool fault_end(const struct large_trouble *trouble, long n)
{
    bool struck = reached() != 0;

    (void) trouble;
    (void) n;
    arm(NULL);
    return struck;
}

const struct large_trouble *large_faults(void)
{
    static const struct large_trouble faults[] = {
        {"a copy fails", "cuMemcpyAsync=%ld:700", LARGE_HARMLESS, LARGE_NO_ROWS, fault_begin,
         fault_end},
        {"a copy of rows fails", "cuMemcpy2DAsync_v2=%ld:700", LARGE_HARMLESS, LARGE_ROWS,
         fault_begin, fault_end},
        {"a wait fails", "cuStreamSynchronize=%ld:700", LARGE_HARMLESS, LARGE_ALL, fault_begin,
         fault_end},
        {"the GPU fails", "cuStreamSynchronize=%ld:700:sticky", LARGE_FATAL, LARGE_ALL, fault_begin,
         fault_end},
        {NULL, NULL, LARGE_HARMLESS, LARGE_ALL, NULL, NULL},
    };

    find_standin();
    return faults;
}

static void scarcity_begin(const struct large_trouble *trouble, long n)
{
    (void) trouble;
    scarce_from(-n);
}

static bool scarcity_end(const struct large_trouble *trouble, long n)
{
    (void) trouble;
    return scarce_end() >= n;
}

const struct large_trouble *large_scarcity(void)
{
    static const struct large_trouble scarcity[] = {
        {"no memory", "", LARGE_EITHER, LARGE_ALL, scarcity_begin, scarcity_end},
        {NULL, NULL, LARGE_HARMLESS, LARGE_ALL, NULL, NULL},
    };
    void *found;

    find_standin(); /* a block that could not be made for pinning is not kept, nor those after it */
    found = symbol(RTLD_DEFAULT, "scarce_arm");
    memcpy(&scarce_from, &found, sizeof found);
    found = symbol(RTLD_DEFAULT, "scarce_disarm");
    memcpy(&scarce_end, &found, sizeof found);
    return scarcity;
}

bool large_rank_says(int rank, bool says)
{
    int word = says;

    for (int to = 0; to < harness_size; to++) {
        if (harness_rank == rank && to != rank) {
            MPI_Send(&word, 1, MPI_INT, to, 9, MPI_COMM_WORLD);
        } else if (harness_rank == to && to != rank) {
            MPI_Recv(&word, 1, MPI_INT, rank, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    return word != 0;
}

bool large_all_alike(bool says)
{
    bool alike = true;

    for (int rank = 0; rank < harness_size; rank++) {
        alike = large_rank_says(rank, says) == says && alike;
    }
    for (int rank = 0; rank < harness_size; rank++) {
        alike = large_rank_says(rank, alike) && alike;
    }
    return alike;
}
