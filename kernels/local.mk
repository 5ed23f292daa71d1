# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# The executor of plans. The host build is libgpuring_kernels, with the utilities that it needs, because the
# stand-in driver links only this library. The CUDA build (GPURING_HAVE_CUDA) is one fatbin by nvcc, which
# kernels/image.c embeds in the core.

noinst_LTLIBRARIES += libgpuring_kernels.la
libgpuring_kernels_la_LIBADD = -lpthread -lm
libgpuring_kernels_la_CPPFLAGS = $(base_cppflags)
# Sums and products are rounded separately on all processors.
libgpuring_kernels_la_CFLAGS = $(AM_CFLAGS) -ffp-contract=off
libgpuring_kernels_la_SOURCES = \
    kernels/exec_host.c \
    kernels/exec_host.h \
    kernels/exec_host_lines.h \
    kernels/exec_host_ll.c \
    kernels/exec_host_ll128.c \
    kernels/exec_host_simple.c \
    kernels/exec_memory.h \
    kernels/executor.h \
    kernels/fifo.h \
    kernels/copy.c \
    kernels/copy.h \
    kernels/fold.c \
    kernels/fold.h \
    kernels/fold_avx2.c \
    kernels/fold_avx512.c \
    kernels/fold_body.h \
    kernels/kernels.h \
    kernels/move.h \
    kernels/overlap.h \
    kernels/step.h \
    kernels/types.c \
    kernels/types.h \
    kernels/work.h \
    mca/coll_gpuring/util/backoff.c \
    mca/coll_gpuring/util/backoff.h \
    mca/coll_gpuring/util/clock.h \
    mca/coll_gpuring/util/hash.h \
    mca/coll_gpuring/util/list.h \
    mca/coll_gpuring/util/log.c \
    mca/coll_gpuring/util/log.h \
    mca/coll_gpuring/util/log_file.c \
    mca/coll_gpuring/util/log_file.h \
    mca/coll_gpuring/util/message.h \
    mca/coll_gpuring/util/pid.h \
    mca/coll_gpuring/util/status.c \
    mca/coll_gpuring/util/status.h

libgpuring_kernels_la_SOURCES += kernels/image.c kernels/image.h

# -fmad=false: sums and products are rounded separately, as on the host.
NVCC_COMPILE = $(NVCC) -std=c++17 -O3 -fmad=false -Werror all-warnings \
    -I$(top_srcdir) -I$(top_builddir) $(NVCCFLAGS)
AM_V_NVCC = $(am__v_NVCC_@AM_V@)
am__v_NVCC_ = $(am__v_NVCC_@AM_DEFAULT_V@)
am__v_NVCC_0 = @echo "  NVCC    " $@;
am__v_NVCC_1 =
AM_V_FATBIN = $(am__v_FATBIN_@AM_V@)
am__v_FATBIN_ = $(am__v_FATBIN_@AM_DEFAULT_V@)
am__v_FATBIN_0 = @echo "  FATBIN  " $@ "(architectures:$(GPURING_CUDA_ARCH))";
am__v_FATBIN_1 =

kernel_sources = \
    kernels/block.h \
    kernels/block_each.h \
    kernels/block_ll.h \
    kernels/block_ll128.h \
    kernels/block_move.h \
    kernels/exec_cuda.h \
    kernels/kernels.cu \
    kernels/reduce.h
EXTRA_DIST += $(kernel_sources) kernels/machine_code.py kernels/report.sh

kernel_headers = kernels/executor.h kernels/image.h kernels/kernels.h kernels/move.h kernels/types.h \
    kernels/overlap.h kernels/work.h kernels/step.h kernels/fifo.h

# nvcc compiles CUDA to PTX in one to four minutes, and PTX to the machine code of an architecture in one
# minute. Each file has a separate rule, so that make -j compiles several at the same time. fatbinary combines
# the files like nvcc -fatbin. Several architectures share PTX, so the kernels may compare __CUDA_ARCH__ only
# with the limits in config/gpuring_cuda.m4.
if GPURING_HAVE_CUDA
kernels/kernels.compute_%.ptx: $(kernel_sources) $(kernel_headers)
	@$(MKDIR_P) kernels
	$(AM_V_NVCC)$(NVCC_COMPILE) -arch=compute_$* -ptx -o $@ $(srcdir)/kernels/kernels.cu
kernels/kernels.sm_%.cubin: $(GPURING_CUDA_TEXTS)
	$(AM_V_NVCC)$(NVCC_COMPILE) -arch=sm_$* -cubin -o $@ \
	    kernels/kernels.compute_$(patsubst $*=%,%,$(filter $*=%,$(GPURING_CUDA_SOURCES))).ptx
kernels/kernels.fatbin: $(GPURING_CUDA_FILES)
	$(AM_V_FATBIN)$(FATBINARY) -64 -compress-all --create=$@ $(GPURING_CUDA_IMAGES)
.PRECIOUS: kernels/kernels.compute_%.ptx
CLEANFILES += kernels/kernels.compute_*.ptx kernels/kernels.sm_*.cubin
# Use a variable, because automake would take a plain target for a rule that replaces its own.
kernel_image_object = kernels/libgpuring_kernels_la-image.lo
$(kernel_image_object): kernels/kernels.fatbin
CLEANFILES += kernels/kernels.fatbin
endif
