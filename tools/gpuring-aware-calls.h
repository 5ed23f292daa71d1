/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The functions that libgpuring_aware.so serves by staging: a template without include guard, which
 * gpuring-aware.c includes for each variant of the functions.
 */

DEFINE(Pack,
       (const void *in, COUNT count, MPI_Datatype type, void *out, COUNT size, COUNT *position,
        MPI_Comm comm),
       in, count, type, out, size, position, comm)
{
    struct host from = {.handle = NULL}, to = {.handle = NULL};
    MPI_Count bytes = packed_size(count, type);
    int result = MPI_SUCCESS, own;
    COUNT end = 0;

    if (*position < 0 || bytes > size - *position ||
        (!on_gpu(in, count, type) && !on_gpu((char *) out + *position, bytes, MPI_BYTE))) {
        return real(in, count, type, out, size, position, comm);
    }
    own = host_begin(&from, TEXT(Pack), in, count, type, GPURING_AWARE_IN);
    if (own == MPI_SUCCESS) {
        own = host_begin(&to, TEXT(Pack), (char *) out + *position, bytes, MPI_BYTE,
                         GPURING_AWARE_OUT);
    }
    if (own == MPI_SUCCESS) {
        result = real(from.buffer, count, type, to.buffer, (COUNT) bytes, &end, comm);
        own = host_end(&to, result == MPI_SUCCESS);
        *position += result == MPI_SUCCESS && own == MPI_SUCCESS ? end : 0;
    }
    (void) host_end(&from, false);
    return result_of_Comm(comm, result, own);
}

DEFINE(Unpack,
       (const void *in, COUNT size, COUNT *position, void *out, COUNT count, MPI_Datatype type,
        MPI_Comm comm),
       in, size, position, out, count, type, comm)
{
    struct host from = {.handle = NULL}, to = {.handle = NULL};
    MPI_Count bytes = packed_size(count, type);
    int result = MPI_SUCCESS, own;
    COUNT end = 0;

    if (*position < 0 || bytes > size - *position ||
        (!on_gpu(out, count, type) && !on_gpu((const char *) in + *position, bytes, MPI_BYTE))) {
        return real(in, size, position, out, count, type, comm);
    }
    own = host_begin(&from, TEXT(Unpack), (const char *) in + *position, bytes, MPI_BYTE,
                     GPURING_AWARE_IN);
    if (own == MPI_SUCCESS) {
        own = host_begin(&to, TEXT(Unpack), out, count, type, GPURING_AWARE_OUT);
    }
    if (own == MPI_SUCCESS) {
        result = real(from.buffer, (COUNT) bytes, &end, to.buffer, count, type, comm);
        own = host_end(&to, result == MPI_SUCCESS);
        *position += result == MPI_SUCCESS && own == MPI_SUCCESS ? end : 0;
    }
    (void) host_end(&from, false);
    return result_of_Comm(comm, result, own);
}

/* A message that is shorter than the buffer must not change the rest of the buffer. The rest is
 * therefore copied in before the call and out afterwards. Files are read in the same way. */
DEFINE(Sendrecv_replace,
       (void *buffer, COUNT count, MPI_Datatype type, int to, int send_tag, int from,
        int receive_tag, MPI_Comm comm, MPI_Status *status),
       buffer, count, type, to, send_tag, from, receive_tag, comm, status)
{
    int own, result = MPI_SUCCESS;
    struct host host;

    own = host_begin(&host, TEXT(Sendrecv_replace), buffer, count, type,
                     GPURING_AWARE_IN | GPURING_AWARE_OUT);
    if (own == MPI_SUCCESS) {
        result = real(host.buffer, count, type, to, send_tag, from, receive_tag, comm, status);
        own = host_end(&host, result == MPI_SUCCESS);
    }
    return result_of_Comm(comm, result, own);
}

/*
 * Files. The datatype remains the user's, because a file view may convert its elements
 * ("external32"). A rank whose data cannot be copied takes part in a collective call nevertheless,
 * with GPURING_POISON or without data, because the others wait for it.
 */
#define FILE_CALL(name, parameters, used, arguments)                               \
    DEFINE(name, parameters, LIST arguments, buffer, count, type, status)          \
    {                                                                              \
        int own, ended, result = MPI_SUCCESS;                                      \
        const unsigned use = used;                                                 \
        struct host host;                                                          \
                                                                                   \
        own = host_begin(&host, TEXT(name), buffer, count, type, use);             \
        if (own == MPI_SUCCESS || (use & GPURING_AWARE_COLLECTIVE) != 0) {         \
            count = own == MPI_SUCCESS || host.handle != NULL ? count : 0;         \
            result = real(LIST arguments, host.buffer, count, type, status);       \
            ended = host_end(&host, result == MPI_SUCCESS && own == MPI_SUCCESS && \
                                        (use & GPURING_AWARE_OUT) != 0);           \
            own = own == MPI_SUCCESS ? ended : own;                                \
        }                                                                          \
        return result_of_File(file, result, own);                                  \
    }
#define FILE_WRITE(name, parameters, arguments, collective) \
    FILE_CALL(name, (LIST parameters, WRITTEN), GPURING_AWARE_IN | (collective), arguments)
#define FILE_READ(name, parameters, arguments, collective)                                        \
    FILE_CALL(name, (LIST parameters, READ), GPURING_AWARE_IN | GPURING_AWARE_OUT | (collective), \
              arguments)
#define WRITTEN const void *buffer, COUNT count, MPI_Datatype type, MPI_Status *status
#define READ    void *buffer, COUNT count, MPI_Datatype type, MPI_Status *status
#define ALONE   0
#define ALL     GPURING_AWARE_COLLECTIVE
FILE_WRITE(File_write, (MPI_File file), (file), ALONE)
FILE_WRITE(File_write_all, (MPI_File file), (file), ALL)
FILE_WRITE(File_write_at, (MPI_File file, MPI_Offset at), (file, at), ALONE)
FILE_WRITE(File_write_at_all, (MPI_File file, MPI_Offset at), (file, at), ALL)
FILE_WRITE(File_write_shared, (MPI_File file), (file), ALONE)
FILE_WRITE(File_write_ordered, (MPI_File file), (file), ALL)
FILE_READ(File_read, (MPI_File file), (file), ALONE)
FILE_READ(File_read_all, (MPI_File file), (file), ALL)
FILE_READ(File_read_at, (MPI_File file, MPI_Offset at), (file, at), ALONE)
FILE_READ(File_read_at_all, (MPI_File file, MPI_Offset at), (file, at), ALL)
FILE_READ(File_read_shared, (MPI_File file), (file), ALONE)
FILE_READ(File_read_ordered, (MPI_File file), (file), ALL)
#undef FILE_CALL
#undef FILE_WRITE
#undef FILE_READ
#undef WRITTEN
#undef READ
#undef ALONE
#undef ALL
