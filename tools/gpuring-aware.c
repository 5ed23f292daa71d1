/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * libgpuring_aware.so, preloaded into an MPI program (gpuring-run): it answers the question whether
 * the MPI takes GPU buffers, and serves the MPI functions that read or write a buffer before any
 * component is called. It knows nothing of GPUs: the component does (p2p/aware.h). Without the
 * component, and for buffers in host memory, a call goes to the next library that defines the
 * function: a profiler's MPI_X or Open MPI's.
 *
 *     program -> MPI_X here -> MPI_X of a profiler, if any -> PMPI_X here -> PMPI_X of Open MPI
 *
 * MPI_X stages the buffer, so the profiler and PMPI_X here see host memory and each call once. The
 * Fortran functions of Open MPI call PMPI_X, which stages the buffer as well.
 *
 * Bindings that look symbols up in a library may name this one as their MPI library: it depends on
 * Open MPI's, so all other functions are found through it.
 *
 * Calls that are not served return an MPI error instead of a segmentation fault: one-sided calls,
 * whose buffers are used until later calls, non-blocking ones on files and MPI_Isendrecv_replace,
 * and packing for other machines.
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

static bool running(void)
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

static bool on_gpu(const void *buffer, MPI_Count count, MPI_Datatype type)
{
    const struct gpuring_aware *aware = component();

    return aware != NULL && count > 0 && type != MPI_DATATYPE_NULL &&
           aware->on_gpu(buffer, (size_t) count, type);
}

/* Before MPI_Init nothing is known yet, and the answer is yes: a user who preloads this library
 * means to use the component. */
int MPIX_Query_cuda_support(void)
{
    const struct gpuring_aware *aware = component();

    return aware != NULL ? aware->serves() : !running();
}

/* A buffer in a call: itself, or a copy in host memory with the same count and datatype. */
struct host {
    void *handle; /* of the component; NULL: there is no copy */
    void *buffer;
};

/* Return MPI_SUCCESS or an error (logged). use, and when there is a copy nevertheless: aware.h. */
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

/* Find a function in the libraries that follow this one. If the program opened this library by
 * dlopen, they are not in its scope; then take Open MPI's own function. */
static void *find(const char *name)
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
        found = find(name);
        __atomic_store_n(kept, found, __ATOMIC_RELAXED);
    }
    return found;
}

/*
 * Define a function under both of its names, each of which passes calls to the next function of the
 * same name. The body follows, in which `real` is that function:
 *
 *     DEFINE(Win_attach, (MPI_Win win, void *base, MPI_Aint size), win, base, size)
 *     {
 *         return real(win, base, size);
 *     }
 *
 * gpuring-aware-calls.h is included once for each variant of the functions: VARIANT(name) is the
 * full name, COUNT the type of counts.
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

/* The name of the function that is being defined, for messages. */
#define TEXT(name)      TEXT_OF(VARIANT(name))
#define TEXT_OF(name)   TEXT_THIS(name)
#define TEXT_THIS(name) "MPI_" #name

/* The result of a call whose buffer was staged. `own`: an error of this library, for which the
 * error handler has not been called yet; it is reported if the MPI function returned none. */
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
                "libgpuring_aware: [not-for-gpus] %s returns MPI_ERR_BUFFER: it does not take "
                "GPU memory with this MPI; copy it to host memory first\n",
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

/* These have no count, and one variant. */
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
