/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/eligible.h"

#include <stddef.h>
#include <string.h>

#include "mpi-ext.h"

#include "kernels/types.h"
#include "mca/coll_gpuring/memory_kind.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/process.h"

/*
 * The MPI types by representation: T(handle, class). The size comes from the handle, so that one
 * entry serves all kinds (MPI_LOGICAL of any width) and a Fortran type that Open MPI was built
 * without, which has size 0, drops out.
 */
/* clang-format off */
#define SIGNED_TYPES(T)                                                                  \
    T(MPI_CHAR) T(MPI_SIGNED_CHAR) T(MPI_SHORT) T(MPI_INT) T(MPI_LONG) T(MPI_LONG_LONG)  \
    T(MPI_INT8_T) T(MPI_INT16_T) T(MPI_INT32_T) T(MPI_INT64_T) T(MPI_AINT) T(MPI_OFFSET) \
    T(MPI_COUNT) T(MPI_INTEGER)
#define UNSIGNED_TYPES(T)                                                                \
    T(MPI_BYTE) T(MPI_UNSIGNED_CHAR) T(MPI_UNSIGNED_SHORT) T(MPI_UNSIGNED)               \
    T(MPI_UNSIGNED_LONG) T(MPI_UNSIGNED_LONG_LONG) T(MPI_UINT8_T) T(MPI_UINT16_T)        \
    T(MPI_UINT32_T) T(MPI_UINT64_T)
#define LOGICAL_TYPES(T)  T(MPI_C_BOOL) T(MPI_CXX_BOOL) T(MPI_LOGICAL)
#define FLOATING_TYPES(T) T(MPI_FLOAT) T(MPI_DOUBLE) T(MPI_REAL) T(MPI_DOUBLE_PRECISION)
#define COMPLEX_TYPES(T)                                                                 \
    T(MPI_C_FLOAT_COMPLEX) T(MPI_C_DOUBLE_COMPLEX) T(MPI_CXX_FLOAT_COMPLEX)              \
    T(MPI_CXX_DOUBLE_COMPLEX) T(MPI_COMPLEX) T(MPI_DOUBLE_COMPLEX)
/* clang-format on */

enum representation { SIGNED, UNSIGNED, LOGICAL, FLOATING, COMPLEX };

/* Types of these representations by size; the enumerator of size 0 is not used. */
static int type_of(enum representation representation, size_t size)
{
    static const struct {
        enum representation representation;
        size_t size;
        int type;
    } table[] = {
        {SIGNED, 1, GPURING_TYPE_INT8},
        {SIGNED, 2, GPURING_TYPE_INT16},
        {SIGNED, 4, GPURING_TYPE_INT32},
        {SIGNED, 8, GPURING_TYPE_INT64},
        {UNSIGNED, 1, GPURING_TYPE_UINT8},
        {UNSIGNED, 2, GPURING_TYPE_UINT16},
        {UNSIGNED, 4, GPURING_TYPE_UINT32},
        {UNSIGNED, 8, GPURING_TYPE_UINT64},
        {LOGICAL, 1, GPURING_TYPE_LOGICAL8},
        {LOGICAL, 2, GPURING_TYPE_LOGICAL16},
        {LOGICAL, 4, GPURING_TYPE_LOGICAL32},
        {LOGICAL, 8, GPURING_TYPE_LOGICAL64},
        {FLOATING, 2, GPURING_TYPE_FLOAT16},
        {FLOATING, 4, GPURING_TYPE_FLOAT},
        {FLOATING, 8, GPURING_TYPE_DOUBLE},
        {COMPLEX, 8, GPURING_TYPE_COMPLEX_FLOAT},
        {COMPLEX, 16, GPURING_TYPE_COMPLEX_DOUBLE},
#if GPURING_HAVE_FLOAT128 /* Fortran's REAL*16; C's long double has a handle of its own */
        {FLOATING, 16, GPURING_TYPE_FLOAT128},
        {COMPLEX, 32, GPURING_TYPE_COMPLEX_FLOAT128},
#endif
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (table[i].representation == representation && table[i].size == size) {
            return table[i].type;
        }
    }
    return -1;
}

/* Open addressing; a handle is the address of a structure of 512 bytes. */
#define SLOTS 256
static struct {
    const void *handle;
    uint32_t type, size;
    uint32_t ops; /* bits of enum gpuring_op that MPI allows for it */
    bool device;  /* GPUs reduce it */
} handles[SLOTS];
_Static_assert(GPURING_OP_COUNT <= 32, "bits of handles.ops");

static size_t slot_of(const void *handle)
{
    return ((uintptr_t) handle >> 9) % SLOTS;
}

static void add_handle(MPI_Datatype handle, int type)
{
    size_t slot = slot_of(handle), size = 0;

    opal_datatype_type_size(&handle->super, &size);
    if (type < 0 || size == 0 || handle == MPI_DATATYPE_NULL) {
        return;
    }
    while (handles[slot].handle != NULL && handles[slot].handle != handle) {
        slot = (slot + 1) % SLOTS;
    }
    handles[slot].handle = handle;
    handles[slot].type = (uint32_t) type;
    handles[slot].size = gpuring_type_info((uint32_t) type)->size;
    handles[slot].device = gpuring_type_info((uint32_t) type)->device;
    handles[slot].ops = 0;
    for (uint32_t op = 0; op < GPURING_OP_COUNT; op++) {
        handles[slot].ops |= (uint32_t) (gpuring_op_allows(op, (uint32_t) type) != 0) << op;
    }
}

static void add_sized(MPI_Datatype handle, enum representation representation)
{
    size_t size = 0;

    opal_datatype_type_size(&handle->super, &size);
    add_handle(handle, type_of(representation, size));
}

/* Types whose size alone does not tell them. */
static void add_named(void)
{
    add_handle(MPI_LONG_DOUBLE, GPURING_TYPE_LONG_DOUBLE);
    add_handle(MPI_C_LONG_DOUBLE_COMPLEX, GPURING_TYPE_COMPLEX_LONG_DOUBLE);
    add_handle(MPI_CXX_LONG_DOUBLE_COMPLEX, GPURING_TYPE_COMPLEX_LONG_DOUBLE);
    add_handle(MPI_FLOAT_INT, GPURING_TYPE_FLOAT_INT);
    add_handle(MPI_DOUBLE_INT, GPURING_TYPE_DOUBLE_INT);
    add_handle(MPI_LONG_DOUBLE_INT, GPURING_TYPE_LONG_DOUBLE_INT);
    add_handle(MPI_SHORT_INT, GPURING_TYPE_SHORT_INT);
    add_handle(MPI_2INT, GPURING_TYPE_INT_INT);
    add_handle(MPI_LONG_INT,
               sizeof(long) == 8 ? (int) GPURING_TYPE_LONG_INT : (int) GPURING_TYPE_INT_INT);
    add_handle(MPI_2INTEGER, GPURING_TYPE_INT_INT);
    add_handle(MPI_2REAL, GPURING_TYPE_FLOAT_FLOAT);
    add_handle(MPI_2DOUBLE_PRECISION, GPURING_TYPE_DOUBLE_DOUBLE);
}

/* Fortran kinds exist in mpi.h only where Open MPI was built with them. */
static void add_kinds(void)
{
#define KIND(handle, representation) add_sized(handle, representation);
#ifdef MPI_INTEGER1
    KIND(MPI_INTEGER1, SIGNED)
#endif
#ifdef MPI_INTEGER2
    KIND(MPI_INTEGER2, SIGNED)
#endif
#ifdef MPI_INTEGER4
    KIND(MPI_INTEGER4, SIGNED)
#endif
#ifdef MPI_INTEGER8
    KIND(MPI_INTEGER8, SIGNED)
#endif
#ifdef MPI_LOGICAL1
    KIND(MPI_LOGICAL1, LOGICAL)
#endif
#ifdef MPI_LOGICAL2
    KIND(MPI_LOGICAL2, LOGICAL)
#endif
#ifdef MPI_LOGICAL4
    KIND(MPI_LOGICAL4, LOGICAL)
#endif
#ifdef MPI_LOGICAL8
    KIND(MPI_LOGICAL8, LOGICAL)
#endif
#ifdef MPI_REAL4
    KIND(MPI_REAL4, FLOATING)
#endif
#ifdef MPI_REAL8
    KIND(MPI_REAL8, FLOATING)
#endif
#ifdef MPI_REAL16
    KIND(MPI_REAL16, FLOATING)
#endif
#ifdef MPI_COMPLEX8
    KIND(MPI_COMPLEX8, COMPLEX)
#endif
#ifdef MPI_COMPLEX16
    KIND(MPI_COMPLEX16, COMPLEX)
#endif
#ifdef MPI_COMPLEX32
    KIND(MPI_COMPLEX32, COMPLEX)
#endif
#ifdef OMPI_HAVE_MPI_EXT_SHORTFLOAT
    KIND(MPIX_C_FLOAT16, FLOATING)
#endif
#undef KIND
}

void gpuring_eligible_init(void)
{
#define ADD_SIGNED(handle)   add_sized(handle, SIGNED);
#define ADD_UNSIGNED(handle) add_sized(handle, UNSIGNED);
#define ADD_LOGICAL(handle)  add_sized(handle, LOGICAL);
#define ADD_FLOATING(handle) add_sized(handle, FLOATING);
#define ADD_COMPLEX(handle)  add_sized(handle, COMPLEX);
    SIGNED_TYPES(ADD_SIGNED)
    UNSIGNED_TYPES(ADD_UNSIGNED)
    LOGICAL_TYPES(ADD_LOGICAL)
    FLOATING_TYPES(ADD_FLOATING)
    COMPLEX_TYPES(ADD_COMPLEX)
    add_named();
    add_kinds();
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
 * 16-bit floats, of which MPI has no types: a type of 2 bytes whose name says what is meant by an
 * operation of the user's on it, "gpuring:float16:sum" or "gpuring:bfloat16:max". The user's
 * function serves where we do not.
 */
#define NAMED_PREFIX "gpuring:"

static bool find_named(const struct ompi_datatype_t *dtype, struct gpuring_call *call)
{
    static const uint32_t types[] = {GPURING_TYPE_FLOAT16, GPURING_TYPE_BFLOAT16};
    const char *name = dtype->name + sizeof NAMED_PREFIX - 1;
    size_t size = 0;

    if (strncmp(dtype->name, NAMED_PREFIX, sizeof NAMED_PREFIX - 1) != 0 ||
        opal_datatype_type_size(&dtype->super, &size) != OPAL_SUCCESS || size != 2 ||
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

/* Type and operation of ours. *device: do GPUs reduce the type? */
static enum gpuring_reason find_reduction(const struct ompi_datatype_t *dtype, MPI_Op op,
                                          struct gpuring_call *call, bool *device)
{
    size_t slot = slot_of(dtype);
    int found = find_op(op);

    while (handles[slot].handle != dtype) {
        if (handles[slot].handle == NULL) {
            *device = true; /* 16-bit floats */
            return found < 0 && find_named(dtype, call) ? GPURING_REASON_NONE : GPURING_REASON_TYPE;
        }
        slot = (slot + 1) % SLOTS;
    }
    if (found < 0 || (handles[slot].ops >> found & 1) == 0) {
        return GPURING_REASON_OP;
    }
    call->type = handles[slot].type;
    call->op = (uint32_t) found;
    call->element_size = handles[slot].size;
    *device = handles[slot].device;
    return GPURING_REASON_NONE;
}

/* Buffers in host memory are served. */
static bool on_hosts(void)
{
    return gpuring_process.device_ops->kind == GPURING_DEVICE_HOST;
}

static bool agrees(void)
{
    return gpuring_params.agree == GPURING_PARAM_AGREE_ALWAYS;
}

bool gpuring_eligible_any(void)
{
    return on_hosts() || agrees() || gpuring_memory_possible();
}

/* Where the buffers are. */
static void find_memory(struct gpuring_call *call)
{
    call->output_at = gpuring_memory_of(call->output);
    call->input_at = call->input == call->output ? call->output_at : gpuring_memory_of(call->input);
}

enum gpuring_reason gpuring_eligible_reduction(const void *sbuf, void *rbuf, gpuring_count_t count,
                                               struct ompi_datatype_t *dtype, struct ompi_op_t *op,
                                               struct gpuring_call *call)
{
    bool host = on_hosts(), agree = !host && agrees(), device;
    enum gpuring_reason reason = find_reduction(dtype, op, call, &device);

    if (reason != GPURING_REASON_NONE) {
        return reason;
    }
    call->collective = GPURING_COLLECTIVE_ALLREDUCE;
    call->input = sbuf == MPI_IN_PLACE ? rbuf : sbuf;
    call->output = rbuf;
    call->count = (uint64_t) count;
    call->input_at = call->output_at =
        (struct gpuring_pointer){.kind = GPURING_POINTER_HOST, .ordinal = -1};
    call->agree = false;
    call->number = 0;
    if (host) {
        return GPURING_REASON_NONE;
    }
    /* Buffers of no elements may lie anywhere, and elsewhere on each rank. */
    if (count == 0) {
        return GPURING_REASON_MEMORY;
    }
    find_memory(call);
    if (!device) {
        /* Where the ranks agree, all of them take the same way, whatever their buffers are. */
        return agree || gpuring_call_on_gpu(call) ? GPURING_REASON_HOST_TYPE
                                                  : GPURING_REASON_MEMORY;
    }
    call->agree = agree;
    return agree || gpuring_call_on_gpu(call) ? GPURING_REASON_NONE : GPURING_REASON_MEMORY;
}
