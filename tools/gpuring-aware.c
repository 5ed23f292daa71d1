/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * libgpuring_aware.so, preloaded into an MPI program (gpuring-run): it answers the question whether
 * the MPI takes GPU buffers, and serves the MPI functions that touch a buffer before any component
 * is asked. It knows nothing of GPUs: the component does (p2p/aware.h). Without that, and for
 * buffers in host memory, the functions are Open MPI's. Both names of each are taken, so that
 * profilers and the Fortran functions of Open MPI, which call PMPI_, arrive here, too.
 *
 * What is not served returns an MPI error in place of a segmentation fault: one-sided calls, whose
 * buffers are used until later calls, non-blocking ones on files and MPI_Isendrecv_replace, and
 * packing for other machines.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NEXT */
#endif
#include <dlfcn.h>
#include <mpi.h>
#include <mpi-ext.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mca/coll_gpuring/p2p/aware.h"

static bool running(void)
{
    int begun = 0, ended = 0;

    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    return begun && !ended;
}

/* The component's table while MPI runs and the component is loaded, else NULL. Open MPI keeps it
 * until MPI_Finalize. */
static const struct gpuring_aware *component(void)
{
    static const struct gpuring_aware *kept;
    const struct gpuring_aware *found = __atomic_load_n(&kept, __ATOMIC_ACQUIRE);
    const struct gpuring_aware_component *symbol;
    void *library;

    if (!running()) {
        return NULL;
    }
    if (found == NULL &&
        (library = dlopen("mca_coll_gpuring.so", RTLD_NOW | RTLD_NOLOAD)) != NULL) {
        symbol = dlsym(library, "mca_coll_gpuring_component");
        if (symbol != NULL && symbol->aware->version == GPURING_AWARE_VERSION) {
            found = symbol->aware;
            __atomic_store_n(&kept, found, __ATOMIC_RELEASE);
        }
        dlclose(library);
    }
    return found;
}

static bool on_gpu(const void *buffer, int count, MPI_Datatype type)
{
    const struct gpuring_aware *aware = component();

    return aware != NULL && count > 0 && type != MPI_DATATYPE_NULL &&
           aware->on_gpu(buffer, (size_t) count, type);
}

/* Before MPI_Init it is a promise: who preloads this library means to use the component. */
int MPIX_Query_cuda_support(void)
{
    const struct gpuring_aware *aware = component();

    return aware != NULL ? aware->serves() : !running();
}

/* What stands for a buffer in host memory: itself, or its bytes. */
struct host {
    void *handle; /* NULL: itself */
    void *buffer;
    int count;
    MPI_Datatype type;
};

static int host_begin(struct host *host, const void *buffer, int count, MPI_Datatype type, bool in)
{
    size_t bytes;
    int code;

    *host = (struct host){.buffer = (void *) (uintptr_t) buffer, .count = count, .type = type};
    if (!on_gpu(buffer, count, type)) {
        return MPI_SUCCESS;
    }
    code =
        component()->begin(buffer, (size_t) count, type, in, &host->handle, &host->buffer, &bytes);
    if (code == MPI_SUCCESS && bytes > INT_MAX) {
        (void) component()->end(host->handle, 0);
        code = MPI_ERR_COUNT;
    }
    host->count = (int) bytes;
    host->type = MPI_BYTE;
    return code;
}

/* code: of the call. */
static int host_end(const struct host *host, int code, size_t bytes_out)
{
    int ended = host->handle != NULL
                    ? component()->end(host->handle, code == MPI_SUCCESS ? bytes_out : 0)
                    : MPI_SUCCESS;

    return code != MPI_SUCCESS ? code : ended;
}

static size_t received(const MPI_Status *status)
{
    int bytes = 0;

    MPI_Get_count(status, MPI_BYTE, &bytes);
    return bytes > 0 ? (size_t) bytes : 0;
}

/* Open MPI's function of a name: REAL declares a variable `real`. */
static void *find(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);

    if (found == NULL) {
        fprintf(stderr, "libgpuring_aware: this MPI has no %s\n", name);
        _exit(70);
    }
    return found;
}

#define REAL(name)                                            \
    static __typeof__(&MPI_##name) real;                      \
    if (__atomic_load_n(&real, __ATOMIC_RELAXED) == NULL) {   \
        void *address_ = find("PMPI_" #name);                 \
        __typeof__(&MPI_##name) function_;                    \
        memcpy(&function_, &address_, sizeof function_);      \
        __atomic_store_n(&real, function_, __ATOMIC_RELAXED); \
    }

/* The definition of a function with both of its names. */
#define DEFINE(name, arguments)                                     \
    int PMPI_##name arguments __attribute__((alias("MPI_" #name))); \
    int MPI_##name arguments

static int comm_result(MPI_Comm comm, int code)
{
    if (code != MPI_SUCCESS) {
        MPI_Comm_call_errhandler(comm, code);
    }
    return code;
}

DEFINE(Pack, (const void *in, int count, MPI_Datatype type, void *out, int size, int *position,
              MPI_Comm comm))
{
    struct host from, to;
    int bytes, end = 0, code;

    REAL(Pack)
    MPI_Pack_size(count, type, comm, &bytes);
    if (*position < 0 || bytes > size - *position ||
        (!on_gpu(in, count, type) && !on_gpu((char *) out + *position, bytes, MPI_BYTE))) {
        return real(in, count, type, out, size, position, comm);
    }
    code = host_begin(&from, in, count, type, true);
    if (code != MPI_SUCCESS) {
        return comm_result(comm, code);
    }
    code = host_begin(&to, (char *) out + *position, bytes, MPI_BYTE, false);
    if (code == MPI_SUCCESS) {
        code = real(from.buffer, from.count, from.type, to.buffer, bytes, &end, comm);
        code = host_end(&to, code, (size_t) bytes);
        *position += code == MPI_SUCCESS ? end : 0;
    }
    return comm_result(comm, host_end(&from, code, 0));
}

DEFINE(Unpack, (const void *in, int size, int *position, void *out, int count, MPI_Datatype type,
                MPI_Comm comm))
{
    struct host from, to;
    int bytes, end = 0, code;

    REAL(Unpack)
    MPI_Pack_size(count, type, comm, &bytes);
    if (*position < 0 || bytes > size - *position ||
        (!on_gpu(out, count, type) && !on_gpu((const char *) in + *position, bytes, MPI_BYTE))) {
        return real(in, size, position, out, count, type, comm);
    }
    code = host_begin(&from, (const char *) in + *position, bytes, MPI_BYTE, true);
    if (code != MPI_SUCCESS) {
        return comm_result(comm, code);
    }
    code = host_begin(&to, out, count, type, false);
    if (code == MPI_SUCCESS) {
        code = real(from.buffer, bytes, &end, to.buffer, to.count, to.type, comm);
        code = host_end(&to, code, (size_t) bytes);
        *position += code == MPI_SUCCESS ? end : 0;
    }
    return comm_result(comm, host_end(&from, code, 0));
}

DEFINE(Sendrecv_replace, (void *buffer, int count, MPI_Datatype type, int to, int send_tag,
                          int from, int receive_tag, MPI_Comm comm, MPI_Status *status))
{
    struct host host;
    MPI_Status own;
    int code;

    REAL(Sendrecv_replace)
    if (!on_gpu(buffer, count, type)) {
        return real(buffer, count, type, to, send_tag, from, receive_tag, comm, status);
    }
    status = status != MPI_STATUS_IGNORE ? status : &own;
    code = host_begin(&host, buffer, count, type, true);
    if (code == MPI_SUCCESS) {
        code =
            real(host.buffer, host.count, host.type, to, send_tag, from, receive_tag, comm, status);
        code = host_end(&host, code, code == MPI_SUCCESS ? received(status) : 0);
    }
    return comm_result(comm, code);
}

/* Files. */
#define FILE_WRITE(name, arguments, ...)                          \
    DEFINE(name, arguments)                                       \
    {                                                             \
        struct host host;                                         \
        int code = host_begin(&host, buffer, count, type, true);  \
                                                                  \
        REAL(name)                                                \
        if (code == MPI_SUCCESS) {                                \
            code = host_end(&host, real(__VA_ARGS__, status), 0); \
        } else {                                                  \
            MPI_File_call_errhandler(file, code);                 \
        }                                                         \
        return code;                                              \
    }
#define FILE_READ(name, arguments, ...)                                               \
    DEFINE(name, arguments)                                                           \
    {                                                                                 \
        struct host host;                                                             \
        MPI_Status own;                                                               \
        int code = host_begin(&host, buffer, count, type, false);                     \
                                                                                      \
        REAL(name)                                                                    \
        status = status != MPI_STATUS_IGNORE ? status : &own;                         \
        if (code == MPI_SUCCESS) {                                                    \
            code = real(__VA_ARGS__, status);                                         \
            code = host_end(&host, code, code == MPI_SUCCESS ? received(status) : 0); \
        } else {                                                                      \
            MPI_File_call_errhandler(file, code);                                     \
        }                                                                             \
        return code;                                                                  \
    }
#define HOST    host.buffer, host.count, host.type
#define WRITTEN const void *buffer, int count, MPI_Datatype type, MPI_Status *status
#define READ    void *buffer, int count, MPI_Datatype type, MPI_Status *status
FILE_WRITE(File_write, (MPI_File file, WRITTEN), file, HOST)
FILE_WRITE(File_write_all, (MPI_File file, WRITTEN), file, HOST)
FILE_WRITE(File_write_at, (MPI_File file, MPI_Offset at, WRITTEN), file, at, HOST)
FILE_WRITE(File_write_at_all, (MPI_File file, MPI_Offset at, WRITTEN), file, at, HOST)
FILE_WRITE(File_write_shared, (MPI_File file, WRITTEN), file, HOST)
FILE_WRITE(File_write_ordered, (MPI_File file, WRITTEN), file, HOST)
FILE_READ(File_read, (MPI_File file, READ), file, HOST)
FILE_READ(File_read_all, (MPI_File file, READ), file, HOST)
FILE_READ(File_read_at, (MPI_File file, MPI_Offset at, READ), file, at, HOST)
FILE_READ(File_read_at_all, (MPI_File file, MPI_Offset at, READ), file, at, HOST)
FILE_READ(File_read_shared, (MPI_File file, READ), file, HOST)
FILE_READ(File_read_ordered, (MPI_File file, READ), file, HOST)

/* What is refused. */
static void say(const char *name)
{
    static bool said;

    if (!__atomic_exchange_n(&said, true, __ATOMIC_RELAXED)) {
        fprintf(stderr,
                "libgpuring_aware: [not-for-gpus] MPI_%s returns MPI_ERR_BUFFER: it does not take "
                "GPU memory with this MPI; copy it to host memory first\n",
                name);
    }
}

/* found: that a buffer of the call is on a GPU. */
#define REFUSE(name, arguments, kind, object, found, ...)         \
    DEFINE(name, arguments)                                       \
    {                                                             \
        REAL(name)                                                \
        if (found) {                                              \
            say(#name);                                           \
            MPI_##kind##_call_errhandler(object, MPI_ERR_BUFFER); \
            return MPI_ERR_BUFFER;                                \
        }                                                         \
        return real(__VA_ARGS__);                                 \
    }
#define BUFFER  buffer, count, type
#define FROM    const void *buffer, int count, MPI_Datatype type
#define INTO    void *buffer, int count, MPI_Datatype type
#define RESULT  void *result, int results, MPI_Datatype result_type
#define TARGET  MPI_Aint at, int n, MPI_Datatype target
#define EITHER  on_gpu(BUFFER) || on_gpu(result, results, result_type)
#define REQUEST MPI_Request *request

#if MPI_VERSION >= 4 || defined(MPI_SESSION_NULL)
REFUSE(Isendrecv_replace,
       (INTO, int to, int send_tag, int from, int receive_tag, MPI_Comm comm, REQUEST), Comm, comm,
       on_gpu(BUFFER), BUFFER, to, send_tag, from, receive_tag, comm, request)
#endif

/* One-sided calls. */
#define REFUSE_WIN(name, arguments, found, ...) \
    REFUSE(name, arguments, Win, win, found, __VA_ARGS__, win)
#define REFUSE_RWIN(name, arguments, found, ...) \
    REFUSE(name, arguments, Win, win, found, __VA_ARGS__, win, request)
REFUSE_WIN(Put, (FROM, int rank, TARGET, MPI_Win win), on_gpu(BUFFER), BUFFER, rank, at, n, target)
REFUSE_WIN(Get, (INTO, int rank, TARGET, MPI_Win win), on_gpu(BUFFER), BUFFER, rank, at, n, target)
REFUSE_RWIN(Rput, (FROM, int rank, TARGET, MPI_Win win, REQUEST), on_gpu(BUFFER), BUFFER, rank, at,
            n, target)
REFUSE_RWIN(Rget, (INTO, int rank, TARGET, MPI_Win win, REQUEST), on_gpu(BUFFER), BUFFER, rank, at,
            n, target)
REFUSE_WIN(Accumulate, (FROM, int rank, TARGET, MPI_Op op, MPI_Win win), on_gpu(BUFFER), BUFFER,
           rank, at, n, target, op)
REFUSE_RWIN(Raccumulate, (FROM, int rank, TARGET, MPI_Op op, MPI_Win win, REQUEST), on_gpu(BUFFER),
            BUFFER, rank, at, n, target, op)
REFUSE_WIN(Get_accumulate, (FROM, RESULT, int rank, TARGET, MPI_Op op, MPI_Win win), EITHER, BUFFER,
           result, results, result_type, rank, at, n, target, op)
REFUSE_RWIN(Rget_accumulate, (FROM, RESULT, int rank, TARGET, MPI_Op op, MPI_Win win, REQUEST),
            EITHER, BUFFER, result, results, result_type, rank, at, n, target, op)
REFUSE_WIN(Fetch_and_op,
           (const void *buffer, void *result, MPI_Datatype type, int rank, MPI_Aint at, MPI_Op op,
            MPI_Win win),
           on_gpu(buffer, 1, type) || on_gpu(result, 1, type), buffer, result, type, rank, at, op)
REFUSE_WIN(Compare_and_swap,
           (const void *buffer, const void *compare, void *result, MPI_Datatype type, int rank,
            MPI_Aint at, MPI_Win win),
           on_gpu(buffer, 1, type) || on_gpu(compare, 1, type) || on_gpu(result, 1, type), buffer,
           compare, result, type, rank, at)
REFUSE(Win_create,
       (void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *win), Comm,
       comm, on_gpu(base, size > 0, MPI_BYTE), base, size, unit, info, comm, win)
REFUSE(Win_attach, (MPI_Win win, void *base, MPI_Aint size), Win, win,
       on_gpu(base, size > 0, MPI_BYTE), win, base, size)

/* Files: non-blocking calls, and those in two parts. */
#define REFUSE_FILE(name, arguments, ...) \
    REFUSE(name, arguments, File, file, on_gpu(BUFFER), file, __VA_ARGS__)
REFUSE_FILE(File_iwrite, (MPI_File file, FROM, REQUEST), BUFFER, request)
REFUSE_FILE(File_iwrite_all, (MPI_File file, FROM, REQUEST), BUFFER, request)
REFUSE_FILE(File_iwrite_at, (MPI_File file, MPI_Offset at, FROM, REQUEST), at, BUFFER, request)
REFUSE_FILE(File_iwrite_at_all, (MPI_File file, MPI_Offset at, FROM, REQUEST), at, BUFFER, request)
REFUSE_FILE(File_iwrite_shared, (MPI_File file, FROM, REQUEST), BUFFER, request)
REFUSE_FILE(File_iread, (MPI_File file, INTO, REQUEST), BUFFER, request)
REFUSE_FILE(File_iread_all, (MPI_File file, INTO, REQUEST), BUFFER, request)
REFUSE_FILE(File_iread_at, (MPI_File file, MPI_Offset at, INTO, REQUEST), at, BUFFER, request)
REFUSE_FILE(File_iread_at_all, (MPI_File file, MPI_Offset at, INTO, REQUEST), at, BUFFER, request)
REFUSE_FILE(File_iread_shared, (MPI_File file, INTO, REQUEST), BUFFER, request)
REFUSE_FILE(File_write_all_begin, (MPI_File file, FROM), BUFFER)
REFUSE_FILE(File_write_at_all_begin, (MPI_File file, MPI_Offset at, FROM), at, BUFFER)
REFUSE_FILE(File_write_ordered_begin, (MPI_File file, FROM), BUFFER)
REFUSE_FILE(File_read_all_begin, (MPI_File file, INTO), BUFFER)
REFUSE_FILE(File_read_at_all_begin, (MPI_File file, MPI_Offset at, INTO), at, BUFFER)
REFUSE_FILE(File_read_ordered_begin, (MPI_File file, INTO), BUFFER)

/* In the format of other machines. */
REFUSE(Pack_external, (const char format[], FROM, void *out, MPI_Aint size, MPI_Aint *position),
       Comm, MPI_COMM_SELF, on_gpu(BUFFER) || on_gpu(out, size > 0, MPI_BYTE), format, BUFFER, out,
       size, position)
REFUSE(Unpack_external,
       (const char format[], const void *in, MPI_Aint size, MPI_Aint *position, INTO), Comm,
       MPI_COMM_SELF, on_gpu(BUFFER) || on_gpu(in, size > 0, MPI_BYTE), format, in, size, position,
       BUFFER)
