# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors

# GPURING_PKG(VARIABLE, MODULE, WITH-VALUE): look MODULE up by pkg-config, below the folder
# WITH-VALUE if it is one; sets VARIABLE_CPPFLAGS, VARIABLE_LIBS and gpuring_found=yes|no.
AC_DEFUN([GPURING_PKG], [
    gpuring_found=no
    gpuring_save_path=$PKG_CONFIG_PATH
    AS_CASE([$3], [yes|no|auto], [], [
        PKG_CONFIG_PATH=$3/lib/pkgconfig:$3/lib64/pkgconfig:$3/share/pkgconfig:$PKG_CONFIG_PATH
        export PKG_CONFIG_PATH])
    AC_MSG_CHECKING([for $2])
    AS_IF([$PKG_CONFIG --exists "$2" 2>/dev/null], [
        gpuring_found=yes
        gpuring_flags=`$PKG_CONFIG --cflags "$2"`
        $1_CPPFLAGS=`GPURING_SYSTEM_INCLUDES([$gpuring_flags])`
        $1_LIBS=`$PKG_CONFIG --libs "$2"`])
    AC_MSG_RESULT([$gpuring_found])
    PKG_CONFIG_PATH=$gpuring_save_path
    AC_SUBST([$1_CPPFLAGS])
    AC_SUBST([$1_LIBS])
])

# GPURING_WITH(name, help, default): a --with option with a default; sets with_NAME.
AC_DEFUN([GPURING_WITH], [
    AC_ARG_WITH([$1], [AS_HELP_STRING([--with-$1@<:@=DIR@:>@], [$2])], [], [with_$1=$3])])

# Both are required: the topology engine discovers the machine with hwloc and reads files with expat.
AC_DEFUN([GPURING_CHECK_HWLOC], [
    GPURING_WITH([hwloc], [hwloc 2.0 or later, installed below DIR], [yes])
    AS_IF([test "$with_hwloc" = no],
          [AC_MSG_ERROR([hwloc is required: it finds the machine's CPUs, GPUs and NICs])])
    GPURING_PKG([HWLOC], [hwloc >= 2.0], [$with_hwloc])
    AS_IF([test "$gpuring_found" = no], [AC_MSG_ERROR([
  hwloc 2.0 or later was not found. Debian: apt-get install libhwloc-dev; elsewhere: --with-hwloc=DIR])])
])

AC_DEFUN([GPURING_CHECK_EXPAT], [
    GPURING_WITH([expat], [expat, installed below DIR], [yes])
    GPURING_PKG([EXPAT], [expat >= 2.1], [$with_expat])
    AS_IF([test "$gpuring_found" = no], [AC_MSG_ERROR([
  expat was not found. Debian: apt-get install libexpat1-dev; elsewhere: --with-expat=DIR])])
])

# Required by the tools (JSON output).
AC_DEFUN([GPURING_CHECK_JANSSON], [
    GPURING_WITH([jansson], [jansson, installed below DIR], [yes])
    GPURING_PKG([JANSSON], [jansson >= 2.7], [$with_jansson])
    AS_IF([test "$gpuring_found" = no], [AC_MSG_ERROR([
  jansson was not found. Debian: apt-get install libjansson-dev; elsewhere: --with-jansson=DIR])])
])

# GPURING_OPTIONAL(VARIABLE, name): stop if the user requested a library that was not found. Sets
# GPURING_HAVE_VARIABLE to 0 or 1, and the conditional with that name.
AC_DEFUN([GPURING_OPTIONAL], [
    AS_CASE([$with_$2:$gpuring_found],
        [no:*|auto:no], [GPURING_HAVE_$1=0],
        [*:no], [AC_MSG_ERROR([--with-$2 was given, but $2 was not found])],
        [GPURING_HAVE_$1=1])
    AM_CONDITIONAL([GPURING_HAVE_$1], [test "$GPURING_HAVE_$1" = 1])
    AC_SUBST([GPURING_HAVE_$1])
])

AC_DEFUN([GPURING_CHECK_VERBS], [
    GPURING_WITH([verbs], [net verbs, with libibverbs installed below DIR (default: if found)], [auto])
    gpuring_found=no
    AS_IF([test "$with_verbs" != no], [GPURING_PKG([VERBS], [libibverbs], [$with_verbs])])
    GPURING_OPTIONAL([VERBS], [verbs])
])

AC_DEFUN([GPURING_CHECK_UCX], [
    GPURING_WITH([ucx], [net ucx, with UCX installed below DIR (default: if found)], [auto])
    gpuring_found=no
    AS_IF([test "$with_ucx" != no], [GPURING_PKG([UCX], [ucx >= 1.10], [$with_ucx])])
    GPURING_OPTIONAL([UCX], [ucx])
])

# Only used by `make check`.
AC_DEFUN([GPURING_CHECK_CMOCKA], [
    with_cmocka=auto
    GPURING_PKG([CMOCKA], [cmocka >= 1.1], [auto])
    GPURING_OPTIONAL([CMOCKA], [cmocka])
])
