# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# The GPU suite (run.sh) and its programs, which `make check` runs on the stand-in driver. They do not need
# cmocka, because plain/ replaces the parts of it that the shared files of the tests use.

gpu_sources = test/gpu/gpu.c test/gpu/gpu.h test/gpu/plain/cmocka.h $(exec_test_sources)
gpu_cppflags = -I$(top_srcdir)/test/gpu/plain $(AM_CPPFLAGS)

EXTRA_DIST += test/gpu/packages.txt test/gpu/python_arrays.py test/gpu/run.sh test/gpu/test_gpu_suite.sh \
    test/gpu/test_gpu_ptx.sh test/gpu/test_machine_code.sh
.PHONY: check-machine-code
if GPURING_HAVE_CUDA
TESTS += test/gpu/test_gpu_suite.sh test/gpu/test_gpu_ptx.sh test/gpu/test_machine_code.sh

# A part of `make check`, for the stage kernels of test/check.sh, which builds nothing else.
check-machine-code: kernels/kernels.fatbin
	$(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS=test/gpu/test_machine_code.sh check_PROGRAMS= \
	    check_LTLIBRARIES=

check_PROGRAMS += test/gpu/gpu_lanes test/gpu/gpu_bench test/gpu/gpu_allreduce \
    test/gpu/gpu_lines test/gpu/gpu_messages
test_gpu_gpu_lanes_SOURCES = test/gpu/gpu_lanes.c test/unit/collective_calls.c \
    test/unit/collective_calls.h $(gpu_sources)
test_gpu_gpu_lanes_CPPFLAGS = $(gpu_cppflags)
test_gpu_gpu_lanes_LDADD = libgpuring_core.la -lpthread -lm
test_gpu_gpu_lines_SOURCES = test/gpu/gpu_lines.c $(gpu_sources)
test_gpu_gpu_lines_CPPFLAGS = $(gpu_cppflags)
test_gpu_gpu_lines_LDADD = libgpuring_core.la -lpthread -lm
test_gpu_gpu_bench_SOURCES = test/gpu/gpu_bench.c $(gpu_sources)
test_gpu_gpu_bench_CPPFLAGS = $(gpu_cppflags)
test_gpu_gpu_bench_LDADD = libgpuring_core.la libpcigraph.la -lpthread -lm
test_gpu_gpu_allreduce_SOURCES = test/gpu/gpu_allreduce.c $(gpu_sources)
test_gpu_gpu_allreduce_CPPFLAGS = $(gpu_cppflags)
test_gpu_gpu_allreduce_LDADD = libgpuring_core.la $(mpi_test_libs) -lm
test_gpu_gpu_messages_SOURCES = test/gpu/gpu_messages.c $(gpu_sources)
test_gpu_gpu_messages_CPPFLAGS = $(gpu_cppflags)
test_gpu_gpu_messages_LDADD = libgpuring_core.la $(mpi_test_libs) -lm
endif
