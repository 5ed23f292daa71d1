/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * All differences between the supported versions of Open MPI: 4.1 (coll API 2.0.0), 5.0 (2.4.0) and
 * 6.0 (3.0.0). Other files of the component do not test the version.
 *
 * 4.1 and 5.0: the base copies a module's functions to the communicator after enable, and counts
 * references to the modules that it replaces. 6.0: the module installs and uninstalls its
 * functions.
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
 * INSTALL: replace the function `name` in a communicator's table with that of our module `self`.
 * UNINSTALL: restore the function in self->previous. KEEP and DROP: hold and release a reference to
 * the module of the previous function, which the base of 4.1 and 5.0 would release.
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

/* Arrays of counts, of displacements in extents, and of displacements in bytes. The first two may
 * be arrays of int. */
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

/* 1 if mpi.h declares functions with large counts, such as MPI_Pack_c. */
#if OMPI_MAJOR_VERSION >= 6
#define GPURING_LARGE_COUNTS 1
#else
#define GPURING_LARGE_COUNTS 0
#endif

/*
 * The beginning of a request of a non-blocking or persistent collective. After such a call, Open
 * MPI stores references to user-defined datatypes and operations in the request, after
 * ompi_request_t. The call must set these fields to NULL. The structure is
 * ompi_coll_base_nbc_request_t, whose header needs files that are not installed (40 bytes in 4.1,
 * 48 in 5.0).
 */
struct gpuring_collective_request {
    ompi_request_t super;
    void *for_open_mpi[16];
};

/* A number of the communicator for log messages. With 4.1 it is equal on all ranks; with later
 * versions it is local to the process. */
#if OMPI_MAJOR_VERSION >= 5
#define GPURING_COMM_ID(comm) ((unsigned) ompi_comm_get_local_cid(comm))
#else
#define GPURING_COMM_ID(comm) ((unsigned) ompi_comm_get_cid(comm))
#endif

/*
 * Return true if Open MPI itself may have made this call of MPI_Iallreduce. To agree on the number
 * of a new communicator, Open MPI makes such calls on the old one, always with one MPI_INT
 * (ompi_comm_nextcid_nb, ompi_comm_activate_nb). For MPI_Comm_idup they are made by the progress
 * engine, at a different point among the application's calls on each rank. The result is equal on
 * all ranks.
 */
static inline bool gpuring_compat_internal(gpuring_count_t count,
                                           const struct ompi_datatype_t *type,
                                           const struct ompi_op_t *op)
{
    return count == 1 && type == MPI_INT && (op == MPI_MAX || op == MPI_MIN);
}

/* Return the same for MPI_Ibcast. On the groups of intercommunicators, Open MPI uses MPI_Ireduce
 * and then MPI_Ibcast of its result. The test uses the size because the application's ranks may
 * use different datatypes in a broadcast, but the size is equal on all ranks. */
static inline bool gpuring_compat_internal_bcast(gpuring_count_t count,
                                                 const struct ompi_datatype_t *type)
{
    return (size_t) count * type->super.size == sizeof(int);
}

/*
 * Publish a word of this process for all processes of its job, before MPI_Init exchanges addresses,
 * and read the word of another process. published returns false if the word is unknown. This is
 * always the case with Open MPI 5.0 and later, whose exchange needs a library that components do
 * not link.
 */
void gpuring_compat_publish(uint32_t word);
bool gpuring_compat_published(struct ompi_communicator_t *comm, int rank, uint32_t *word);

/* Return the rank in MPI_COMM_WORLD of a process of this job, or -1 if it belongs to another job.
 * `rank` is a rank that messages are sent to, in the remote group of an intercommunicator. */
static inline int gpuring_compat_world_rank(struct ompi_communicator_t *comm, int rank)
{
    opal_process_name_t name = ompi_group_get_proc_name(comm->c_remote_group, rank);

    return name.jobid == ompi_proc_local()->super.proc_name.jobid ? (int) name.vpid : -1;
}

/* Return the lowest tag that the PML transmits. The largest tag of mtl/portals4 has all of its 24
 * bits, so that its lower negative tags are the same as small positive ones. */
static inline int gpuring_compat_lowest_tag(void)
{
    return mca_pml.pml_max_tag == (1 << 24) - 1 ? 1 - (1 << 23) : -mca_pml.pml_max_tag;
}

/*
 * Open MPI's non-blocking collectives count their tags down from NONBLOCKING_BASE to -2^30, also if
 * the PML transmits fewer (ucx: down to -2^23). This component uses the tags below `lowest`. When
 * Open MPI's tags reach it, continue at half of it, and not at the first tag: persistent calls keep
 * their tags, and are mostly made early. Call this before each non-blocking collective of another
 * component. All ranks make the same calls, so all of them recycle tags before the same one.
 */
static inline void gpuring_compat_recycle_tags(struct ompi_communicator_t *comm, int lowest)
{
    if (OPAL_UNLIKELY(comm->c_nbc_tag <= lowest)) {
        comm->c_nbc_tag = lowest / 2;
    }
}

/* Return true between MPI_Init and MPI_Finalize. A program that uses only sessions has neither
 * MPI_COMM_WORLD nor MPI_COMM_SELF. */
bool gpuring_compat_world_exists(void);

/* Fault tolerance (5.0 and later). Return MPI_SUCCESS if a message may arrive from this rank (or
 * MPI_ANY_SOURCE), otherwise the MPI error. */
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

/* Fault tolerance. Return true after MPIX_Comm_revoke, when no message arrives any longer. */
static inline bool gpuring_compat_revoked(struct ompi_communicator_t *comm)
{
#if OPAL_ENABLE_FT_MPI
    return ompi_comm_is_revoked(comm);
#else
    (void) comm;
    return false;
#endif
}

/* Return true if a request with this error code has failed. After MPI_ERR_PROC_FAILED_PENDING a
 * receive from any rank may continue to wait. */
static inline bool gpuring_compat_failed(int code)
{
#if OPAL_ENABLE_FT_MPI
    return code != MPI_SUCCESS && code != MPI_ERR_PROC_FAILED_PENDING;
#else
    return code != MPI_SUCCESS;
#endif
}

/* Let MPI_Finalize call a function at its beginning, while MPI works. Returns false if MPI cannot.
 */
bool gpuring_compat_on_finalize(void (*function)(void));

/*
 * Let MPI_Comm_free of this communicator call function(argument) before it releases the
 * communicator. The function must not wait for other processes. Does nothing for MPI_COMM_WORLD,
 * which is never freed. After an error, the function is never called. open, close: when the
 * component is opened and closed. MPI may be used again later.
 */
void gpuring_compat_on_free_open(void (*function)(void *));
void gpuring_compat_on_free(struct ompi_communicator_t *comm, void *argument);
void gpuring_compat_on_free_close(void);

/* Return a hash of the names of a communicator's processes, in the order of their ranks. */
uint64_t gpuring_compat_processes(struct ompi_communicator_t *comm);

/* Return the host of a rank of the communicator, for log messages. Never NULL. */
const char *gpuring_compat_host(struct ompi_communicator_t *comm, int rank);

/* Return the component of a module, such as "coll/tuned", for log messages. The next call
 * overwrites the text. */
const char *gpuring_compat_component(const mca_coll_base_module_t *module);

/* Return true if Open MPI itself accepts GPU buffers in point-to-point calls: it was built with
 * CUDA and has selected the PML ob1. Other PMLs, such as UCX, may accept them, too, but this is not
 * checked. */
bool gpuring_compat_cuda_aware(void);

/* Return the MPI error code of a negative gpuring_status, or MPI_SUCCESS for 0. The code belongs to
 * an error class of MPI, and its string states the cause (compat_error.c). Threads: any. */
int gpuring_compat_error_code(int status);
static inline int gpuring_compat_error(int status)
{
    return status == 0 ? MPI_SUCCESS : gpuring_compat_error_code(status);
}
/* Forget the codes, because MPI_Finalize frees them. New codes are created if MPI is used again. */
void gpuring_compat_errors_forget(void);

/*
 * Print a topic of help-mpi-coll-gpuring.txt, formatted like printf. If Open MPI would not find the
 * file, print the text that is compiled in. Open MPI 5.0 aggregates the texts of a job. With 4.1,
 * and for texts that are compiled in, the processes of a job print equal texts once per node,
 * because mpirun 4.1.4 loses some texts of opal_show_help that two processes send at the same time
 * ("Data unpack would read past end of buffer").
 */
void gpuring_compat_help(const char *topic, ...);

#endif
