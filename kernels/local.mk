# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# The executor of plans. Host build: part of libgpuring_core. CUDA build (GPURING_HAVE_CUDA): one
# fatbin by nvcc, embedded into the component by kernels/image.c.

libgpuring_core_la_SOURCES += \
    kernels/exec_host.c \
    kernels/exec_memory.h \
    kernels/executor.h \
    kernels/fold.c \
    kernels/fold.h \
    kernels/fold_avx2.c \
    kernels/fold_avx512.c \
    kernels/fold_body.h \
    kernels/image.c \
    kernels/image.h \
    kernels/kernels.h \
    kernels/types.c \
    kernels/types.h \
    kernels/work.h

# All architectures that configure chose, two at a time. -fmad=false: a sum and a product are rounded
# each, as on the host.
NVCC_COMPILE = $(NVCC) -std=c++17 -O3 -fmad=false -Werror all-warnings \
    -I$(top_srcdir) -I$(top_builddir) $(NVCCFLAGS)
NVCC_IMAGE = $(GPURING_CUDA_GENCODE) --threads 2 -Xfatbin -compress-all -fatbin
AM_V_NVCC = $(am__v_NVCC_@AM_V@)
am__v_NVCC_ = $(am__v_NVCC_@AM_DEFAULT_V@)
am__v_NVCC_0 = @echo "  NVCC    " $@;
am__v_NVCC_1 =

kernel_sources = \
    kernels/block.h \
    kernels/exec_cuda.h \
    kernels/kernels.cu \
    kernels/reduce.h
EXTRA_DIST += $(kernel_sources) kernels/report.sh

kernel_headers = kernels/executor.h kernels/image.h kernels/kernels.h kernels/types.h \
    kernels/work.h mca/coll_gpuring/plan/step.h mca/coll_gpuring/transport/fifo.h

if GPURING_HAVE_CUDA
kernels/kernels.fatbin: $(kernel_sources) $(kernel_headers)
	@$(MKDIR_P) kernels
	$(AM_V_NVCC)$(NVCC_COMPILE) $(NVCC_IMAGE) -o $@ $(srcdir)/kernels/kernels.cu
# By a variable: automake would take a plain target for a rule that replaces its own.
kernel_image_object = kernels/libgpuring_core_la-image.lo
$(kernel_image_object): kernels/kernels.fatbin
CLEANFILES += kernels/kernels.fatbin
endif
