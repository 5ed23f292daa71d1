/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Eligibility: translate the arguments of a collective into a call of the engine, or return the
 * reason why it cannot be served.
 *
 * The result depends on arguments that MPI requires to be equal on all ranks (operation, type
 * signature), and on whether a buffer is on a GPU, which is assumed to be equal on all ranks
 * (coll_gpuring_agree).
 */
#include "mca/coll_gpuring/serve/serve.h"

#include <stddef.h>
#include <string.h>

#include "kernels/types.h"

enum representation { SIGNED, UNSIGNED, LOGICAL, FLOATING, COMPLEX, REPRESENTATIONS };

/*
 * The MPI types by representation. Representation and size together identify a type of the kernels,
 * so one entry is enough for a handle that may have different sizes, such as MPI_LOGICAL. If Open
 * MPI was built without a Fortran type, the type has size 0 and no name in mpi.h.
 */
#define PREDEFINED(name) ((MPI_Datatype) (void *) &ompi_mpi_##name)

/* MPIX_C_FLOAT16, also called MPIX_SHORT_FLOAT. The address is NULL if the Open MPI at run time has
 * no extension shortfloat, even if the one at build time had it. */
extern struct ompi_predefined_datatype_t ompi_mpi_short_float __attribute__((weak));
static const MPI_Datatype sized_types[REPRESENTATIONS][20] = {
    [SIGNED] = {MPI_CHAR, MPI_SIGNED_CHAR, MPI_SHORT, MPI_INT, MPI_LONG, MPI_LONG_LONG, MPI_INT8_T,
                MPI_INT16_T, MPI_INT32_T, MPI_INT64_T, MPI_AINT, MPI_OFFSET, MPI_COUNT, MPI_INTEGER,
                PREDEFINED(integer1), PREDEFINED(integer2), PREDEFINED(integer4),
                PREDEFINED(integer8)},
    [UNSIGNED] = {MPI_BYTE, MPI_UNSIGNED_CHAR, MPI_UNSIGNED_SHORT, MPI_UNSIGNED, MPI_UNSIGNED_LONG,
                  MPI_UNSIGNED_LONG_LONG, MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T},
    [LOGICAL] = {MPI_C_BOOL, MPI_CXX_BOOL, MPI_LOGICAL, PREDEFINED(logical1), PREDEFINED(logical2),
                 PREDEFINED(logical4), PREDEFINED(logical8)},
    [FLOATING] = {MPI_FLOAT, MPI_DOUBLE, MPI_REAL, MPI_DOUBLE_PRECISION, PREDEFINED(real4),
                  PREDEFINED(real8), PREDEFINED(real16), PREDEFINED(short_float)},
    [COMPLEX] = {MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_CXX_FLOAT_COMPLEX,
                 MPI_CXX_DOUBLE_COMPLEX, MPI_COMPLEX, MPI_DOUBLE_COMPLEX, PREDEFINED(complex8),
                 PREDEFINED(complex16), PREDEFINED(complex32)},
};

/* Types that representation and size do not identify. */
static const struct {
    MPI_Datatype handle;
    int type;
} named_types[] = {
    {MPI_LONG_DOUBLE, GPURING_TYPE_LONG_DOUBLE},
    {MPI_C_LONG_DOUBLE_COMPLEX, GPURING_TYPE_COMPLEX_LONG_DOUBLE},
    {MPI_CXX_LONG_DOUBLE_COMPLEX, GPURING_TYPE_COMPLEX_LONG_DOUBLE},
    {MPI_FLOAT_INT, GPURING_TYPE_FLOAT_INT},
    {MPI_DOUBLE_INT, GPURING_TYPE_DOUBLE_INT},
    {MPI_LONG_DOUBLE_INT, GPURING_TYPE_LONG_DOUBLE_INT},
    {MPI_SHORT_INT, GPURING_TYPE_SHORT_INT},
    {MPI_2INT, GPURING_TYPE_INT_INT},
    {MPI_LONG_INT, sizeof(long) == 8 ? (int) GPURING_TYPE_LONG_INT : (int) GPURING_TYPE_INT_INT},
    {MPI_2INTEGER, GPURING_TYPE_INT_INT},
    {MPI_2REAL, GPURING_TYPE_FLOAT_FLOAT},
    {MPI_2DOUBLE_PRECISION, GPURING_TYPE_DOUBLE_DOUBLE},
};

#if GPURING_HAVE_FLOAT128 /* Fortran's REAL*16; C's long double has a separate handle */
#define QUAD(type) GPURING_TYPE_##type
#else
#define QUAD(type) -1
#endif

/* Return the type with this representation and size, or -1. */
static int type_of(enum representation representation, size_t size)
{
    static const int types[REPRESENTATIONS][6] = {
        /* of 1, 2, 4, 8, 16 and 32 bytes */
        [SIGNED] = {GPURING_TYPE_INT8, GPURING_TYPE_INT16, GPURING_TYPE_INT32, GPURING_TYPE_INT64,
                    -1, -1},
        [UNSIGNED] = {GPURING_TYPE_UINT8, GPURING_TYPE_UINT16, GPURING_TYPE_UINT32,
                      GPURING_TYPE_UINT64, -1, -1},
        [LOGICAL] = {GPURING_TYPE_LOGICAL8, GPURING_TYPE_LOGICAL16, GPURING_TYPE_LOGICAL32,
                     GPURING_TYPE_LOGICAL64, -1, -1},
        [FLOATING] = {-1, GPURING_TYPE_FLOAT16, GPURING_TYPE_FLOAT, GPURING_TYPE_DOUBLE,
                      QUAD(FLOAT128), -1},
        [COMPLEX] = {-1, -1, -1, GPURING_TYPE_COMPLEX_FLOAT, GPURING_TYPE_COMPLEX_DOUBLE,
                     QUAD(COMPLEX_FLOAT128)},
    };

    return size <= 32 && __builtin_popcountl(size) == 1
               ? types[representation][__builtin_ctzl(size)]
               : -1;
}

/* A hash table with open addressing. A handle is the address of a structure of 512 bytes. */
#define SLOTS 256
static struct {
    const void *handle;
    uint32_t type;
} handles[SLOTS];

/* Return the slot of a handle, or the free slot in which it can be stored. */
static size_t slot_of(const void *handle)
{
    size_t slot = ((uintptr_t) handle >> 9) % SLOTS;

    while (handles[slot].handle != NULL && handles[slot].handle != handle) {
        slot = (slot + 1) % SLOTS;
    }
    return slot;
}

static size_t size_of(const struct ompi_datatype_t *handle)
{
    size_t size = 0;

    return opal_datatype_type_size(&handle->super, &size) == OPAL_SUCCESS ? size : 0;
}

static void add_handle(MPI_Datatype handle, int type)
{
    size_t slot = slot_of(handle);

    if (type >= 0 && handle != MPI_DATATYPE_NULL && size_of(handle) > 0) {
        handles[slot].handle = handle;
        handles[slot].type = (uint32_t) type;
    }
}

void gpuring_eligible_init(void)
{
    for (int r = 0; r < REPRESENTATIONS; r++) {
        for (const MPI_Datatype *handle = sized_types[r]; *handle != NULL; handle++) {
            add_handle(*handle, type_of((enum representation) r, size_of(*handle)));
        }
    }
    for (size_t i = 0; i < sizeof named_types / sizeof *named_types; i++) {
        add_handle(named_types[i].handle, named_types[i].type);
    }
}

static int find_op(MPI_Op op)
{
#define FIND_OP(name, classes, text) \
    if (op == MPI_##name) {          \
        return GPURING_OP_##name;    \
    }
    GPURING_OPS(FIND_OP)
#undef FIND_OP
    return -1;
}

/*
 * 16-bit floats, for which MPI has no types. The program creates a datatype of 2 bytes whose name
 * specifies the format and the meaning of the program's operation: "gpuring:float16:sum" or
 * "gpuring:bfloat16:max". If the call is delegated, the program's function performs the operation.
 */
#define NAMED_PREFIX "gpuring:"

static bool find_named(const struct ompi_datatype_t *dtype, struct gpuring_call *call)
{
    static const uint32_t types[] = {GPURING_TYPE_FLOAT16, GPURING_TYPE_BFLOAT16};
    const char *name = dtype->name + sizeof NAMED_PREFIX - 1;

    if (strncmp(dtype->name, NAMED_PREFIX, sizeof NAMED_PREFIX - 1) != 0 || size_of(dtype) != 2 ||
        dtype->super.ub - dtype->super.lb != 2 || dtype->super.lb != 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *type = gpuring_type_info(types[i])->name;
        size_t length = strlen(type);

        for (uint32_t op = 0; op < GPURING_OP_COUNT; op++) {
            if (strncmp(name, type, length) == 0 && name[length] == ':' &&
                strcmp(name + length + 1, gpuring_op_info(op)->name) == 0 &&
                gpuring_op_allows(op, types[i])) {
                call->type = types[i];
                call->op = op;
                call->element_size = 2;
                return true;
            }
        }
    }
    return false;
}

enum gpuring_reason gpuring_eligible_types(const struct ompi_datatype_t *dtype, MPI_Op op,
                                           struct gpuring_call *call)
{
    size_t slot = slot_of(dtype);
    int found = find_op(op);

    if (handles[slot].handle == NULL) {
        return found < 0 && find_named(dtype, call) ? GPURING_REASON_NONE : GPURING_REASON_TYPE;
    }
    if (found < 0 || !gpuring_op_allows((uint32_t) found, handles[slot].type)) {
        return GPURING_REASON_OP;
    }
    call->type = handles[slot].type;
    call->op = (uint32_t) found;
    call->element_size = gpuring_type_info(call->type)->size;
    return GPURING_REASON_NONE;
}

static const struct gpuring_pointer host_pointer = {.kind = GPURING_POINTER_HOST, .ordinal = -1};

/* Return where a buffer is. A buffer without data counts as host memory. */
static struct gpuring_pointer memory_of(const struct gpuring_call_buffer *buffer)
{
    return buffer->bytes > 0 ? gpuring_memory_of(buffer->sample) : host_pointer;
}

enum gpuring_reason gpuring_eligible_on_gpu(struct gpuring_call *call)
{
    call->out.at = memory_of(&call->out);
    call->in.at = call->in.sample == call->out.sample && call->out.bytes > 0 ? call->out.at
                                                                             : memory_of(&call->in);
    /* With coll_gpuring_agree=always, a rank with host buffers continues and takes part in the
     * agreement. */
    if (gpuring_buffers_decide() && !gpuring_call_on_gpu(call)) {
        return GPURING_REASON_MEMORY;
    }
    return gpuring_type_info(call->type)->device ? GPURING_REASON_NONE : GPURING_REASON_HOST_TYPE;
}
