# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# The stand-in CUDA driver, libcuda.so.1: for tests only, never installed.

standin_sources = \
    test/standin/context.c \
    test/standin/execution.c \
    test/standin/faults.c \
    test/standin/ipc.c \
    test/standin/kernel.c \
    test/standin/memory.c \
    test/standin/memory.h \
    test/standin/standin.h

if GPURING_HAVE_CUDA
check_LTLIBRARIES += test/standin/libcuda.la
test_standin_libcuda_la_SOURCES = $(standin_sources)
test_standin_libcuda_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
test_standin_libcuda_la_LDFLAGS = $(AM_LDFLAGS) -shared -version-info 1:0:0 -rpath /nowhere
test_standin_libcuda_la_LIBADD = libgpuring_core.la -lpthread
endif
