/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test the preloaded libgpuring_aware.so. It reports that this MPI supports GPU buffers, and
 * handles calls that access a buffer before Open MPI calls a component.
 *
 *   aware [-n] FOLDER     -n: only check that it reports no support for GPU buffers
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi-ext.h>

#include "harness.h"

#define COUNT 3000

static int *gpu, *gpu_too, host[COUNT], got[COUNT];
static MPI_Datatype every_other;

static void fill(int *to, int seed)
{
    for (int i = 0; i < COUNT; i++) {
        host[i] = seed * 100000 + i;
    }
    harness_write(to, host, sizeof host);
}

/* Return true if every step-th of the first n elements has the value for `seed`, and the others the
 * value for `other`. */
static bool holds(const int *from, int n, int step, int seed, int other)
{
    harness_read(got, from, sizeof got);
    for (int i = 0; i < COUNT; i++) {
        if (got[i] != (i < n && i % step == 0 ? seed : other) * 100000 + i) {
            printf("# rank %d: element %d is %d\n", harness_rank, i, got[i]);
            return false;
        }
    }
    return true;
}

/* Pack and unpack between GPU and host memory, in two pieces. */
static void pack(bool in_gpu, bool packed_gpu, bool out_gpu)
{
    int size = COUNT * (int) sizeof(int), at = 0, from_at = 0, n = COUNT / 2;
    int *plain = malloc((size_t) size), *packed_host = malloc((size_t) size);
    int *packed = packed_gpu ? harness_alloc((size_t) size) : packed_host;
    bool good;

    fill(gpu, 1);
    fill(gpu_too, 2);
    memcpy(plain, host, (size_t) size);
    harness_read(host, gpu, sizeof host);
    MPI_Pack(in_gpu ? gpu : host, n - 1, every_other, packed, size, &at, MPI_COMM_WORLD);
    MPI_Pack((in_gpu ? gpu : host) + 2 * (n - 1), 1, every_other, packed, size, &at,
             MPI_COMM_WORLD);
    MPI_Unpack(packed, at, &from_at, out_gpu ? gpu_too : plain, n, every_other, MPI_COMM_WORLD);
    if (!out_gpu) {
        harness_write(gpu_too, plain, (size_t) size);
    }
    good = at == n * (int) sizeof(int) && from_at == at && holds(gpu_too, COUNT, 2, 1, 2);
    if (packed_gpu) {
        harness_free(packed);
    }
    free(packed_host);
    free(plain);
    harness_check(good, "MPI_Pack %s to %s, MPI_Unpack to %s", in_gpu ? "GPU" : "host",
                  packed_gpu ? "GPU" : "host", out_gpu ? "GPU" : "host");
}

/* Call the function by its MPI_ name, or by its PMPI_ name, which profilers and Open MPI's Fortran
 * functions use. */
static void replace(const char *name, __typeof__(&MPI_Sendrecv_replace) function)
{
    int next = (harness_rank + 1) % harness_size;
    int last = (harness_rank + harness_size - 1) % harness_size, count;
    MPI_Status status;

    fill(gpu, harness_rank);
    function(gpu, COUNT / 2, every_other, next, 3, last, 3, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, every_other, &count);
    harness_check(count == COUNT / 2 && status.MPI_SOURCE == last &&
                      holds(gpu, COUNT, 2, last, harness_rank),
                  "%s", name);
}

static void file(const char *folder)
{
    int size = COUNT / 2 * (int) sizeof(int), count;
    MPI_Status status;
    char path[4096];
    MPI_File opened;

    snprintf(path, sizeof path, "%s/file", folder);
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &opened);
    fill(gpu, harness_rank);
    fill(gpu_too, 9);
    MPI_File_write_at_all(opened, harness_rank * size, gpu, COUNT / 2, every_other,
                          MPI_STATUS_IGNORE);
    MPI_File_sync(opened);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_read_at(opened, harness_rank * size, gpu_too, COUNT / 4, every_other, &status);
    MPI_Get_count(&status, every_other, &count);
    MPI_File_close(&opened);
    harness_check(count == COUNT / 4 && holds(gpu_too, COUNT / 2, 2, harness_rank, 9),
                  "MPI_File_write_at_all and MPI_File_read_at");
}

enum { PLAIN, ALL, AT, AT_ALL, SHARED, ORDERED, FILE_FORMS };

static int write_file(MPI_File f, int form)
{
    MPI_Status *none = MPI_STATUS_IGNORE;

    switch (form) {
    case PLAIN:
        return MPI_File_write(f, gpu, COUNT, MPI_INT, none);
    case ALL:
        return MPI_File_write_all(f, gpu, COUNT, MPI_INT, none);
    case AT:
        return MPI_File_write_at(f, 0, gpu, COUNT, MPI_INT, none);
    case AT_ALL:
        return MPI_File_write_at_all(f, 0, gpu, COUNT, MPI_INT, none);
    case SHARED:
        return MPI_File_write_shared(f, gpu, COUNT, MPI_INT, none);
    default:
        return MPI_File_write_ordered(f, gpu, COUNT, MPI_INT, none);
    }
}

static int read_file(MPI_File f, int form)
{
    MPI_Status *none = MPI_STATUS_IGNORE;

    switch (form) {
    case PLAIN:
        return MPI_File_read(f, gpu_too, COUNT, MPI_INT, none);
    case ALL:
        return MPI_File_read_all(f, gpu_too, COUNT, MPI_INT, none);
    case AT:
        return MPI_File_read_at(f, 0, gpu_too, COUNT, MPI_INT, none);
    case AT_ALL:
        return MPI_File_read_at_all(f, 0, gpu_too, COUNT, MPI_INT, none);
    case SHARED:
        return MPI_File_read_shared(f, gpu_too, COUNT, MPI_INT, none);
    default:
        return MPI_File_read_ordered(f, gpu_too, COUNT, MPI_INT, none);
    }
}

/* Test all file calls on a separate file for each rank. */
static void file_forms(const char *folder)
{
    char path[4096];
    bool good = true;
    MPI_File f;

    snprintf(path, sizeof path, "%s/own.%d", folder, harness_rank);
    MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f);
    for (int form = 0; form < FILE_FORMS; form++) {
        fill(gpu, form);
        fill(gpu_too, 9);
        MPI_File_seek(f, 0, MPI_SEEK_SET);
        MPI_File_seek_shared(f, 0, MPI_SEEK_SET);
        good = write_file(f, form) == MPI_SUCCESS && good;
        MPI_File_seek(f, 0, MPI_SEEK_SET);
        MPI_File_seek_shared(f, 0, MPI_SEEK_SET);
        good = read_file(f, form) == MPI_SUCCESS && holds(gpu_too, COUNT, 1, form, 9) && good;
    }
    MPI_File_close(&f);
    harness_check(good, "the %d blocking forms of MPI_File_write and MPI_File_read", FILE_FORMS);
}

/* Test the variants with large counts of Open MPI 6.0. */
static void large_counts(const char *folder)
{
#if MPI_VERSION >= 4
    int next = (harness_rank + 1) % harness_size;
    int last = (harness_rank + harness_size - 1) % harness_size;
    MPI_Count at = 0, from_at = 0, size = COUNT * (MPI_Count) sizeof(int);
    int *packed = malloc((size_t) size);
    char path[4096];
    bool good;
    MPI_File f;

    fill(gpu, harness_rank);
    fill(gpu_too, 9);
    MPI_Pack_c(gpu, COUNT / 2, every_other, packed, size, &at, MPI_COMM_WORLD);
    MPI_Unpack_c(packed, at, &from_at, gpu_too, COUNT / 2, every_other, MPI_COMM_WORLD);
    good = at == size / 2 && from_at == at && holds(gpu_too, COUNT, 2, harness_rank, 9);
    MPI_Sendrecv_replace_c(gpu, COUNT / 2, every_other, next, 3, last, 3, MPI_COMM_WORLD,
                           MPI_STATUS_IGNORE);
    good = holds(gpu, COUNT, 2, last, harness_rank) && good;

    snprintf(path, sizeof path, "%s/large.%d", folder, harness_rank);
    MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f);
    fill(gpu, harness_rank);
    fill(gpu_too, 9);
    MPI_File_write_at_all_c(f, 0, gpu, COUNT, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_read_at_c(f, 0, gpu_too, COUNT, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_close(&f);
    good = holds(gpu_too, COUNT, 1, harness_rank, 9) && good;
    free(packed);
    harness_check(good, "the variants with large counts");
#else
    (void) folder;
#endif
}

static int refusals, others;

static void count(int code)
{
    int class = 0;

    MPI_Error_class(code, &class);
    refusals += class == MPI_ERR_BUFFER;
    others += class != MPI_ERR_BUFFER;
}

static void refused_windows(void)
{
    int *window, on_host = 0;
    MPI_Request request;
    MPI_Win win, none;

    MPI_Win_allocate(sizeof *window, sizeof *window, MPI_INFO_NULL, MPI_COMM_WORLD, &window, &win);
    window[0] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_lock_all(0, win);
    count(MPI_Put(gpu, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
    count(MPI_Get(gpu, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
    count(MPI_Accumulate(gpu, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win));
    count(MPI_Rput(gpu, 1, MPI_INT, 0, 0, 1, MPI_INT, win, &request));
    count(MPI_Rget(gpu, 1, MPI_INT, 0, 0, 1, MPI_INT, win, &request));
    count(MPI_Raccumulate(gpu, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win, &request));
    count(
        MPI_Get_accumulate(&on_host, 1, MPI_INT, gpu, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win));
    count(MPI_Rget_accumulate(gpu, 1, MPI_INT, &on_host, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win,
                              &request));
    count(MPI_Fetch_and_op(&on_host, gpu, MPI_INT, 0, 0, MPI_SUM, win));
    count(MPI_Compare_and_swap(&on_host, gpu, &on_host, MPI_INT, 0, 0, win));
    MPI_Fetch_and_op(&(int){1}, &on_host, MPI_INT, 0, 0, MPI_SUM, win); /* the same, on the host */
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    harness_check(harness_rank != 0 || window[0] == harness_size,
                  "one-sided calls on host memory work");
    MPI_Win_free(&win);
    count(MPI_Win_create(gpu, 8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &none));
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    count(MPI_Win_attach(win, gpu, 8));
    MPI_Win_free(&win);
}

static void refused_files(const char *folder)
{
    MPI_Request request;
    char path[4096];
    MPI_File f;

    snprintf(path, sizeof path, "%s/refused", folder);
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f);
    count(MPI_File_iwrite(f, gpu, 1, MPI_INT, &request));
    count(MPI_File_iwrite_all(f, gpu, 1, MPI_INT, &request));
    count(MPI_File_iwrite_at(f, 0, gpu, 1, MPI_INT, &request));
    count(MPI_File_iwrite_at_all(f, 0, gpu, 1, MPI_INT, &request));
    count(MPI_File_iwrite_shared(f, gpu, 1, MPI_INT, &request));
    count(MPI_File_iread(f, gpu, 1, MPI_INT, &request));
    count(MPI_File_iread_all(f, gpu, 1, MPI_INT, &request));
    count(MPI_File_iread_at(f, 0, gpu, 1, MPI_INT, &request));
    count(MPI_File_iread_at_all(f, 0, gpu, 1, MPI_INT, &request));
    count(MPI_File_iread_shared(f, gpu, 1, MPI_INT, &request));
    count(MPI_File_write_all_begin(f, gpu, 1, MPI_INT));
    count(MPI_File_write_at_all_begin(f, 0, gpu, 1, MPI_INT));
    count(MPI_File_write_ordered_begin(f, gpu, 1, MPI_INT));
    count(MPI_File_read_all_begin(f, gpu, 1, MPI_INT));
    count(MPI_File_read_at_all_begin(f, 0, gpu, 1, MPI_INT));
    count(MPI_File_read_ordered_begin(f, gpu, 1, MPI_INT));
    MPI_File_close(&f);
}

static void refused(const char *folder)
{
    int expected = harness_size > 1 ? 30 : 18;
    MPI_Aint at = 0;
    char packed[64];

    if (harness_size > 1) { /* Open MPI 4.1 makes no windows of one rank without RDMA */
        refused_windows();
    }
    refused_files(folder);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
#if MPI_VERSION >= 4 || defined(MPI_SESSION_NULL)
    MPI_Request request;

    count(MPI_Isendrecv_replace(gpu, 1, MPI_INT, 0, 1, 0, 1, MPI_COMM_SELF, &request));
    expected++;
#endif
    count(MPI_Pack_external("external32", gpu, 1, MPI_INT, packed, sizeof packed, &at));
    count(MPI_Unpack_external("external32", packed, sizeof packed, &at, gpu, 1, MPI_INT));
    harness_check(refusals == expected && others == 0,
                  "one-sided calls, non-blocking ones on files, and packing for other machines are "
                  "MPI errors: %d are, %d are not",
                  refusals, others);
}

int main(int argc, char **argv)
{
    bool none = argc > 1 && strcmp(argv[1], "-n") == 0;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    harness_check((MPIX_Query_cuda_support() == 1) == !none, "MPIX_Query_cuda_support says %s",
                  none ? "no" : "yes");
    if (none) {
        return harness_finish();
    }
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &every_other);
    MPI_Type_commit(&every_other);
    gpu = harness_alloc(sizeof host);
    gpu_too = harness_alloc(sizeof host);
    for (int way = 0; way < 8; way++) {
        pack((way & 4) != 0, (way & 2) != 0, (way & 1) != 0);
    }
    replace("MPI_Sendrecv_replace", MPI_Sendrecv_replace);
    replace("PMPI_Sendrecv_replace", PMPI_Sendrecv_replace);
    file(argv[1]);
    file_forms(argv[1]);
    large_counts(argv[1]);
    refused(argv[1]);
    harness_free(gpu);
    harness_free(gpu_too);
    MPI_Type_free(&every_other);
    return harness_finish();
}
