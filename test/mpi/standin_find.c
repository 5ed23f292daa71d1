/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "standin_find.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <mpi.h>

void standin_find(const char *name, void *function)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *found = library != NULL ? dlsym(library, name) : NULL;

    if (found == NULL) {
        printf("Bail out! the driver is not the stand-in: it has no %s\n", name);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    memcpy(function, &found, sizeof found);
}
