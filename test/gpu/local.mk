# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# The GPU suite (run.sh) and its programs, which `make check` tries on the stand-in driver. They need
# no cmocka: plain/ has what the tests' shared files use of it.

gpu_sources = test/gpu/gpu.c test/gpu/gpu.h test/gpu/plain/cmocka.h $(exec_test_sources)
gpu_cppflags = -I$(top_srcdir)/test/gpu/plain $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)

if GPURING_HAVE_CUDA
check_PROGRAMS += test/gpu/gpu_lanes
test_gpu_gpu_lanes_SOURCES = test/gpu/gpu_lanes.c $(gpu_sources)
test_gpu_gpu_lanes_CPPFLAGS = $(gpu_cppflags)
test_gpu_gpu_lanes_LDADD = libgpuring_core.la -lpthread -lm
endif
