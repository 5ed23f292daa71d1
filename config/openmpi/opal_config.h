/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Replacement for the opal_config.h that the configure script of Open MPI generates, for builds
 * with the headers of a source tree (--with-openmpi-source). It defines the macros that the headers
 * for components test, for every release from 4.1 on, in four parts:
 *
 * - the options and the version of the installed Open MPI, from gpuring_openmpi.h, which our
 *   configure script generates;
 * - the properties of Linux with the GNU C library;
 * - the properties of the compiler, gcc or clang;
 * - defaults of Open MPI that no release has changed and that its configure script cannot change.
 *
 * Our configure script then compares the sizes of the resulting structures with those that the
 * installed library reports (GPURING_CHECK_STRUCTURES in config/gpuring_mpi.m4).
 */
#ifndef OPAL_CONFIG_H
#define OPAL_CONFIG_H

#include "gpuring_openmpi.h"

/* Linux */
#define HAVE_ARPA_INET_H             1
#define HAVE_INTTYPES_H              1
#define HAVE_NETDB_H                 1
#define HAVE_NETINET_IN_H            1
#define HAVE_NET_IF_H                1
#define HAVE_STRINGS_H               1
#define HAVE_SYS_PARAM_H             1
#define HAVE_SYS_SELECT_H            1
#define HAVE_SYS_SOCKET_H            1
#define HAVE_SYS_STAT_H              1
#define HAVE_SYS_TIME_H              1
#define HAVE_SYS_TYPES_H             1
#define HAVE_SYS_UIO_H               1
#define HAVE_SYS_UN_H                1
#define HAVE_UNISTD_H                1
#define HAVE_ASPRINTF                1
#define HAVE_SNPRINTF                1
#define HAVE_VASPRINTF               1
#define HAVE_VSNPRINTF               1
#define HAVE_UNIX_BYTESWAP           1
#define HAVE_CLOCK_GETTIME           1
#define HAVE_DECL_AF_INET6           1
#define HAVE_DECL_AF_UNSPEC          1
#define HAVE_DECL_PF_INET6           1
#define HAVE_DECL_PF_UNSPEC          1
#define HAVE_SOCKLEN_T               1
#define HAVE_STRUCT_SOCKADDR_IN      1
#define HAVE_STRUCT_SOCKADDR_IN6     1
#define HAVE_STRUCT_SOCKADDR_STORAGE 1
#define HAVE_INTPTR_T                1
#define HAVE_UINTPTR_T               1
#define HAVE_LONG_LONG               1

/* The compiler */
#define HAVE_DECL___FUNC__ 1
#define SIZEOF_BOOL        1
#define SIZEOF_SHORT       __SIZEOF_SHORT__
#define SIZEOF_INT         __SIZEOF_INT__
#define SIZEOF_LONG        __SIZEOF_LONG__
#define SIZEOF_LONG_LONG   __SIZEOF_LONG_LONG__
#define SIZEOF_FLOAT       __SIZEOF_FLOAT__
#define SIZEOF_DOUBLE      __SIZEOF_DOUBLE__
#define SIZEOF_LONG_DOUBLE __SIZEOF_LONG_DOUBLE__
#define SIZEOF_SIZE_T      __SIZEOF_SIZE_T__
#define SIZEOF_SSIZE_T     __SIZEOF_SIZE_T__
#define SIZEOF_PTRDIFF_T   __SIZEOF_PTRDIFF_T__
#define SIZEOF_VOID_P      __SIZEOF_POINTER__
#if defined(__SIZEOF_INT128__)
#define HAVE___INT128 1
#endif
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define WORDS_BIGENDIAN 1
#endif
#define OPAL_HAVE_ATTRIBUTE_ALIGNED            1
#define OPAL_HAVE_ATTRIBUTE_ALWAYS_INLINE      1
#define OPAL_HAVE_ATTRIBUTE_COLD               1
#define OPAL_HAVE_ATTRIBUTE_CONST              1
#define OPAL_HAVE_ATTRIBUTE_DESTRUCTOR         1
#define OPAL_HAVE_ATTRIBUTE_EXTENSION          1
#define OPAL_HAVE_ATTRIBUTE_FORMAT             1
#define OPAL_HAVE_ATTRIBUTE_HOT                1
#define OPAL_HAVE_ATTRIBUTE_MALLOC             1
#define OPAL_HAVE_ATTRIBUTE_MAY_ALIAS          1
#define OPAL_HAVE_ATTRIBUTE_NOINLINE           1
#define OPAL_HAVE_ATTRIBUTE_NONNULL            1
#define OPAL_HAVE_ATTRIBUTE_NORETURN           1
#define OPAL_HAVE_ATTRIBUTE_PACKED             1
#define OPAL_HAVE_ATTRIBUTE_PURE               1
#define OPAL_HAVE_ATTRIBUTE_SENTINEL           1
#define OPAL_HAVE_ATTRIBUTE_UNUSED             1
#define OPAL_HAVE_ATTRIBUTE_VISIBILITY         1
#define OPAL_HAVE_ATTRIBUTE_WARN_UNUSED_RESULT 1
#define OPAL_HAVE_ATTRIBUTE_WEAK_ALIAS         1
#define OPAL_C_HAVE_BUILTIN_EXPECT             1
#define OPAL_C_HAVE_BUILTIN_PREFETCH           1
#define OPAL_C_HAVE__THREAD_LOCAL              1
#define OPAL_C_HAVE___THREAD                   1
#define OPAL_HAVE___THREAD                     1
#define OPAL_HAVE_C__THREAD_LOCAL              1

/* Atomic operations. The inline functions of the headers operate on the data of the library. */
#if defined(__x86_64__)
#define OPAL_ASSEMBLY_ARCH                  OPAL_X86_64
#define OPAL_HAVE_SYNC_BUILTIN_CSWAP_INT128 1
#elif defined(__aarch64__)
#define OPAL_ASSEMBLY_ARCH OPAL_ARM64
#elif defined(__powerpc64__)
#define OPAL_ASSEMBLY_ARCH OPAL_POWERPC64
#endif
#define OPAL_ASSEMBLY_BUILTIN        OPAL_BUILTIN_GCC /* 4.1 */
#define OPAL_C_GCC_INLINE_ASSEMBLY   1
#define OPAL_USE_GCC_BUILTIN_ATOMICS 1 /* from 5.0 on */

/* Open MPI always defines these, and headers test whether they are defined. 4.1 */
#define OMPI_WANT_PERUSE 0

/* Parts of Open MPI that were selected when it was built. From 5.0 on */
#define MCA_threads_base_include_HEADER       "opal/mca/threads/pthreads/threads_pthreads_threads.h"
#define MCA_threads_mutex_base_include_HEADER "opal/mca/threads/pthreads/threads_pthreads_mutex.h"
#define MCA_threads_tsd_base_include_HEADER   "opal/mca/threads/pthreads/threads_pthreads_tsd.h"
/* 4.1 */
#define MCA_event_IMPLEMENTATION_HEADER "gpuring_event.h"
#define MCA_hwloc_IMPLEMENTATION_HEADER "opal/mca/hwloc/external/external.h"
#define MCA_hwloc_external_header       "hwloc.h"
#define MCA_hwloc_external_shmem_header "hwloc/shmem.h"
#define MCA_rte_IMPLEMENTATION_HEADER   "ompi/mca/rte/orte/rte_orte.h"
#define OMPI_RTE_ORTE                   1
#define OMPI_PROC_ENDPOINT_TAG_MAX      4 /* length of the last array of ompi_proc_t, unused here */
/* Our configure script refuses an Open MPI that calls one PML directly. */
#define MCA_ompi_pml_DIRECT_CALL 0
#define MCA_ompi_pml_DIRECT_CALL_COMPONENT
#define MCA_ompi_pml_DIRECT_CALL_HEADER ""

#include "opal_config_bottom.h"

#endif
