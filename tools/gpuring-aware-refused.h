/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The functions that libgpuring_aware.so refuses on GPU buffers: a template without include guard,
 * which gpuring-aware.c includes for each variant of the functions.
 */

#define BUFFER  buffer, count, type
#define FROM    const void *buffer, COUNT count, MPI_Datatype type
#define INTO    void *buffer, COUNT count, MPI_Datatype type
#define RESULT  void *result, COUNT results, MPI_Datatype result_type
#define TARGET  MPI_Aint at, COUNT n, MPI_Datatype target
#define EITHER  on_gpu(BUFFER) || on_gpu(result, results, result_type)
#define REQUEST MPI_Request *request

#if MPI_VERSION >= 4 || defined(MPI_SESSION_NULL)
REFUSE(Isendrecv_replace,
       (INTO, int to, int send_tag, int from, int receive_tag, MPI_Comm comm, REQUEST), Comm, comm,
       on_gpu(BUFFER), BUFFER, to, send_tag, from, receive_tag, comm, request)
#endif

/* One-sided calls. */
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
REFUSE(Win_create,
       (void *base, MPI_Aint size, UNIT unit, MPI_Info info, MPI_Comm comm, MPI_Win *win), Comm,
       comm, on_gpu(base, size > 0, MPI_BYTE), base, size, unit, info, comm, win)

/* Files: non-blocking calls, and split collective calls. */
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

/* Packing in the format of other machines. */
REFUSE(Pack_external, (const char format[], FROM, void *out, AINT size, AINT *position), Comm,
       MPI_COMM_SELF, on_gpu(BUFFER) || on_gpu(out, size > 0, MPI_BYTE), format, BUFFER, out, size,
       position)
REFUSE(Unpack_external, (const char format[], const void *in, AINT size, AINT *position, INTO),
       Comm, MPI_COMM_SELF, on_gpu(BUFFER) || on_gpu(in, size > 0, MPI_BYTE), format, in, size,
       position, BUFFER)

#undef BUFFER
#undef FROM
#undef INTO
#undef RESULT
#undef TARGET
#undef EITHER
#undef REQUEST
#undef REFUSE_FILE
