# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors

# GPURING_CHECK_CUDA: find nvcc for the kernels. The driver is loaded at run time and not needed here.
# Sets NVCC, FATBINARY, CUDA_CPPFLAGS, GPURING_CUDA_ARCH (the list), GPURING_CUDA_SOURCES
# (ARCHITECTURE=architecture of the PTX that it is compiled from), GPURING_CUDA_FILES (the output
# files of nvcc), GPURING_CUDA_TEXTS (those with PTX), GPURING_CUDA_IMAGES (the options of fatbinary),
# GPURING_CUDA_PTX (the architecture of the tests' PTX), GPURING_CUDA_DRIVER (the oldest driver that
# loads the kernels).
AC_DEFUN([GPURING_CHECK_CUDA], [
    AC_ARG_WITH([cuda],
        [AS_HELP_STRING([--with-cuda@<:@=DIR@:>@],
            [CUDA toolkit below DIR (default: nvcc of the PATH, CUDA_HOME, /usr/local/cuda)])],
        [], [with_cuda=auto])
    AC_ARG_WITH([cuda-arch],
        [AS_HELP_STRING([--with-cuda-arch=LIST],
            [compute capabilities to build kernels for, such as 80,90 (default: the first of every
             major from 7.5 (CUDA 11: 8.0) on that nvcc knows); PTX for later ones is always added])],
        [], [with_cuda_arch=default])
    AC_ARG_VAR([NVCC], [CUDA compiler])
    AC_ARG_VAR([FATBINARY], [CUDA's program that puts images together])
    AC_ARG_VAR([NVCCFLAGS], [options for the CUDA compiler])

    GPURING_CUDA_ARCH=
    GPURING_CUDA_SOURCES=
    GPURING_CUDA_FILES=
    GPURING_CUDA_TEXTS=
    GPURING_CUDA_IMAGES=
    gpuring_found=no
    AS_IF([test "$with_cuda" != no], [
        AS_CASE([$with_cuda],
            [yes|auto], [gpuring_cuda_path=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin:/usr/local/cuda/bin],
            [gpuring_cuda_path=$with_cuda/bin])
        AC_PATH_PROG([NVCC], [nvcc], [], [$gpuring_cuda_path])
        AS_IF([test -n "$NVCC"], [GPURING_CHECK_NVCC])
        AS_IF([test "$gpuring_found" = yes], [
            AC_PATH_PROG([FATBINARY], [fatbinary], [],
                [`dirname "$NVCC"`:$gpuring_cuda_include/../bin:$gpuring_cuda_include/../../../bin:$gpuring_cuda_path])
            AS_IF([test -z "$FATBINARY"], [AC_MSG_ERROR([
  $NVCC works, but its companion fatbinary was not found beside it or in the PATH.
  Name its folder by FATBINARY=..., or use --without-cuda])])])
    ])
    GPURING_OPTIONAL([CUDA], [cuda])
    AS_IF([test "$GPURING_HAVE_CUDA" = 1], [GPURING_CUDA_TARGETS])
    AC_SUBST([CUDA_CPPFLAGS])
    AC_SUBST([GPURING_CUDA_ARCH])
    AC_SUBST([GPURING_CUDA_SOURCES])
    AC_SUBST([GPURING_CUDA_FILES])
    AC_SUBST([GPURING_CUDA_TEXTS])
    AC_SUBST([GPURING_CUDA_IMAGES])
    AC_SUBST([GPURING_CUDA_PTX])
    AC_SUBST([GPURING_CUDA_DRIVER])
])

# GPURING_CHECK_NVCC: check that nvcc works, and find the cuda.h that it includes. The location is
# taken from nvcc's output, because nvcc may be a link or a wrapper outside its toolkit. Sets
# gpuring_found, gpuring_cuda_include and CUDA_CPPFLAGS.
AC_DEFUN([GPURING_CHECK_NVCC], [
    AC_MSG_CHECKING([whether $NVCC works])
    AS_ECHO(['#include <cuda.h>
__global__ void gpuring_try(int *x) { *x = CUDA_VERSION; }']) >conftest.cu
    AS_IF([$NVCC $NVCCFLAGS -fatbin -o conftest.fatbin conftest.cu >&AS_MESSAGE_LOG_FD 2>&1], [
        gpuring_cuda_include=`$NVCC $NVCCFLAGS -M conftest.cu 2>&AS_MESSAGE_LOG_FD | tr ' ' '\n' |
            $SED -n 's,/cuda\.h$,,p' | $SED -n 1p`
        AS_IF([test -n "$gpuring_cuda_include"], [gpuring_found=yes])])
    rm -f conftest.cu conftest.fatbin
    AC_MSG_RESULT([$gpuring_found])
    AS_IF([test "$gpuring_found" = yes], [
        AS_CASE([$gpuring_cuda_include],
            [/usr/include], [],
            [CUDA_CPPFLAGS="-isystem `cd "$gpuring_cuda_include" && pwd -P`"])])
])

# GPURING_CUDA_TARGETS: select the architectures. A binary for the first capability of a major version
# runs on all devices of that major version.
AC_DEFUN([GPURING_CUDA_TARGETS], [
    # These follow NVIDIA's rules of minor version compatibility. 470 (CUDA 11.4) is the first driver
    # with all functions that we need.
    gpuring_cuda_release=`$NVCC --version | $SED -n 's/.*release \(@<:@0-9@:>@*\)\..*/\1/p'`
    AS_CASE([$gpuring_cuda_release],
        [11], [GPURING_CUDA_DRIVER=470],
        [12], [GPURING_CUDA_DRIVER=525],
        [13], [GPURING_CUDA_DRIVER=580],
        [GPURING_CUDA_DRIVER="of CUDA $gpuring_cuda_release"])
    # CUDA 11 has no bfloat16 arithmetic below 8.0.
    gpuring_cuda_oldest=75
    AS_IF([test "$gpuring_cuda_release" = 11], [gpuring_cuda_oldest=80])

    AC_MSG_CHECKING([for the architectures of the kernels])
    gpuring_cuda_known=`$NVCC --list-gpu-code 2>/dev/null | $SED -n 's/^sm_\(@<:@0-9@:>@*\)$/\1/p' |
        sort -n | tr '\n' ' '`
    AS_IF([test "$with_cuda_arch" = default], [
        gpuring_cuda_major=0
        for gpuring_arch in $gpuring_cuda_known; do
            AS_IF([test "$gpuring_arch" -ge $gpuring_cuda_oldest &&
                   test `expr $gpuring_arch / 10` -ne $gpuring_cuda_major], [
                gpuring_cuda_major=`expr $gpuring_arch / 10`
                GPURING_CUDA_ARCH="$GPURING_CUDA_ARCH $gpuring_arch"])
        done
    ], [
        for gpuring_arch in `AS_ECHO(["$with_cuda_arch"]) | tr -d . | tr ',;' '  '`; do
            AS_CASE([" $gpuring_cuda_known "],
                [*" $gpuring_arch "*], [GPURING_CUDA_ARCH="$GPURING_CUDA_ARCH $gpuring_arch"],
                [AC_MSG_ERROR([--with-cuda-arch: $NVCC does not know $gpuring_arch; it knows: $gpuring_cuda_known])])
        done
    ])
    gpuring_cuda_list=`AS_ECHO(["$GPURING_CUDA_ARCH"]) | tr ' ' '\n' | sort -n -u`
    GPURING_CUDA_ARCH=
    gpuring_cuda_source=
    gpuring_cuda_next=0
    for gpuring_arch in $gpuring_cuda_list; do
        AS_IF([test "$gpuring_arch" -lt $gpuring_cuda_oldest], [AC_MSG_ERROR([
  --with-cuda-arch: CUDA $gpuring_cuda_release does not build our kernels for $gpuring_arch, only from $gpuring_cuda_oldest on])])
        # The PTX differs from 8.0 on (bfloat16) and from 10.0 on (__CUDA_ARCH__). Between these, all
        # architectures are compiled from the PTX of the first one.
        AS_IF([test "$gpuring_arch" -ge $gpuring_cuda_next], [
            gpuring_cuda_source=$gpuring_arch
            AS_IF([test "$gpuring_arch" -lt 80], [gpuring_cuda_next=80],
                  [test "$gpuring_arch" -lt 100], [gpuring_cuda_next=100],
                  [gpuring_cuda_next=1000000])
            GPURING_CUDA_TEXTS="$GPURING_CUDA_TEXTS kernels/kernels.compute_$gpuring_arch.ptx"])
        GPURING_CUDA_ARCH="$GPURING_CUDA_ARCH $gpuring_arch"
        GPURING_CUDA_SOURCES="$GPURING_CUDA_SOURCES $gpuring_arch=$gpuring_cuda_source"
        GPURING_CUDA_FILES="$GPURING_CUDA_FILES kernels/kernels.sm_$gpuring_arch.cubin"
        GPURING_CUDA_IMAGES="$GPURING_CUDA_IMAGES --image3=kind=elf,sm=$gpuring_arch,file=kernels/kernels.sm_$gpuring_arch.cubin"
    done
    AS_IF([test -z "$gpuring_cuda_source"], [AC_MSG_ERROR([
  $NVCC knows no architecture from $gpuring_cuda_oldest on; name one by --with-cuda-arch, or use --without-cuda])])
    GPURING_CUDA_FILES="$GPURING_CUDA_FILES kernels/kernels.compute_$gpuring_cuda_source.ptx"
    GPURING_CUDA_IMAGES="$GPURING_CUDA_IMAGES --image3=kind=ptx,sm=$gpuring_cuda_source,file=kernels/kernels.compute_$gpuring_cuda_source.ptx"
    AC_MSG_RESULT([$GPURING_CUDA_ARCH, PTX $gpuring_cuda_source])
    # The PTX of the tests: their interpreter supports PTX for 9.0 and later.
    GPURING_CUDA_PTX=$gpuring_cuda_source
    AS_CASE([" $gpuring_cuda_known "],
        [*" 90 "*], [AS_IF([test "$GPURING_CUDA_PTX" -lt 90], [GPURING_CUDA_PTX=90])])
])
