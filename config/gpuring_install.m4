# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors

# GPURING_VERSION_NUMBERS: split the version of AC_INIT into the three numbers that Open MPI requires.
AC_DEFUN([GPURING_VERSION_NUMBERS], [
    gpuring_numbers=`AS_ECHO(["$PACKAGE_VERSION"]) | $SED 's/@<:@^0-9.@:>@.*//'`
    GPURING_VERSION_MAJOR=`AS_ECHO(["$gpuring_numbers"]) | cut -d . -f 1`
    GPURING_VERSION_MINOR=`AS_ECHO(["$gpuring_numbers"]) | cut -d . -f 2`
    GPURING_VERSION_RELEASE=`AS_ECHO(["$gpuring_numbers"]) | cut -d . -f 3`
    AC_SUBST([GPURING_VERSION_MAJOR])
    AC_SUBST([GPURING_VERSION_MINOR])
    AC_SUBST([GPURING_VERSION_RELEASE])
])

# GPURING_INSTALL_DIRS: install the components in Open MPI's own folder, or below a given --prefix.
# Sets componentdir and GPURING_HELP_DIR.
AC_DEFUN([GPURING_INSTALL_DIRS], [
    AC_ARG_WITH([componentdir],
        [AS_HELP_STRING([--with-componentdir@<:@=DIR@:>@],
            [where the components go; without DIR, Open MPI's own folder (default: that, or, with
             --prefix, LIBDIR/openmpi)])],
        [], [with_componentdir=no])
    AS_IF([test "$gpuring_prefix_given" = NONE],
          [gpuring_final_prefix=$ac_default_prefix],
          [gpuring_final_prefix=$gpuring_prefix_given])
    AS_CASE([$with_componentdir:$gpuring_prefix_given],
        [yes:*|no:NONE], [componentdir=$GPURING_OMPI_COMPONENTDIR],
        [no:*], [componentdir='${libdir}/openmpi'],
        [componentdir=$with_componentdir])
    AC_SUBST([componentdir])
    AC_SUBST([GPURING_OMPI_COMPONENTDIR])

    # From 5.0 on, PMIx interprets Open MPI's component path as its own, unless PMIx's own path is
    # set. PMIx's parameter file may also set Open MPI's path (Debian). gpuring-run sets both.
    GPURING_PMIX_COMPONENTDIR=
    AS_CASE([$GPURING_OMPI_VERSION], [4.*], [], [
        GPURING_PMIX_COMPONENTDIR=`$PKG_CONFIG --variable=libdir pmix 2>/dev/null`
        AS_IF([test -d "$GPURING_PMIX_COMPONENTDIR/pmix"],
              [GPURING_PMIX_COMPONENTDIR=$GPURING_PMIX_COMPONENTDIR/pmix])])
    AC_SUBST([GPURING_PMIX_COMPONENTDIR])

    # The same folder as $(pkgdatadir), expanded for the compiler.
    gpuring_save_prefix=$prefix
    prefix=$gpuring_final_prefix
    eval gpuring_dir=\"$datarootdir\"
    eval gpuring_dir=\"$datadir\"
    eval GPURING_HELP_DIR=\"$gpuring_dir/$PACKAGE\"

    # Expand the folders that the summary prints.
    gpuring_save_exec_prefix=$exec_prefix
    AS_IF([test "$exec_prefix" = NONE], [exec_prefix=$prefix])
    eval gpuring_final_bindir=\"$bindir\"
    eval gpuring_dir=\"$componentdir\"
    eval gpuring_final_componentdir=\"$gpuring_dir\"
    exec_prefix=$gpuring_save_exec_prefix
    prefix=$gpuring_save_prefix
    AC_SUBST([GPURING_HELP_DIR])
])

# GPURING_SUMMARY: print what was found, and the consequence of each missing package.
AC_DEFUN([GPURING_SUMMARY], [
    AS_ECHO([""])
    AS_ECHO(["coll/gpuring $PACKAGE_VERSION is configured:"])
    AS_ECHO(["  Open MPI    $GPURING_OMPI_VERSION (component headers $gpuring_coll_headers)"])
    AS_ECHO(["  compiler    $CC $CFLAGS"])
    AS_ECHO(["  hwloc       `$PKG_CONFIG --modversion hwloc 2>/dev/null`"])
    AS_ECHO(["  expat       `$PKG_CONFIG --modversion expat 2>/dev/null`"])
    AS_IF([test "$GPURING_HAVE_CUDA" = 1],
        [AS_ECHO(["  CUDA        $NVCC; kernels for$GPURING_CUDA_ARCH and PTX $gpuring_cuda_source"])
         AS_ECHO(["              needs a driver of version $GPURING_CUDA_DRIVER or newer where it runs"])],
        [AS_ECHO(["  CUDA        no: GPU buffers are not served; host buffers are"])])
    AS_IF([test "$GPURING_HAVE_VERBS" = 1],
        [AS_ECHO(["  verbs       `$PKG_CONFIG --modversion libibverbs 2>/dev/null`"])],
        [AS_ECHO(["  verbs       no: no RDMA of our own between nodes; UCX is used if it is there"])])
    AS_IF([test "$GPURING_HAVE_UCX" = 1],
        [AS_ECHO(["  UCX         `$PKG_CONFIG --modversion ucx 2>/dev/null`"])],
        [AS_ECHO(["  UCX         no: no TCP between nodes; without RDMA, calls that span nodes fall back"])])
    AS_IF([test "$GPURING_HAVE_CMOCKA" = 1],
        [AS_ECHO(["  cmocka      `$PKG_CONFIG --modversion cmocka 2>/dev/null`"])],
        [AS_ECHO(["  cmocka      no: make check leaves the unit tests out (Debian: libcmocka-dev)"])])
    AS_IF([test "$enable_sanitizers" != no], [AS_ECHO(["  sanitizers  $enable_sanitizers"])])
    AS_ECHO(["  components  go to $gpuring_final_componentdir"])
    AS_IF([test "$gpuring_final_componentdir" != "$GPURING_OMPI_COMPONENTDIR"], [
        AS_ECHO(["              use: mpirun --mca mca_base_component_path $gpuring_final_componentdir:SYSTEM_DEFAULT:USER_DEFAULT"])])
    AS_ECHO(["  tools       go to $gpuring_final_bindir"])
    AS_ECHO([""])
    AS_ECHO(["  make, make check, make install; then $gpuring_final_bindir/gpuring-run -n 4 ./app"])
    AS_CASE([$gpuring_prefix_given], [NONE],
        [AS_ECHO(["  Without the right to write there: ./configure --prefix=\$HOME/.local"])])
])
