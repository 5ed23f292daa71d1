/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test file calls on GPU memory with libgpuring_aware.so preloaded. The results are compared with
 * the same calls on host memory and with expected bytes.
 *
 *   aware_files views FOLDER     converting views ("external32"), short reads, more than 2 GiB
 *   aware_files within FOLDER    the same without reads beyond the end of a file in "external32"
 *   aware_files beyond FOLDER    such a read alone, in host memory
 *   aware_files copies FOLDER    collective calls while copies on the last rank fail
 *   aware_files memory FOLDER    the same while it has no memory; needs memory_faults.la preloaded
 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "memory_faults.h"
#include "standin_find.h"

#include <dlfcn.h>

#define COUNT   1500
#define WRITTEN (COUNT * 2 / 3)
#define BYTES   (COUNT * 2 * sizeof(double)) /* bytes of a buffer; up to half of them are gaps */

static const char *folder;
static char *gpu, host[BYTES], back[BYTES];

static void path_of(char path[4096], const char *name, int number)
{
    snprintf(path, 4096, "%s/%s.%d", folder, name, number);
}

static MPI_File open_file(MPI_Comm comm, const char *path)
{
    MPI_File f;

    MPI_File_open(comm, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f);
    return f;
}

/* ---- Views ---- */

static MPI_Datatype strided(MPI_Datatype type, size_t size)
{
    MPI_Datatype made;

    MPI_Type_create_resized(type, 0, (MPI_Aint) (2 * size), &made);
    MPI_Type_commit(&made);
    return made;
}

static void fill_host(void)
{
    for (size_t i = 0; i < BYTES; i++) {
        host[i] = (char) (i * 7 + i / 251);
    }
}

/* Write from host or GPU memory, and read `count` elements back into a buffer of bytes 0x55. Return
 * the length of the file, its content, and the buffer after the read. */
static size_t write_and_read(bool on_gpu, MPI_Datatype type, const char *view, int count,
                             char file[BYTES], char after[BYTES])
{
    char path[4096];
    FILE *opened;
    size_t bytes;
    MPI_File f;

    path_of(path, on_gpu ? "view-gpu" : "view-host", harness_rank);
    (void) remove(path);
    f = open_file(MPI_COMM_SELF, path);
    MPI_File_set_view(f, 0, MPI_BYTE, MPI_BYTE, view, MPI_INFO_NULL);
    fill_host();
    harness_write(gpu, host, BYTES);
    MPI_File_write_at(f, 0, on_gpu ? gpu : host, WRITTEN, type, MPI_STATUS_IGNORE);
    memset(after, 0x55, BYTES);
    harness_write(gpu, after, BYTES);
    MPI_File_read_at(f, 0, on_gpu ? gpu : after, count, type, MPI_STATUS_IGNORE);
    if (on_gpu) {
        harness_read(after, gpu, BYTES);
    }
    MPI_File_close(&f);
    opened = fopen(path, "rb");
    bytes = opened != NULL ? fread(file, 1, BYTES, opened) : 0;
    if (opened != NULL) {
        fclose(opened);
    }
    return bytes;
}

/* Return true if file and buffer are the same for buffers in host and in GPU memory. */
static bool same_as_host(MPI_Datatype type, const char *view, int count)
{
    static char files[2][BYTES], after[2][BYTES];
    size_t bytes[2];

    for (int on_gpu = 0; on_gpu < 2; on_gpu++) {
        bytes[on_gpu] =
            write_and_read(on_gpu != 0, type, view, count, files[on_gpu], after[on_gpu]);
    }
    return bytes[0] > 0 && bytes[0] == bytes[1] && memcmp(files[0], files[1], bytes[0]) == 0 &&
           memcmp(after[0], after[1], BYTES) == 0;
}

/* Test that "external32" stores 1 and 2.5 in big-endian order, and that they can be read back. */
static bool big_endian(void)
{
    static const unsigned char expected[12] = {0, 0, 0, 1, 0x40, 4};
    const double two_and_a_half = 2.5;
    const int one = 1;
    unsigned char bytes[12] = {0};
    char path[4096];
    FILE *opened;
    MPI_File f;
    int first;

    path_of(path, "big-endian", harness_rank);
    f = open_file(MPI_COMM_SELF, path);
    MPI_File_set_view(f, 0, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL);
    memcpy(host, &one, sizeof one);
    memcpy(host + 8, &two_and_a_half, sizeof two_and_a_half);
    harness_write(gpu, host, 16);
    MPI_File_write(f, gpu, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_write(f, gpu + 8, 1, MPI_DOUBLE, MPI_STATUS_IGNORE);
    memset(back, 0, 16);
    harness_write(gpu, back, 16);
    MPI_File_read_at(f, 0, gpu, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_read_at(f, 4, gpu + 8, 1, MPI_DOUBLE, MPI_STATUS_IGNORE);
    harness_read(back, gpu, 16);
    MPI_File_close(&f);
    opened = fopen(path, "rb");
    first = opened != NULL ? (int) fread(bytes, 1, sizeof bytes, opened) : 0;
    fclose(opened);
    return first == 12 && memcmp(bytes, expected, 12) == 0 && memcmp(back, host, 4) == 0 &&
           memcmp(back + 8, host + 8, 8) == 0;
}

/* Send more than 2 GiB in one message. The datatype has a buffer of 64 MiB 33 times. */
static bool large_message(void)
{
    const int block = 64 << 20, blocks = 33;
    char *large = harness_alloc((size_t) block), byte = 77, got = 0;
    MPI_Datatype type;
    MPI_Status status;
    int result;

    MPI_Type_vector(blocks, block, 0, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    harness_write(large + block - 1, &byte, 1);
    result = MPI_Sendrecv_replace(large, 1, type, MPI_PROC_NULL, 1, MPI_PROC_NULL, 1,
                                  MPI_COMM_WORLD, &status);
    harness_read(&got, large + block - 1, 1);
    MPI_Type_free(&type);
    harness_free(large);
    return result == MPI_SUCCESS && status.MPI_SOURCE == MPI_PROC_NULL && got == byte;
}

/* Test that a read in host memory ends at the end of the file, without this library's help. */
static void read_beyond(void)
{
    static char file[BYTES], after[BYTES];
    size_t bytes = write_and_read(false, MPI_INT, "external32", COUNT, file, after);

    harness_check(bytes == WRITTEN * sizeof(int) && memcmp(after, host, bytes) == 0,
                  "a read beyond the end of a file in host memory");
}

static void views(bool beyond)
{
    static const char *const names[] = {"native", "external32"};
    MPI_Datatype mixed, gaps = strided(MPI_DOUBLE, sizeof(double));

    MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, sizeof(double)},
                           (MPI_Datatype[]){MPI_INT, MPI_DOUBLE}, &mixed);
    MPI_Type_commit(&mixed);
    for (int i = 0; i < 2; i++) {
        const struct {
            const char *name;
            MPI_Datatype type;
        } types[] = {{"MPI_INT", MPI_INT},      {"MPI_SHORT", MPI_SHORT},
                     {"MPI_LONG", MPI_LONG},    {"MPI_DOUBLE", MPI_DOUBLE},
                     {"int and double", mixed}, {"every other double", gaps}};

        for (size_t j = 0; j < sizeof types / sizeof *types; j++) {
            harness_check(same_as_host(types[j].type, names[i], i == 0 || beyond ? COUNT : WRITTEN),
                          "%s in a view of representation %s: as in host memory", types[j].name,
                          names[i]);
        }
    }
    MPI_Type_free(&mixed);
    MPI_Type_free(&gaps);
    harness_check(big_endian(), "a view of representation external32 stores big-endian values");
    harness_check(large_message(), "MPI_Sendrecv_replace of more than 2 GiB");
}

/* ---- Failures of one rank in collective calls ---- */

enum { ALL, AT_ALL, ORDERED, FILE_FORMS };
static const char *const form_names[] = {"all", "at_all", "ordered"};

#define SIZE (COUNT * (int) sizeof(int)) /* bytes per rank */

static int element(int rank, int i)
{
    return 1000000 * (rank + 1) + i;
}

static void fill_ints(int rank)
{
    int values[COUNT];

    for (int i = 0; i < COUNT; i++) {
        values[i] = element(rank, i);
    }
    harness_write(gpu, values, sizeof values);
}

static int write_form(MPI_File f, int form)
{
    MPI_File_seek(f, harness_rank * SIZE, MPI_SEEK_SET);
    MPI_File_seek_shared(f, 0, MPI_SEEK_SET);
    switch (form) {
    case ALL:
        return MPI_File_write_all(f, gpu, COUNT, MPI_INT, MPI_STATUS_IGNORE);
    case AT_ALL:
        return MPI_File_write_at_all(f, harness_rank * SIZE, gpu, COUNT, MPI_INT,
                                     MPI_STATUS_IGNORE);
    default:
        return MPI_File_write_ordered(f, gpu, COUNT, MPI_INT, MPI_STATUS_IGNORE);
    }
}

static int read_form(MPI_File f, int form)
{
    MPI_File_seek(f, harness_rank * SIZE, MPI_SEEK_SET);
    MPI_File_seek_shared(f, 0, MPI_SEEK_SET);
    switch (form) {
    case ALL:
        return MPI_File_read_all(f, gpu, COUNT, MPI_INT, MPI_STATUS_IGNORE);
    case AT_ALL:
        return MPI_File_read_at_all(f, harness_rank * SIZE, gpu, COUNT, MPI_INT, MPI_STATUS_IGNORE);
    default:
        return MPI_File_read_ordered(f, gpu, COUNT, MPI_INT, MPI_STATUS_IGNORE);
    }
}

/* The expected data of the last rank in a file. The data of all other ranks is always there. */
enum last { THERE, POISONED, MISSING };

static bool file_holds(const char *path, enum last last)
{
    FILE *opened = fopen(path, "rb");
    int values[COUNT], ranks = harness_size;
    bool good = opened != NULL;

    for (int rank = 0; good && rank < ranks - (last == MISSING); rank++) {
        good = fread(values, 1, SIZE, opened) == (size_t) SIZE;
        for (int i = 0; good && i < COUNT; i++) {
            good = values[i] == (last == POISONED && rank == ranks - 1 ? -1 : element(rank, i));
        }
    }
    good = good && fgetc(opened) == EOF;
    if (opened != NULL) {
        fclose(opened);
    }
    return good;
}

static bool gpu_holds(int rank)
{
    int values[COUNT];

    harness_read(values, gpu, sizeof values);
    for (int i = 0; i < COUNT; i++) {
        if (values[i] != element(rank, i)) {
            return false;
        }
    }
    return true;
}

static void (*arm_driver)(const char *list);
static int (*driver_reached)(void);
static void (*arm_memory)(long number);
static long (*disarm_memory)(void);

/* From now on, let a driver call or (NULL) all memory allocations fail on the last rank. */
static void arm(const char *fault)
{
    if (harness_rank == harness_size - 1) {
        if (fault != NULL) {
            arm_driver(fault);
        } else {
            arm_memory(-1);
        }
    }
}

/* Disarm the fault, and return true if it has struck. */
static bool struck(const char *fault)
{
    bool reached = true;

    if (harness_rank == harness_size - 1) {
        reached = fault != NULL ? driver_reached() != 0 : disarm_memory() > 0;
        if (fault != NULL) {
            arm_driver(NULL);
        }
    }
    return reached;
}

static void fail_form(int form, const char *fault)
{
    bool last = harness_rank == harness_size - 1, good;
    const char *what = fault != NULL ? fault : "no memory";
    char path[4096];
    MPI_File f;
    int result;

    path_of(path, form_names[form], fault != NULL);
    f = open_file(MPI_COMM_WORLD, path);
    fill_ints(harness_rank);
    arm(fault);
    result = write_form(f, form);
    good = struck(fault) && (result != MPI_SUCCESS) == last;
    MPI_File_sync(f);
    MPI_Barrier(MPI_COMM_WORLD);
    good = file_holds(path, fault != NULL ? POISONED : MISSING) && good;
    harness_check(good, "write_%s with %s: the last rank gets an error, the others write",
                  form_names[form], what);

    good = write_form(f, form) == MPI_SUCCESS;
    MPI_File_sync(f);
    MPI_Barrier(MPI_COMM_WORLD);
    good = file_holds(path, THERE) && good;
    harness_check(good, "write_%s: the next one is right", form_names[form]);

    fill_ints(77);
    arm(fault);
    result = read_form(f, form);
    good = struck(fault) && (result != MPI_SUCCESS) == last;
    harness_check(gpu_holds(last ? 77 : harness_rank) && good,
                  "read_%s with %s: the last rank gets an error, the others read", form_names[form],
                  what);
    good = read_form(f, form) == MPI_SUCCESS && gpu_holds(harness_rank);
    harness_check(good, "read_%s: the next one is right", form_names[form]);
    MPI_File_close(&f);
}

/* Test that a failing call of a single rank transfers nothing. */
static void fail_alone(const char *fault)
{
    char path[4096];
    struct stat status;
    bool good;
    MPI_File f;
    int result;

    path_of(path, "alone", harness_rank);
    f = open_file(MPI_COMM_SELF, path);
    fill_ints(harness_rank);
    arm(fault);
    result = MPI_File_write(f, gpu, COUNT, MPI_INT, MPI_STATUS_IGNORE);
    good = struck(fault) && (result != MPI_SUCCESS) == (harness_rank == harness_size - 1);
    MPI_File_sync(f);
    good = stat(path, &status) == 0 && (status.st_size == 0) == (result != MPI_SUCCESS) && good;
    MPI_File_close(&f);
    harness_check(good, "MPI_File_write with %s: an error, and nothing in the file",
                  fault != NULL ? fault : "no memory");
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";

    folder = argc > 2 ? argv[2] : ".";
    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    gpu = harness_alloc(BYTES);
    if (strcmp(mode, "beyond") == 0) {
        read_beyond();
    } else if (strcmp(mode, "views") == 0 || strcmp(mode, "within") == 0) {
        views(strcmp(mode, "views") == 0);
    } else if (strcmp(mode, "copies") == 0) {
        standin_find("gpuring_standin_arm", &arm_driver);
        standin_find("gpuring_standin_reached", &driver_reached);
        for (int form = 0; form < FILE_FORMS; form++) {
            fail_form(form, "cuMemcpyAsync=1:700");
        }
        fail_alone("cuMemcpyAsync=1:700");
    } else {
        *(void **) &arm_memory = dlsym(RTLD_DEFAULT, "memory_faults_arm");
        *(void **) &disarm_memory = dlsym(RTLD_DEFAULT, "memory_faults_disarm");
        for (int form = 0; form < FILE_FORMS; form++) {
            fail_form(form, NULL);
        }
        fail_alone(NULL);
    }
    harness_free(gpu);
    return harness_finish();
}
