/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * libgpuring_stream.so: the functions of gpuring_stream.h. The library has the handles and checks
 * the arguments. The component does the work (mca/coll_gpuring/stream/stream_calls.h).
 *
 * A communicator with a stream has an attribute with a second duplicate of the original
 * communicator, on which only enqueued calls are made. Other calls on the program's communicator
 * therefore use other connections. When the program frees its communicator, MPI deletes the
 * attribute, and the second one is freed.
 *
 * Each function has a name with PMPIX_, and a weak one with MPIX_, which a profiler may replace.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tools/gpuring-stream.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

FUNCTION(Info_set_hex);
FUNCTION(Stream_create);
FUNCTION(Stream_free);
FUNCTION(Stream_comm_create);
FUNCTION(Comm_get_stream);
FUNCTION(Comm_get_stream_error);
FUNCTION(Allreduce_enqueue);
FUNCTION(Bcast_enqueue);
FUNCTION(Reduce_enqueue);
FUNCTION(Allgather_enqueue);
FUNCTION(Reduce_scatter_block_enqueue);
FUNCTION(Reduce_scatter_enqueue);
FUNCTION(Alltoall_enqueue);
FUNCTION(Barrier_enqueue);

/* ---- Errors ---- */

int gpuring_stream_raise(MPI_Comm comm, int code)
{
    if (code != MPI_SUCCESS) {
        PMPI_Comm_call_errhandler(comm, code);
    }
    return code;
}

/* ---- Streams ---- */

/* Objects for streams. The handle of an object is FIRST + its index. */
#define FIRST (MPIX_STREAM_NULL + 1)
static struct {
    pthread_mutex_t lock; /* guards all */
    int count;
    struct stream {
        void *value; /* the driver's handle */
        bool exists; /* the program has not freed it */
        int comms;   /* communicators that use it */
    } * streams;
} objects = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Find or make a free object. Called with the lock. Returns its index, or -1 without memory. */
static int find_free(void)
{
    int index = 0;
    struct stream *more;

    while (index < objects.count &&
           (objects.streams[index].exists || objects.streams[index].comms > 0)) {
        index++;
    }
    if (index == objects.count) {
        more = realloc(objects.streams, ((size_t) index + 1) * sizeof *more);
        if (more == NULL) {
            return -1;
        }
        objects.streams = more;
        objects.count++;
    }
    return index;
}

/* Return an object that the program has created and not freed, or NULL. Called with the lock. */
static struct stream *find_stream(MPIX_Stream stream)
{
    int index = stream - FIRST;

    return index >= 0 && index < objects.count && objects.streams[index].exists
               ? &objects.streams[index]
               : NULL;
}

/* Let a communicator use an object, and set *value to its stream. Returns false if there is no such
 * object. */
static bool use_stream(MPIX_Stream stream, void **value)
{
    struct stream *object;

    pthread_mutex_lock(&objects.lock);
    object = find_stream(stream);
    if (object != NULL) {
        object->comms++;
        *value = object->value;
    }
    pthread_mutex_unlock(&objects.lock);
    return object != NULL;
}

/* End the use of an object by a communicator. */
static void drop_stream(MPIX_Stream stream)
{
    pthread_mutex_lock(&objects.lock);
    objects.streams[stream - FIRST].comms--;
    pthread_mutex_unlock(&objects.lock);
}

int PMPIX_Info_set_hex(MPI_Info info, const char *key, const void *value, int value_size)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *bytes = value;
    char text[MPI_MAX_INFO_VAL];

    if (value_size < 1 || 2 * value_size >= MPI_MAX_INFO_VAL) {
        return FAIL(
            ERRORS_WITHOUT_COMM, MPI_ERR_INFO_VALUE,
            "[info-value] MPIX_Info_set_hex: a value has 1 to %d bytes, and this one has %d",
            MPI_MAX_INFO_VAL / 2 - 1, value_size);
    }
    for (int i = 0; i < value_size; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * value_size] = '\0';
    return PMPI_Info_set(info, key, text);
}

/* Get an info value. Returns false if there is none. */
static bool get_info(MPI_Info info, const char *key, char *text)
{
    int flag = 0;

    text[0] = '\0';
    if (info == MPI_INFO_NULL) {
        return false;
    }
#if MPI_VERSION >= 4
    int size = MPI_MAX_INFO_VAL;

    PMPI_Info_get_string(info, key, &size, text, &flag);
#else
    PMPI_Info_get(info, key, MPI_MAX_INFO_VAL - 1, text, &flag);
#endif
    return flag != 0;
}

/* Convert hexadecimal digits to the handle of a stream. Return false if the text is not a handle.
 */
static bool parse_handle(const char *text, void **value)
{
    unsigned char bytes[sizeof *value];

    if (strlen(text) != 2 * sizeof bytes ||
        strspn(text, "0123456789abcdefABCDEF") != strlen(text)) {
        return false;
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        const char pair[] = {text[2 * i], text[2 * i + 1], '\0'};

        bytes[i] = (unsigned char) strtoul(pair, NULL, 16);
    }
    memcpy(value, bytes, sizeof bytes);
    return true;
}

int PMPIX_Stream_create(MPI_Info info, MPIX_Stream *stream)
{
    char text[MPI_MAX_INFO_VAL];
    void *value = NULL;
    int index;

    if (!get_info(info, "type", text) || strcmp(text, "cudaStream_t") != 0) {
        return FAIL(ERRORS_WITHOUT_COMM, MPI_ERR_INFO_VALUE,
                    "[stream-type] MPIX_Stream_create: the info has type=%s; it must have "
                    "type=cudaStream_t, because only streams of CUDA are supported",
                    text);
    }
    if (!get_info(info, "value", text) || !parse_handle(text, &value)) {
        return FAIL(ERRORS_WITHOUT_COMM, MPI_ERR_INFO_VALUE,
                    "[stream-value] MPIX_Stream_create: the info has value=%s, which is not the "
                    "handle of a stream; set it with MPIX_Info_set_hex(info, \"value\", &stream, "
                    "sizeof stream)",
                    text);
    }
    pthread_mutex_lock(&objects.lock);
    index = find_free();
    if (index >= 0) {
        objects.streams[index] = (struct stream){.value = value, .exists = true};
        *stream = FIRST + index;
    }
    pthread_mutex_unlock(&objects.lock);
    return index >= 0 ? MPI_SUCCESS
                      : FAIL(ERRORS_WITHOUT_COMM, MPI_ERR_NO_MEM, "[no-memory] out of memory");
}

int PMPIX_Stream_free(MPIX_Stream *stream)
{
    struct stream *object;

    pthread_mutex_lock(&objects.lock);
    object = find_stream(*stream);
    if (object != NULL) {
        object->exists = false;
    }
    pthread_mutex_unlock(&objects.lock);
    if (object == NULL) {
        return FAIL(ERRORS_WITHOUT_COMM, MPI_ERR_ARG,
                    "[stream-handle] MPIX_Stream_free: there is no such stream object");
    }
    *stream = MPIX_STREAM_NULL;
    return MPI_SUCCESS;
}

/* ---- Communicators ---- */

static struct {
    pthread_mutex_t lock; /* guards both until `component` is set, before the first communicator */
    int key;              /* of the attribute */
    const struct gpuring_stream_functions *component; /* NULL: not found yet */
} found = {.lock = PTHREAD_MUTEX_INITIALIZER, .key = MPI_KEYVAL_INVALID};

static int delete_attached(MPI_Comm comm, int key, void *value, void *extra)
{
    struct gpuring_stream_attached *attached = value;
    int code;

    (void) comm;
    (void) key;
    (void) extra;
    for (struct gpuring_stream_request *r = attached->first; r != NULL; r = r->next) {
        r->attached = NULL; /* these messages are never started */
        r->comm = ERRORS_WITHOUT_COMM;
        r->code = MPI_ERR_COMM;
    }
    found.component->close(attached->calls);
    code = PMPI_Comm_free(&attached->calls);
    drop_stream(attached->stream);
    free(attached);
    return code;
}

/* Return the component's table, or NULL. Open MPI keeps the component loaded until MPI_Finalize. */
static const struct gpuring_stream_functions *find_component(void)
{
    const struct gpuring_stream_functions *functions = NULL;
    void *library = dlopen("mca_coll_gpuring.so", RTLD_NOW | RTLD_NOLOAD);

    if (library != NULL) {
        functions = dlsym(library, GPURING_STREAM_SYMBOL);
        dlclose(library);
    }
    return functions;
}

/* Find the component and create the key of the attribute. Called with the lock. */
static int open_component(void)
{
    const struct gpuring_stream_functions *component = find_component();
    int code;

    if (component == NULL || component->version != GPURING_STREAM_VERSION) {
        fprintf(stderr, "libgpuring_stream: [no-component] %s; %s\n",
                component == NULL ? "Open MPI has not loaded coll/gpuring"
                                  : "coll/gpuring has another version than this library",
                component == NULL
                    ? "start the program with the gpuring-run of the same installation"
                    : "install both from the same package");
        return MPI_ERR_UNSUPPORTED_OPERATION;
    }
    code = PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_attached, &found.key, NULL);
    found.component = code == MPI_SUCCESS ? component : NULL;
    return code;
}

/* Open the component once. Returns MPI_SUCCESS or an error, without calling an error handler. */
static int library_prepare(void)
{
    int code;

    pthread_mutex_lock(&found.lock);
    code = found.component != NULL ? MPI_SUCCESS : open_component();
    pthread_mutex_unlock(&found.lock);
    return code;
}

const struct gpuring_stream_functions *gpuring_stream_component(void)
{
    return found.component;
}

struct gpuring_stream_attached *gpuring_stream_attached(MPI_Comm comm)
{
    struct gpuring_stream_attached *attached = NULL;
    int flag = 0;

    if (comm == MPI_COMM_NULL || found.key == MPI_KEYVAL_INVALID ||
        PMPI_Comm_get_attr(comm, found.key, (void *) &attached, &flag) != MPI_SUCCESS) {
        return NULL;
    }
    return flag ? attached : NULL;
}

/* Duplicate a communicator for enqueued calls, and connect its ranks. Returns an error code without
 * calling an error handler. */
static int connect_calls(MPI_Comm comm, void *stream, MPI_Comm *calls)
{
    char name[MPI_MAX_OBJECT_NAME], own[MPI_MAX_OBJECT_NAME];
    int code, length;

    *calls = MPI_COMM_NULL;
    code = PMPI_Comm_dup(comm, calls);
    if (code != MPI_SUCCESS) {
        return code;
    }
    PMPI_Comm_get_name(comm, name, &length);
    snprintf(own, sizeof own, "stream of %.*s", MPI_MAX_OBJECT_NAME - 16, name);
    PMPI_Comm_set_name(*calls, own);
    code = found.component->connect(*calls, stream);
    if (code != MPI_SUCCESS) {
        PMPI_Comm_free(calls);
    }
    return code;
}

/* Create the communicator of the program, with the attribute. */
static int create_comm(MPI_Comm comm, struct gpuring_stream_attached *attached, MPI_Comm *newcomm)
{
    int code = PMPI_Comm_dup(comm, newcomm);

    if (code == MPI_SUCCESS) {
        code = PMPI_Comm_set_attr(*newcomm, found.key, attached);
        if (code != MPI_SUCCESS) {
            PMPI_Comm_free(newcomm);
        }
    }
    if (code != MPI_SUCCESS) {
        found.component->close(attached->calls);
        PMPI_Comm_free(&attached->calls);
    }
    return code;
}

int PMPIX_Stream_comm_create(MPI_Comm comm, MPIX_Stream stream, MPI_Comm *newcomm)
{
    struct gpuring_stream_attached *attached = calloc(1, sizeof *attached);
    void *value = NULL;
    int code;

    if (comm == MPI_COMM_NULL || attached == NULL) {
        free(attached);
        return gpuring_stream_raise(ERRORS_WITHOUT_COMM,
                                    comm == MPI_COMM_NULL ? MPI_ERR_COMM : MPI_ERR_NO_MEM);
    }
    code = library_prepare();
    if (code == MPI_SUCCESS && !use_stream(stream, &value)) {
        free(attached);
        return FAIL(comm, MPI_ERR_ARG,
                    "[stream-handle] MPIX_Stream_comm_create: there is no such stream object; "
                    "all ranks must pass one");
    }
    attached->stream = stream;
    if (code == MPI_SUCCESS) {
        code = connect_calls(comm, value, &attached->calls);
        if (code == MPI_SUCCESS) {
            code = create_comm(comm, attached, newcomm);
        }
        if (code != MPI_SUCCESS) {
            drop_stream(stream);
        }
    }
    if (code != MPI_SUCCESS) {
        free(attached);
    }
    return gpuring_stream_raise(comm, code);
}

int PMPIX_Comm_get_stream(MPI_Comm comm, int idx, MPIX_Stream *stream)
{
    const struct gpuring_stream_attached *attached = gpuring_stream_attached(comm);

    if (comm == MPI_COMM_NULL || idx != 0) {
        return gpuring_stream_raise(ERRORS_WITHOUT_COMM,
                                    comm == MPI_COMM_NULL ? MPI_ERR_COMM : MPI_ERR_ARG);
    }
    *stream = attached != NULL ? attached->stream : MPIX_STREAM_NULL;
    return MPI_SUCCESS;
}

/* ---- Calls ---- */

int gpuring_stream_missing(MPI_Comm comm, const char *function)
{
    return FAIL(comm == MPI_COMM_NULL ? ERRORS_WITHOUT_COMM : comm, MPI_ERR_COMM,
                "[no-stream] %s: the communicator has no stream; create it with "
                "MPIX_Stream_comm_create (a duplicate of such a communicator has none either)",
                function);
}

int PMPIX_Comm_get_stream_error(MPI_Comm comm, int *error)
{
    const struct gpuring_stream_attached *attached = gpuring_stream_attached(comm);

    if (attached == NULL) {
        return gpuring_stream_missing(comm, "MPIX_Comm_get_stream_error");
    }
    *error = found.component->error(attached->calls);
    return MPI_SUCCESS;
}

/* Return the class of the first argument that MPI does not allow, or MPI_SUCCESS. */
static int check_arguments(MPI_Comm comm, const struct gpuring_stream_arguments *a, bool sends,
                           bool reduces)
{
    int size;

    PMPI_Comm_size(comm, &size);
    if ((ptrdiff_t) a->rcount < 0 || (sends && (ptrdiff_t) a->scount < 0)) {
        return MPI_ERR_COUNT;
    }
    if (a->rtype == MPI_DATATYPE_NULL || (sends && a->stype == MPI_DATATYPE_NULL)) {
        return MPI_ERR_TYPE;
    }
    if (reduces && a->op == MPI_OP_NULL) {
        return MPI_ERR_OP;
    }
    return a->root < 0 || a->root >= size ? MPI_ERR_ROOT : MPI_SUCCESS;
}

static int enqueue_call(MPI_Comm comm, enum gpuring_stream_call what, const char *function,
                        bool sends, bool reduces, const struct gpuring_stream_arguments *arguments)
{
    const struct gpuring_stream_attached *attached = gpuring_stream_attached(comm);
    int code;

    if (attached == NULL) {
        return gpuring_stream_missing(comm, function);
    }
    code = what == GPURING_STREAM_barrier ? MPI_SUCCESS
                                          : check_arguments(comm, arguments, sends, reduces);
    if (code == MPI_SUCCESS) {
        code = found.component->enqueue(attached->calls, what, arguments);
    }
    return gpuring_stream_raise(comm, code);
}

/* Enqueue the call that has this name in stream_calls.h. The arguments follow as initialisers. */
#define ENQUEUE(name, function, sends, reduces, ...)                                       \
    enqueue_call(comm, GPURING_STREAM_##name, "MPIX_" function "_enqueue", sends, reduces, \
                 &(struct gpuring_stream_arguments){__VA_ARGS__})
#define COUNT(count) ((size_t) (ptrdiff_t) (count))

int PMPIX_Allreduce_enqueue(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
                            MPI_Op op, MPI_Comm comm)
{
    return ENQUEUE(allreduce, "Allreduce", false, true, .sbuf = sendbuf, .rbuf = recvbuf,
                   .rcount = COUNT(count), .rtype = datatype, .op = op);
}

int PMPIX_Bcast_enqueue(void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm)
{
    return ENQUEUE(bcast, "Bcast", false, false, .rbuf = buffer, .rcount = COUNT(count),
                   .rtype = datatype, .root = root);
}

int PMPIX_Reduce_enqueue(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
                         MPI_Op op, int root, MPI_Comm comm)
{
    return ENQUEUE(reduce, "Reduce", false, true, .sbuf = sendbuf, .rbuf = recvbuf,
                   .rcount = COUNT(count), .rtype = datatype, .op = op, .root = root);
}

int PMPIX_Allgather_enqueue(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                            void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    return ENQUEUE(allgather, "Allgather", sendbuf != MPI_IN_PLACE, false, .sbuf = sendbuf,
                   .scount = COUNT(sendcount), .stype = sendtype, .rbuf = recvbuf,
                   .rcount = COUNT(recvcount), .rtype = recvtype);
}

int PMPIX_Reduce_scatter_block_enqueue(const void *sendbuf, void *recvbuf, int recvcount,
                                       MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    return ENQUEUE(reduce_scatter_block, "Reduce_scatter_block", false, true, .sbuf = sendbuf,
                   .rbuf = recvbuf, .rcount = COUNT(recvcount), .rtype = datatype, .op = op);
}

int PMPIX_Reduce_scatter_enqueue(const void *sendbuf, void *recvbuf, const int recvcounts[],
                                 MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    int size = 0;

    if (comm != MPI_COMM_NULL) {
        PMPI_Comm_size(comm, &size);
    }
    for (int i = 1; i < size; i++) {
        if (recvcounts[i] != recvcounts[0]) {
            return FAIL(comm, MPI_ERR_UNSUPPORTED_OPERATION,
                        "[stream-counts] MPIX_Reduce_scatter_enqueue: rank 0 receives %d elements "
                        "and rank %d receives %d; in a stream all counts must be equal. Use equal "
                        "counts, or MPI_Reduce_scatter after cudaStreamSynchronize",
                        recvcounts[0], i, recvcounts[i]);
        }
    }
    return ENQUEUE(reduce_scatter_block, "Reduce_scatter", false, true, .sbuf = sendbuf,
                   .rbuf = recvbuf, .rcount = size > 0 ? COUNT(recvcounts[0]) : 0,
                   .rtype = datatype, .op = op);
}

int PMPIX_Alltoall_enqueue(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                           int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    return ENQUEUE(alltoall, "Alltoall", sendbuf != MPI_IN_PLACE, false, .sbuf = sendbuf,
                   .scount = COUNT(sendcount), .stype = sendtype, .rbuf = recvbuf,
                   .rcount = COUNT(recvcount), .rtype = recvtype);
}

int PMPIX_Barrier_enqueue(MPI_Comm comm)
{
    return ENQUEUE(barrier, "Barrier", false, false, .rtype = MPI_BYTE);
}
