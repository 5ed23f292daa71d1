# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Component headers from a source tree of Open MPI, for installations without them. The tree's own
# configure script is not run: it takes minutes, needs the libraries that Open MPI was built with, and
# detects the properties of this machine instead of those of the installed library. Instead,
# config/openmpi/opal_config.h defines the macros that are equal in all installations, and this file
# adds the options that ompi_info and mpi.h report. A test program then compares the sizes of the
# structures with those in the installed library.

# GPURING_OPENMPI_SOURCE: --with-openmpi-source. Sets gpuring_openmpi_source to the folder or to
# "no", and gpuring_source_flags.
AC_DEFUN([GPURING_OPENMPI_SOURCE], [
    AC_ARG_WITH([openmpi-source],
        [AS_HELP_STRING([--with-openmpi-source=DIR],
            [an unpacked source tree of the same version of Open MPI, for its component headers,
             where they are not installed])],
        [], [with_openmpi_source=no])
    gpuring_openmpi_source=$with_openmpi_source
    AS_IF([test "$with_openmpi_source" != no], [
        GPURING_OPENMPI_SOURCE_VERSION
        GPURING_OPENMPI_OPTIONS
        gpuring_ours=`cd "$srcdir" && pwd`/config/openmpi
        gpuring_source_flags="-I`pwd`/config/openmpi -I$gpuring_ours -I$gpuring_openmpi_source/opal/include -I$gpuring_openmpi_source/ompi/include -I$gpuring_openmpi_source/orte/include -I$gpuring_openmpi_source"
    ])
])

# GPURING_OPENMPI_SOURCE_VERSION: the tree must have the version of the installed Open MPI.
AC_DEFUN([GPURING_OPENMPI_SOURCE_VERSION], [
    AC_MSG_CHECKING([for the version of Open MPI in $with_openmpi_source])
    AS_IF([test -f "$with_openmpi_source/VERSION" && test -f "$with_openmpi_source/ompi/mca/coll/coll.h"],
        [gpuring_openmpi_source=`cd "$with_openmpi_source" && pwd`],
        [AC_MSG_RESULT([none])
         AC_MSG_ERROR([
  --with-openmpi-source=$with_openmpi_source: this is not a source tree of Open MPI.
  Unpack the source archive of Open MPI $GPURING_OMPI_VERSION and name the folder openmpi-$GPURING_OMPI_VERSION.])])
    gpuring_numbers=`$SED -n 's/^\(major\|minor\|release\)=//p' "$gpuring_openmpi_source/VERSION" | paste -s -d .`
    gpuring_greek=`$SED -n 's/^greek=//p' "$gpuring_openmpi_source/VERSION"`
    AC_MSG_RESULT([$gpuring_numbers$gpuring_greek])
    AS_IF([test "$gpuring_numbers$gpuring_greek" != "$GPURING_OMPI_VERSION"], [AC_MSG_ERROR([
  --with-openmpi-source: the installed Open MPI is $GPURING_OMPI_VERSION, and the source tree is $gpuring_numbers$gpuring_greek.
  Components use internal structures, which differ between versions: unpack the source archive of $GPURING_OMPI_VERSION.])])
])

# GPURING_OPENMPI_OPTION(NAME, REGULAR-EXPRESSION): define NAME as 1 if a line of ompi_info matches.
AC_DEFUN([GPURING_OPENMPI_OPTION], [
    AS_IF([grep -q '$2' conftest.info], [gpuring_value=1], [gpuring_value=0])
    AS_ECHO(["#define $1 $gpuring_value"]) >>conftest.options
])

# GPURING_OPENMPI_OPTIONS: write config/openmpi/gpuring_openmpi.h below the build folder, with the
# values that mpi.h has been configured with and the options that ompi_info reports.
AC_DEFUN([GPURING_OPENMPI_OPTIONS], [
    AC_MSG_CHECKING([for the options of Open MPI])
    $OMPI_INFO --parsable --all >conftest.info 2>&AS_MESSAGE_LOG_FD
    AS_IF([grep -q '^option:debug:' conftest.info], [], [
        AC_MSG_RESULT([unknown])
        AC_MSG_ERROR([$OMPI_INFO --parsable --all does not report the options of Open MPI])])
    AS_IF([grep -q '^config:cli:.*enable-mca-direct' conftest.info], [
        AC_MSG_RESULT([--enable-mca-direct])
        AC_MSG_ERROR([
  --with-openmpi-source: this Open MPI was built with --enable-mca-direct. Its component headers are
  needed as they were installed: install it again with --with-devel-headers.])])
    AS_ECHO(['#include "mpi.h"']) >conftest.c
    $CC -E -dM $MPI_CPPFLAGS conftest.c 2>&AS_MESSAGE_LOG_FD |
        grep -E ['^#define (OPAL_(MAX|HAVE|C_HAVE|BUILD|STDC|SIZEOF)_|OMPI_(HAVE|MPI_AINT|MPI_OFFSET|MPI_COUNT|CXX|WANT_MPI)_|OMPI_(FORTRAN_STATUS_SIZE|OFFSET_DATATYPE|ENABLE_MPI1_COMPAT|PARAM_CHECK|BUILD_CXX_BINDINGS|(MAJOR|MINOR|RELEASE)_VERSION) |HAVE_[A-Z_]*__COMPLEX |ompi_fortran_|MPI_(SUB)?VERSION )'] |
        sort >conftest.options
    GPURING_OPENMPI_OPTION([OPAL_ENABLE_DEBUG], [^option:debug:yes])
    GPURING_OPENMPI_OPTION([OPAL_ENABLE_MEM_DEBUG], [^option:mem-debug:yes])
    GPURING_OPENMPI_OPTION([OMPI_GROUP_SPARSE], [^option:sparse:groups:yes])
    GPURING_OPENMPI_OPTION([OPAL_ENABLE_HETEROGENEOUS_SUPPORT], [^options:heterogeneous:yes])
    GPURING_OPENMPI_OPTION([OPAL_ENABLE_FT_CR], [^options:ft_support:yes])
    GPURING_OPENMPI_OPTION([OPAL_ENABLE_FT_MPI], [^options:ft_mpi_support:yes])
    GPURING_OPENMPI_OPTION([OPAL_ENABLE_CRDEBUG], [^options:crdebug_support:yes])
    GPURING_OPENMPI_OPTION([OPAL_CUDA_SUPPORT], [:opal_built_with_cuda_support:value:true])
    AS_MKDIR_P([config/openmpi])
    mv conftest.options config/openmpi/gpuring_openmpi.h
    gpuring_options=`$SED -n 's/^.define \(.*\) 1$/\1/p' config/openmpi/gpuring_openmpi.h |
        grep -E 'ENABLE_(DEBUG|MEM_DEBUG|HETERO|FT|CR)|GROUP_SPARSE|OPAL_CUDA' | tr '\n' ' '`
    rm -f conftest.c conftest.info
    AC_MSG_RESULT([${gpuring_options:-none that changes structures}])
])

# GPURING_CHECK_STRUCTURES: stop if the sizes of structures in the headers differ from those in the
# installed library. A class of Open MPI contains the size of its objects, and the symbol table
# contains the size of a variable.
AC_DEFUN([GPURING_CHECK_STRUCTURES], [
    AC_MSG_CHECKING([whether these headers fit the installed Open MPI])
    gpuring_save_CPPFLAGS=$CPPFLAGS
    gpuring_save_CFLAGS=$CFLAGS
    gpuring_save_LIBS=$LIBS
    CPPFLAGS="$CPPFLAGS -D_GNU_SOURCE $gpuring_mpi_flags"
    CFLAGS="$CFLAGS $GPURING_CFLAGS -fPIC"
    LIBS="$MPI_LIBS -ldl $LIBS"
    gpuring_save_path=$LD_LIBRARY_PATH
    LD_LIBRARY_PATH=`$OMPI_INFO --parsable --path libdir 2>/dev/null | $SED -n 's/^path:libdir://p'`${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
    rm -f conftest.sizes
    AC_RUN_IFELSE([AC_LANG_SOURCE([[
#include "ompi_config.h"
#include "mpi.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/mca/topo/base/base.h"
#include "ompi/communicator/communicator.h"
#include "ompi/group/group.h"
#include "ompi/proc/proc.h"
#include "ompi/request/request.h"
#include "ompi/message/message.h"
#include "ompi/datatype/ompi_datatype.h"
#include "opal/datatype/opal_convertor.h"
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

static FILE *report;

static void compare(const char *name, size_t declared, size_t installed)
{
    if (declared != installed) {
        fprintf(report, "    %s: %zu bytes in the headers, %zu in the library\n", name, declared, installed);
    }
}

static size_t symbol_size(const void *variable)
{
    const ElfW(Sym) *symbol = NULL;
    Dl_info info;

    return dladdr1(variable, &info, (void **) &symbol, RTLD_DL_SYMENT) != 0 && symbol != NULL ? symbol->st_size : 0;
}

int main(void)
{
    report = fopen("conftest.sizes", "w");
    if (report == NULL) {
        return 1;
    }
#define CLASS(type) compare(#type, sizeof(type), type##_class.cls_sizeof);
    CLASS(opal_object_t)
    CLASS(opal_mutex_t)
    CLASS(opal_list_item_t)
    CLASS(opal_list_t)
    CLASS(opal_free_list_item_t)
    CLASS(opal_lifo_t)
    CLASS(opal_free_list_t)
    CLASS(opal_datatype_t)
    CLASS(opal_convertor_t)
    CLASS(opal_proc_t)
    CLASS(ompi_datatype_t)
    CLASS(ompi_group_t)
    CLASS(ompi_communicator_t)
    CLASS(ompi_request_t)
    CLASS(ompi_message_t)
    CLASS(mca_coll_base_module_t)
    CLASS(mca_topo_base_module_t)
    compare("mca_pml", sizeof mca_pml, symbol_size(&mca_pml));
    compare("ompi_mpi_comm_world", sizeof ompi_mpi_comm_world, symbol_size(&ompi_mpi_comm_world));
    return fclose(report) != 0;
}
]])], [AS_IF([test -s conftest.sizes], [gpuring_headers_fit=no], [gpuring_headers_fit=yes])],
       [gpuring_headers_fit="the program did not run"], [gpuring_headers_fit="unknown (cross compiling)"])
    LD_LIBRARY_PATH=$gpuring_save_path
    CPPFLAGS=$gpuring_save_CPPFLAGS
    CFLAGS=$gpuring_save_CFLAGS
    LIBS=$gpuring_save_LIBS
    AC_MSG_RESULT([$gpuring_headers_fit])
    AS_CASE([$gpuring_headers_fit],
        [no], [
        gpuring_differences=`$SED 10q conftest.sizes`
        AC_MSG_ERROR([
  The component headers do not describe the installed Open MPI:
$gpuring_differences
  It was built with options that change its structures, from changed source, or the headers belong to
  another Open MPI. Install its own headers: configure Open MPI with --with-devel-headers.])],
        [yes], [],
        [AC_MSG_WARN([the sizes of the structures of Open MPI could not be compared with its headers])])
    rm -f conftest.sizes
])
