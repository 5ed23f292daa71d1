/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * libgpuring_aware.so, preloaded into an MPI program (gpuring-run). It reports that MPI accepts GPU
 * buffers, and serves the MPI functions that read or write a buffer before any component is called.
 * It leaves all work on GPUs to the component (p2p/aware.h). If the component is not loaded or the
 * buffer is in host memory, it passes the call to the next library that defines the function, which
 * is a profiler or Open MPI.
 *
 *     program -> MPI_X here -> MPI_X of a profiler, if any -> PMPI_X here -> PMPI_X of Open MPI
 *
 * MPI_X stages the buffer, so the profiler and PMPI_X here see host memory and each call once. The
 * Fortran functions of Open MPI call PMPI_X, which stages the buffer as well.
 *
 * Bindings that look up symbols in a library can use this library as their MPI library. It depends
 * on Open MPI's library, which provides all other functions.
 *
 * The following calls are not served and return an MPI error instead of causing a segmentation
 * fault: one-sided calls, whose buffers are used after the call returns, non-blocking file calls,
 * MPI_Isendrecv_replace, and packing for other machines.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NEXT */
#endif
#include <dlfcn.h>
#include <mpi.h>
#include <mpi-ext.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mca/coll_gpuring/p2p/aware.h"

static bool is_running(void)
{
    int begun = 0, ended = 0;

    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    return begun && !ended;
}

/* Return the component's table while MPI runs, or NULL if the component is not loaded. Open MPI
 * keeps it loaded until MPI_Finalize. */
static const struct gpuring_aware *component(void)
{
    static const struct gpuring_aware *kept;
    const struct gpuring_aware *found = __atomic_load_n(&kept, __ATOMIC_ACQUIRE);
    const struct gpuring_aware_component *symbol;
    void *library;

    if (!is_running()) {
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

static bool on_gpu(const void *buffer, MPI_Count count, MPI_Datatype type)
{
    const struct gpuring_aware *aware = component();

    return aware != NULL && count > 0 && type != MPI_DATATYPE_NULL &&
           aware->on_gpu(buffer, (size_t) count, type);
}

/* Return 1 before MPI_Init, when the component is not loaded yet, because a program that
 * preloads this library intends to use it. */
int MPIX_Query_cuda_support(void)
{
    const struct gpuring_aware *aware = component();

    return aware != NULL ? aware->serves() : !is_running();
}

/* A buffer in a call: itself, or a copy in host memory with the same count and datatype. */
struct host {
    void *handle; /* of the component; NULL: there is no copy */
    void *buffer;
};

/* Copy a buffer on a GPU to host memory. Return MPI_SUCCESS or an error, which has been logged. See
 * aware.h for `use`, and for errors that leave a copy. */
static int host_begin(struct host *host, const char *function, const void *buffer, MPI_Count count,
                      MPI_Datatype type, unsigned use)
{
    *host = (struct host){.buffer = (void *) (uintptr_t) buffer};
    return on_gpu(buffer, count, type) ? component()->begin(function, buffer, (size_t) count, type,
                                                            use, &host->handle, &host->buffer)
                                       : MPI_SUCCESS;
}

static int host_end(const struct host *host, bool out)
{
    return host->handle != NULL ? component()->end(host->handle, out) : MPI_SUCCESS;
}

/* Find a function in the libraries after this one. If the program opened this library with dlopen,
 * they are not in its scope; return Open MPI's function then. */
static void *find_symbol(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name), *library;
    Dl_info info;

    if (found == NULL && dladdr(MPI_COMM_WORLD, &info) != 0 &&
        (library = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD)) != NULL) {
        found = dlsym(library, name);
        dlclose(library);
    }
    if (found == NULL) {
        fprintf(stderr, "libgpuring_aware: this MPI has no %s\n", name);
        _exit(70);
    }
    return found;
}

static void *find_once(const char *name, void **kept)
{
    void *found = __atomic_load_n(kept, __ATOMIC_RELAXED);

    if (found == NULL) {
        found = find_symbol(name);
        __atomic_store_n(kept, found, __ATOMIC_RELAXED);
    }
    return found;
}

/*
 * Define a function under its MPI_ and PMPI_ names. In the body that follows the macro, `real` is
 * the next function with the same name:
 *
 *     DEFINE(Win_attach, (MPI_Win win, void *base, MPI_Aint size), win, base, size)
 *     {
 *         return real(win, base, size);
 *     }
 *
 * gpuring-aware-calls.h is included once for each variant of the functions. VARIANT(name) is the
 * full name, and COUNT is the type of counts.
 */
#define LIST(...)            __VA_ARGS__
#define DEFINE(name, ...)    DEFINE_AS(VARIANT(name), __VA_ARGS__)
#define DEFINE_AS(name, ...) DEFINE_BOTH(name, __VA_ARGS__)
#define DEFINE_BOTH(name, parameters, ...)                                 \
    static int call_##name(__typeof__(&MPI_##name) real, LIST parameters); \
    DEFINE_ONE(MPI_##name, name, parameters, __VA_ARGS__)                  \
    DEFINE_ONE(PMPI_##name, name, parameters, __VA_ARGS__)                 \
    static int call_##name(__typeof__(&MPI_##name) real, LIST parameters)
#define DEFINE_ONE(symbol, name, parameters, ...)  \
    int symbol parameters                          \
    {                                              \
        static void *kept;                         \
        void *address = find_once(#symbol, &kept); \
        __typeof__(&MPI_##name) real;              \
                                                   \
        memcpy(&real, &address, sizeof real);      \
        return call_##name(real, __VA_ARGS__);     \
    }

/* The name of the current function, for messages. */
#define TEXT(name)      TEXT_OF(VARIANT(name))
#define TEXT_OF(name)   TEXT_THIS(name)
#define TEXT_THIS(name) "MPI_" #name

/* Return the result of a call whose buffer was staged. If the MPI function succeeded, report `own`,
 * an error of this library for which the error handler has not been called yet. */
#define RESULT_OF(kind)                                                 \
    static int result_of_##kind(MPI_##kind object, int result, int own) \
    {                                                                   \
        if (result == MPI_SUCCESS && own != MPI_SUCCESS) {              \
            MPI_##kind##_call_errhandler(object, own);                  \
            return own;                                                 \
        }                                                               \
        return result;                                                  \
    }
RESULT_OF(Comm)
RESULT_OF(File)

/* Return the packed bytes of elements; Open MPI packs in the format of this machine. */
static MPI_Count packed_size(MPI_Count count, MPI_Datatype type)
{
    MPI_Count size = 0;

    MPI_Type_size_x(type, &size);
    return count * size;
}

/* Report the first call of the process that is refused. */
static void report_refused(const char *name)
{
    static bool reported;

    if (!__atomic_exchange_n(&reported, true, __ATOMIC_RELAXED)) {
        fprintf(stderr,
                "libgpuring_aware: [not-for-gpus] %s returns MPI_ERR_BUFFER: it does not "
                "accept GPU memory with this MPI; copy the data to host memory first\n",
                name);
    }
}

/* Define a function that returns MPI_ERR_BUFFER if `found`: a buffer of the call is on a GPU. */
#define REFUSE(name, parameters, kind, object, found, ...)        \
    DEFINE(name, parameters, __VA_ARGS__)                         \
    {                                                             \
        if (found) {                                              \
            report_refused(TEXT(name));                           \
            MPI_##kind##_call_errhandler(object, MPI_ERR_BUFFER); \
            return MPI_ERR_BUFFER;                                \
        }                                                         \
        return real(__VA_ARGS__);                                 \
    }
#define REFUSE_WIN(name, parameters, found, ...) \
    REFUSE(name, parameters, Win, win, found, __VA_ARGS__, win)
#define REFUSE_RWIN(name, parameters, found, ...) \
    REFUSE(name, parameters, Win, win, found, __VA_ARGS__, win, request)

#define VARIANT(name) name
#define COUNT         int
#define AINT          MPI_Aint
#define UNIT          int
#include "tools/gpuring-aware-calls.h"
#include "tools/gpuring-aware-refused.h"

/* These functions have no count, and only one variant. */
REFUSE_WIN(Fetch_and_op,
           (const void *buffer, void *result, MPI_Datatype type, int rank, MPI_Aint at, MPI_Op op,
            MPI_Win win),
           on_gpu(buffer, 1, type) || on_gpu(result, 1, type), buffer, result, type, rank, at, op)
REFUSE_WIN(Compare_and_swap,
           (const void *buffer, const void *compare, void *result, MPI_Datatype type, int rank,
            MPI_Aint at, MPI_Win win),
           on_gpu(buffer, 1, type) || on_gpu(compare, 1, type) || on_gpu(result, 1, type), buffer,
           compare, result, type, rank, at)
REFUSE(Win_attach, (MPI_Win win, void *base, MPI_Aint size), Win, win,
       on_gpu(base, size > 0, MPI_BYTE), win, base, size)

#if GPURING_LARGE_COUNTS
#undef VARIANT
#undef COUNT
#undef AINT
#undef UNIT
#define VARIANT(name) name##_c
#define COUNT         MPI_Count
#define AINT          MPI_Count
#define UNIT          MPI_Aint
#include "tools/gpuring-aware-calls.h"
#include "tools/gpuring-aware-refused.h"
#endif
