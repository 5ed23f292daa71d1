# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# The PTX interpreter, which is part of the stand-in driver and of unit tests.

check_LTLIBRARIES += test/ptx/libptx.la
test_ptx_libptx_la_SOURCES = \
    test/ptx/ptx.h \
    test/ptx/ptx_alu.c \
    test/ptx/ptx_clock.c \
    test/ptx/ptx_clock.h \
    test/ptx/ptx_code.h \
    test/ptx/ptx_count.c \
    test/ptx/ptx_decode.c \
    test/ptx/ptx_late.c \
    test/ptx/ptx_lex.c \
    test/ptx/ptx_lex.h \
    test/ptx/ptx_machine.h \
    test/ptx/ptx_memory.c \
    test/ptx/ptx_parse.c \
    test/ptx/ptx_parser.h \
    test/ptx/ptx_program.c \
    test/ptx/ptx_race.c \
    test/ptx/ptx_run.c \
    test/ptx/ptx_symbols.c \
    test/ptx/ptx_sync.c \
    test/ptx/ptx_warp.c \
    test/ptx/ptx_weak.c \
    test/ptx/ptx_weak.h \
    test/ptx/ptx_weak_agents.c \
    test/ptx/ptx_weak_buffer.c \
    test/ptx/ptx_weak_state.h

.PHONY: check-mutants
if GPURING_HAVE_CUDA
# The PTX of the kernels: the one that machine code is compiled from, if it is for this architecture.
check_DATA += test/ptx/kernels.ptx
CLEANFILES += test/ptx/kernels.ptx
test/ptx/kernels.ptx: kernels/kernels.compute_$(GPURING_CUDA_PTX).ptx
	@$(MKDIR_P) test/ptx
	@cp $< $@

# Programs that run the kernels on memory that guarantees only the order of PTX.
check_PROGRAMS += test/ptx/memory_order test/ptx/move_order
test_ptx_move_order_SOURCES = test/ptx/move_order.c
test_ptx_move_order_LDADD = test/ptx/libptx.la libgpuring_core.la -lpthread -lm
test_ptx_memory_order_SOURCES = test/ptx/memory_order.c test/ptx/memory_order.h \
    test/ptx/memory_order_cases.c test/unit/fabric.c test/unit/plans.c
test_ptx_memory_order_CPPFLAGS = -I$(top_srcdir)/test/gpu/plain $(AM_CPPFLAGS)
test_ptx_memory_order_LDADD = test/ptx/libptx.la libgpuring_core.la -lpthread -lm
TESTS += test/ptx/test_memory_order.sh

# Check that each fence or barrier that is removed from the kernels is detected. Not a part of `make check`.
# MUTANTS: arguments of mutants.py.
check-mutants: test/ptx/memory_order
	$(AM_V_NVCC)$(NVCC_COMPILE) -lineinfo -arch=compute_$(GPURING_CUDA_PTX) -ptx \
	    -o test/ptx/kernels_lines.ptx $(srcdir)/kernels/kernels.cu
	python3 $(srcdir)/test/ptx/mutants.py test/ptx/kernels_lines.ptx test/ptx/memory_order \
	    $(MUTANTS)
CLEANFILES += test/ptx/kernels_lines.ptx
endif
EXTRA_DIST += test/ptx/test_memory_order.sh test/ptx/mutants.py
