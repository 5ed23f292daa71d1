# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors

# GPURING_COMPILE_FLAG(VARIABLE, FLAG): append FLAG to VARIABLE if the compiler accepts it without a warning.
AC_DEFUN([GPURING_COMPILE_FLAG], [
    gpuring_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS $2 -Werror"
    AC_MSG_CHECKING([whether $CC accepts $2])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])],
                   [gpuring_flag_ok=yes], [gpuring_flag_ok=no])
    AC_MSG_RESULT([$gpuring_flag_ok])
    CFLAGS=$gpuring_save_CFLAGS
    AS_IF([test "$gpuring_flag_ok" = yes], [$1="$$1 $2"])
])

# GPURING_COMPILER: language level, warnings, sanitizers. Sets GPURING_CFLAGS, GPURING_LDFLAGS and
# GPURING_MODULE_LDFLAGS (for the loadable components).
AC_DEFUN([GPURING_COMPILER], [
    AC_ARG_ENABLE([werror],
        [AS_HELP_STRING([--enable-werror], [turn compiler warnings into errors])],
        [], [enable_werror=no])
    AC_ARG_ENABLE([sanitizers],
        [AS_HELP_STRING([--enable-sanitizers=LIST],
            [build with compiler sanitizers: address,undefined or thread])],
        [], [enable_sanitizers=no])

    GPURING_CFLAGS="-std=gnu11"
    GPURING_LDFLAGS=
    for gpuring_flag in -Wall -Wextra -Wmissing-prototypes -Wshadow -fno-strict-aliasing; do
        GPURING_COMPILE_FLAG([GPURING_CFLAGS], [$gpuring_flag])
    done
    AS_IF([test "$enable_werror" = yes], [GPURING_CFLAGS="$GPURING_CFLAGS -Werror"])

    # Starting "rep stos" takes longer than clearing a short structure. This saves 30 cycles per call.
    AS_CASE([$host_cpu], [x86_64],
            [GPURING_COMPILE_FLAG([GPURING_CFLAGS], [-mmemset-strategy=unrolled_loop:256:noalign,libcall:-1:noalign])])

    # Open MPI's lock-free lists use 16-byte compare-and-swap. Without the flag, the component loads
    # and then fails with an undefined symbol under MPI_THREAD_MULTIPLE.
    AS_CASE([$host_cpu], [x86_64], [GPURING_COMPILE_FLAG([GPURING_CFLAGS], [-mcx16])])

    AS_IF([test "$enable_sanitizers" != no], [
        AS_IF([test "$enable_sanitizers" = yes], [enable_sanitizers=address,undefined])
        gpuring_flag="-fsanitize=$enable_sanitizers"
        gpuring_flag_ok=no
        GPURING_COMPILE_FLAG([GPURING_LDFLAGS], [$gpuring_flag])
        AS_IF([test "$gpuring_flag_ok" = no],
              [AC_MSG_ERROR([the compiler does not take $gpuring_flag])])
        GPURING_CFLAGS="$GPURING_CFLAGS $gpuring_flag -fno-omit-frame-pointer"
        AS_CASE([$enable_sanitizers], [*undefined*],
                [GPURING_CFLAGS="$GPURING_CFLAGS -fno-sanitize-recover=undefined"])
    ])
    AM_CONDITIONAL([GPURING_SANITIZED], [test "$enable_sanitizers" != no])

    # Link a component to all of its libraries and resolve all symbols when it is loaded, so that a
    # missing symbol is not first reported in the middle of a job. With sanitizers, skip the check at
    # link time, because clang leaves the sanitizer's symbols to the executable.
    GPURING_MODULE_LDFLAGS="-avoid-version -shared -no-undefined -Wl,-z,now"
    AS_IF([test "$enable_sanitizers" = no],
          [GPURING_MODULE_LDFLAGS="$GPURING_MODULE_LDFLAGS -Wl,--no-undefined"])

    AC_SUBST([GPURING_CFLAGS])
    AC_SUBST([GPURING_LDFLAGS])
    AC_SUBST([GPURING_MODULE_LDFLAGS])
])
