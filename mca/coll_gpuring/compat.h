/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Every difference between the supported versions of Open MPI, and nothing else: 4.1 (coll API
 * 2.0.0), 5.0 (2.4.0) and 6.0 (3.0.0). Other files of the glue contain no version test.
 *
 * 4.1 and 5.0: the base copies a module's functions into the communicator after enable, and counts
 * references to the modules it replaces. 6.0: the module installs and uninstalls its functions.
 */
#ifndef GPURING_COMPAT_H
#define GPURING_COMPAT_H

#include "ompi_config.h"

#include "mpi.h"

#include "ompi/communicator/communicator.h"
#include "ompi/constants.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/group/group.h"
#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/mca/topo/base/base.h"
#include "ompi/proc/proc.h"
#include "ompi/request/request.h"
#include "opal/datatype/opal_convertor.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/output.h"

#if defined(MCA_COLL_BASE_VERSION_3_0_0)
#define GPURING_COLL_VERSION MCA_COLL_BASE_VERSION_3_0_0
typedef size_t gpuring_count_t;
#elif defined(MCA_COLL_BASE_VERSION_2_4_0)
#define GPURING_COLL_VERSION MCA_COLL_BASE_VERSION_2_4_0
typedef int gpuring_count_t;
#else
#define GPURING_COLL_VERSION MCA_COLL_BASE_VERSION_2_0_0
typedef int gpuring_count_t;
#endif

/*
 * A function of ours (`self` is our module) replaces `name` in a communicator's table,
 * and gives it back to the one before it, which self->previous names. KEEP and DROP hold the module
 * of that one, which the base of 4.1 and 5.0 would release.
 */
#if defined(MCA_COLL_BASE_VERSION_3_0_0)
#define GPURING_COLL_KEEP(previous) ((void) (previous))
#define GPURING_COLL_DROP(previous) ((void) (previous))
#define GPURING_COLL_INSTALL(self, comm, name)                       \
    do {                                                             \
        if ((self)->super.coll_##name != NULL) {                     \
            (comm)->c_coll->coll_##name = (self)->super.coll_##name; \
            (comm)->c_coll->coll_##name##_module = &(self)->super;   \
        }                                                            \
    } while (0)
#define GPURING_COLL_UNINSTALL(self, comm, name)                                   \
    do {                                                                           \
        if ((self)->super.coll_##name != NULL &&                                   \
            (comm)->c_coll->coll_##name##_module == &(self)->super) {              \
            (comm)->c_coll->coll_##name = (self)->previous.name;                   \
            (comm)->c_coll->coll_##name##_module = (self)->previous.name##_module; \
        }                                                                          \
    } while (0)
#else
#define GPURING_COLL_KEEP(previous)              OBJ_RETAIN(previous)
#define GPURING_COLL_DROP(previous)              OBJ_RELEASE(previous)
#define GPURING_COLL_INSTALL(self, comm, name)   ((void) (comm))
#define GPURING_COLL_UNINSTALL(self, comm, name) ((void) (comm))
#endif

/* Arrays of counts, of displacements in extents, and of displacements in bytes; the first two may
 * stand for arrays of int. */
#if defined(MCA_COLL_BASE_VERSION_3_0_0)
typedef ompi_count_array_t gpuring_counts_t;
typedef ompi_disp_array_t gpuring_displs_t, gpuring_byte_displs_t;
#define GPURING_COUNT_AT(counts, i)      ompi_count_array_get(counts, (size_t) (i))
#define GPURING_DISPL_AT(displs, i)      ompi_disp_array_get(displs, (size_t) (i))
#define GPURING_BYTE_DISPL_AT(displs, i) ompi_disp_array_get(displs, (size_t) (i))
#else
typedef const int *gpuring_counts_t, *gpuring_displs_t;
typedef const MPI_Aint *gpuring_byte_displs_t;
#define GPURING_COUNT_AT(counts, i)      ((size_t) (counts)[i])
#define GPURING_DISPL_AT(displs, i)      ((ptrdiff_t) (displs)[i])
#define GPURING_BYTE_DISPL_AT(displs, i) ((ptrdiff_t) (displs)[i])
#endif

/* Does mpi.h declare functions with large counts, such as MPI_Pack_c? */
#if OMPI_MAJOR_VERSION >= 6
#define GPURING_LARGE_COUNTS 1
#else
#define GPURING_LARGE_COUNTS 0
#endif

/*
 * What a request of a non-blocking or persistent collective begins with. When such a call has
 * returned, Open MPI keeps references to its datatypes and its operation in the request, behind
 * ompi_request_t, if they are not predefined ones, and expects NULL there before
 * (ompi_coll_base_nbc_request_t, whose header needs files that are not installed: 40 bytes in 4.1,
 * 48 in 5.0).
 */
struct gpuring_collective_request {
    ompi_request_t super;
    void *for_open_mpi[16];
};

/* A number of the communicator for messages: the same on all of its ranks where Open MPI has one
 * (4.1), local to the process else. */
#if OMPI_MAJOR_VERSION >= 5
#define GPURING_COMM_ID(comm) ((unsigned) ompi_comm_get_local_cid(comm))
#else
#define GPURING_COMM_ID(comm) ((unsigned) ompi_comm_get_cid(comm))
#endif

/*
 * May a call of MPI_Iallreduce be Open MPI's own? It agrees on the number of a new communicator by
 * such calls on the old one (ompi_comm_nextcid_nb, ompi_comm_activate_nb), always of one MPI_INT.
 * Those of MPI_Comm_idup come from the progress engine, so that they stand elsewhere among the
 * application's calls on each rank. Equal on all ranks.
 */
static inline bool gpuring_compat_internal(gpuring_count_t count,
                                           const struct ompi_datatype_t *type,
                                           const struct ompi_op_t *op)
{
    return count == 1 && type == MPI_INT && (op == MPI_MAX || op == MPI_MIN);
}

/* The same of MPI_Ireduce, and MPI_Ibcast of its result, on the groups of intercommunicators. The
 * type of an application's broadcast need not be the same on all ranks, but its size is. */
static inline bool gpuring_compat_internal_bcast(gpuring_count_t count,
                                                 const struct ompi_datatype_t *type)
{
    return (size_t) count * type->super.size == sizeof(int);
}

/*
 * A word of this process for all processes of its job, given before MPI_Init exchanges addresses,
 * and that of another. False: not known, as with Open MPI 5.0 and later, whose exchange needs a
 * library that components do not link.
 */
void gpuring_compat_publish(uint32_t word);
bool gpuring_compat_published(struct ompi_communicator_t *comm, int rank, uint32_t *word);

/* The rank in MPI_COMM_WORLD of a process of this job, -1: it is of another. The rank is one to
 * send to. */
int gpuring_compat_world_rank(struct ompi_communicator_t *comm, int rank);

/* Fault tolerance, from 5.0 on. May a message come from this rank (or MPI_ANY_SOURCE)? MPI_SUCCESS,
 * or why not. */
static inline int gpuring_compat_lost(struct ompi_communicator_t *comm, int rank)
{
    int code = MPI_SUCCESS;

#if OPAL_ENABLE_FT_MPI
    (void) ompi_comm_iface_p2p_check_proc(comm, rank, &code);
#else
    (void) comm;
    (void) rank;
#endif
    return code;
}

/* Has it given a request this error for good? Another one says that a receive from any rank may
 * wait longer. */
static inline bool gpuring_compat_failed(int code)
{
#if OPAL_ENABLE_FT_MPI
    return code != MPI_SUCCESS && code != MPI_ERR_PROC_FAILED_PENDING;
#else
    return code != MPI_SUCCESS;
#endif
}

/* The host of a rank of the communicator; never NULL. For messages. */
const char *gpuring_compat_host(struct ompi_communicator_t *comm, int rank);

/* The component that a module belongs to, "coll/tuned". For messages; the next call overwrites it.
 */
const char *gpuring_compat_component(const mca_coll_base_module_t *module);

/* Does Open MPI itself take GPU buffers in point-to-point calls: was it built with CUDA, and is the
 * PML one that uses that? Another PML, as UCX, may: it is not asked. */
bool gpuring_compat_cuda_aware(void);

/* The MPI error code of a negative gpuring_status; MPI_SUCCESS for 0. Its class is one of MPI's,
 * and its string has the cause (compat_error.c). Threads: any. */
int gpuring_compat_error(int status);
/* MPI_Finalize frees the codes: make new ones if MPI is used again. */
void gpuring_compat_errors_forget(void);

/*
 * Show a topic of help-mpi-coll-gpuring.txt, filled in as by printf. With Open MPI 4.1 each
 * process shows its own text: mpirun would collect those of opal_show_help, but loses some that two
 * processes send at the same time (seen with 4.1.4: "Data unpack would read past end of buffer").
 * Where Open MPI does not find the file, the texts that are compiled in are shown.
 */
void gpuring_compat_help(const char *topic, ...);

#endif
