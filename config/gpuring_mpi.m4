# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors

# GPURING_TRY_COLL_HEADERS(WHEN-OK, WHEN-NOT): compile Open MPI's component headers with
# $gpuring_mpi_flags.
AC_DEFUN([GPURING_TRY_COLL_HEADERS], [
    gpuring_save_CPPFLAGS=$CPPFLAGS
    gpuring_save_CFLAGS=$CFLAGS
    CPPFLAGS="$CPPFLAGS $gpuring_mpi_flags"
    CFLAGS="$CFLAGS $GPURING_CFLAGS"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
#include "ompi_config.h"
#include "mpi.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/mca/topo/base/base.h"
#include "ompi/communicator/communicator.h"
#include "ompi/request/request.h"
]], [])], [$1], [$2])
    CPPFLAGS=$gpuring_save_CPPFLAGS
    CFLAGS=$gpuring_save_CFLAGS
])

# GPURING_SYSTEM_INCLUDES(FLAGS): print FLAGS with every -I replaced by -isystem, which suppresses
# warnings in headers of other projects.
AC_DEFUN([GPURING_SYSTEM_INCLUDES], [AS_ECHO([" $1"]) | $SED 's/ -I *\//@%:@-isystem \//g; s/@%:@/ /g'])

# GPURING_CHECK_MPI: find Open MPI and the headers that components need. Sets MPI_CPPFLAGS, MPI_LIBS,
# GPURING_OMPI_VERSION, GPURING_OMPI_COMPONENTDIR, MPIRUN, OMPI_INFO. Open MPI is required.
AC_DEFUN([GPURING_CHECK_MPI], [
    AC_ARG_WITH([mpi],
        [AS_HELP_STRING([--with-mpi=DIR], [Open MPI installed below DIR (default: mpicc of the PATH)])],
        [], [with_mpi=yes])
    gpuring_mpi_path=$PATH
    AS_CASE([$with_mpi],
        [no], [AC_MSG_ERROR([coll/gpuring is a part of Open MPI: it cannot be built without it])],
        [yes], [],
        [AS_IF([test -x "$with_mpi/bin/mpicc"], [],
               [AC_MSG_ERROR([--with-mpi=$with_mpi: there is no $with_mpi/bin/mpicc])])
         gpuring_mpi_path=$with_mpi/bin])
    AC_PATH_PROG([GPURING_MPICC], [mpicc], [], [$gpuring_mpi_path])
    AC_PATH_PROG([MPIRUN], [mpirun], [], [$gpuring_mpi_path])
    AC_PATH_PROG([OMPI_INFO], [ompi_info], [], [$gpuring_mpi_path])
    AS_IF([test -z "$GPURING_MPICC" || test -z "$OMPI_INFO" || test -z "$MPIRUN"], [AC_MSG_ERROR([
  Open MPI was not found (mpicc, mpirun, ompi_info).
  Debian: apt-get install libopenmpi-dev openmpi-bin; elsewhere: --with-mpi=DIR])])

    AC_MSG_CHECKING([for the flags of Open MPI])
    MPI_CPPFLAGS=`$GPURING_MPICC --showme:compile 2>/dev/null`
    MPI_LIBS=`$GPURING_MPICC --showme:link 2>/dev/null`
    AS_IF([test -z "$MPI_LIBS"], [AC_MSG_ERROR([
  $GPURING_MPICC is not Open MPI's (it does not know --showme).
  Name an Open MPI by --with-mpi=DIR])])
    # The wrapper only names the library of Open MPI's portable layer if it is part of libmpi.
    gpuring_save_LIBS=$LIBS
    LIBS=$MPI_LIBS
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[int opal_output_open(void *);]], [[opal_output_open(0);]])],
                   [], [MPI_LIBS="$MPI_LIBS -lopen-pal"])
    LIBS=$gpuring_save_LIBS
    AC_MSG_RESULT([$MPI_CPPFLAGS $MPI_LIBS])

    AC_MSG_CHECKING([for the version of Open MPI])
    GPURING_OMPI_VERSION=`$OMPI_INFO --parsable --version ompi full 2>/dev/null |
        $SED -n 's/^ompi:version:full://p'`
    AS_IF([test -z "$GPURING_OMPI_VERSION"],
          [GPURING_OMPI_VERSION=`$OMPI_INFO --version | $SED -n 's/^Open MPI v//p'`])
    AC_MSG_RESULT([$GPURING_OMPI_VERSION])

    AC_MSG_CHECKING([for the component folder of Open MPI])
    GPURING_OMPI_COMPONENTDIR=`$OMPI_INFO --parsable --path pkglibdir 2>/dev/null |
        $SED -n 's/^path:pkglibdir://p'`
    AS_IF([test -z "$GPURING_OMPI_COMPONENTDIR"],
          [AC_MSG_ERROR([$OMPI_INFO --path pkglibdir did not answer])])
    AC_MSG_RESULT([$GPURING_OMPI_COMPONENTDIR])

    GPURING_OPENMPI_SOURCE
    GPURING_CHECK_COLL_HEADERS
    GPURING_CHECK_STRUCTURES
    MPI_CPPFLAGS=`GPURING_SYSTEM_INCLUDES([$gpuring_mpi_flags])`

    AC_SUBST([MPI_CPPFLAGS])
    AC_SUBST([MPI_LIBS])
    AC_SUBST([GPURING_OMPI_VERSION])
    AC_SUBST([GPURING_OMPI_COMPONENTDIR])
])

# GPURING_CHECK_COLL_HEADERS: find the component headers, and the additional flags that some releases
# need. Sets gpuring_mpi_flags.
AC_DEFUN([GPURING_CHECK_COLL_HEADERS], [
    AC_MSG_CHECKING([for the component headers of Open MPI])
    gpuring_mpi_flags=$MPI_CPPFLAGS
    gpuring_coll_headers=no
    # 5.0 and later: the headers use PMIx.
    gpuring_pmix_flags=`$PKG_CONFIG --cflags pmix 2>/dev/null`
    AS_IF([test "$gpuring_openmpi_source" != no], [
        gpuring_mpi_flags="$gpuring_source_flags $MPI_CPPFLAGS $HWLOC_CPPFLAGS $gpuring_pmix_flags"
        GPURING_TRY_COLL_HEADERS([gpuring_coll_headers="of $gpuring_openmpi_source"])
    ], [
        GPURING_TRY_COLL_HEADERS([gpuring_coll_headers="as installed"])
        AS_IF([test "$gpuring_coll_headers" = no], [
            gpuring_mpi_flags="$MPI_CPPFLAGS $gpuring_pmix_flags"
            GPURING_TRY_COLL_HEADERS([gpuring_coll_headers="with PMIx"])])
        AS_IF([test "$gpuring_coll_headers" = no], [
            # Debian's package lacks two headers of the thread library.
            gpuring_mpi_flags="$gpuring_mpi_flags -idirafter `cd "$srcdir" && pwd`/config"
            GPURING_TRY_COLL_HEADERS([gpuring_coll_headers="with PMIx and two of ours"])])
    ])
    AC_MSG_RESULT([$gpuring_coll_headers])
    AS_IF([test "$gpuring_coll_headers" = no], [AC_MSG_ERROR([
  There are no usable headers for components (config.log has the compiler's messages). Three ways:
  - Unpack the source archive of Open MPI $GPURING_OMPI_VERSION, which need not be built, and name the
    folder: --with-openmpi-source=DIR. Fedora, RHEL and most clusters do not install these headers.
  - Debian and Ubuntu have them in libopenmpi-dev.
  - Install Open MPI again, configured with --with-devel-headers.
  Those of Open MPI 5.0 and later need PMIx's headers as well (Debian: libpmix-dev, Fedora: pmix-devel).])])
])
