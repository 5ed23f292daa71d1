# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# The stand-in CUDA driver, libcuda.so.1. It is only for tests and never installed.

if GPURING_HAVE_CUDA
check_LTLIBRARIES += test/standin/libcuda.la
test_standin_libcuda_la_SOURCES = \
    test/standin/allocate.c \
    test/standin/capture.c \
    test/standin/context.c \
    test/standin/faults.c \
    test/standin/graph.c \
    test/standin/ipc.c \
    test/standin/kernel.c \
    test/standin/memory.c \
    test/standin/memory.h \
    test/standin/pointer.c \
    test/standin/ptx_driver.c \
    test/standin/standin.h \
    test/standin/stream.c \
    test/standin/task.c \
    test/standin/task.h \
    test/unit/block_threads.c \
    test/unit/block_threads.h
test_standin_libcuda_la_LDFLAGS = $(AM_LDFLAGS) -shared -version-info 1:0:0 -rpath /nowhere
test_standin_libcuda_la_LIBADD = test/ptx/libptx.la libgpuring_kernels.la -lpthread

# Further entry points for applications. This library loads the stand-in driver.
check_LTLIBRARIES += test/standin/libcuda_application.la
test_standin_libcuda_application_la_SOURCES = \
    test/standin/application/application.h \
    test/standin/application/device.c \
    test/standin/application/memory.c \
    test/standin/application/openmpi.c \
    test/standin/application/streams.c
test_standin_libcuda_application_la_LDFLAGS = \
    $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
test_standin_libcuda_application_la_LIBADD = test/standin/libcuda.la -lpthread -ldl
endif
