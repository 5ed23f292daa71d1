/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Launches of kernels. The launch of a graph that consists of one kernel takes 1.2 to 1.5 us less
 * than cuLaunchKernel (doc/results/gpu.md, "Ways to launch"), so each stream has such a graph, and
 * sets the kernel's parameters before each launch. This does not affect earlier launches that have
 * not ended. Most communicators make few calls, which would not pay for the graph, so it is made by
 * a later launch. If the driver refuses anything, kernels are launched without a graph.
 */
#include "mca/coll_gpuring/device/cuda/cuda_internal.h"
#include "mca/coll_gpuring/util/log.h"

#define LAUNCHES_WITHOUT 16

/* Give the node the priority of the stream, which graphs do not use. */
static CUresult set_priority(const struct gpuring_stream *stream)
{
    const struct gpuring_cuda_driver *driver = stream->device->driver;
    CUkernelNodeAttrValue value = {.priority = 0};
    CUresult result = driver->stream_priority(stream->stream, &value.priority);

    return result == CUDA_SUCCESS
               ? driver->graph_attribute(stream->node, CU_KERNEL_NODE_ATTRIBUTE_PRIORITY, &value)
               : result;
}

static CUresult make_graph(struct gpuring_stream *stream, const CUDA_KERNEL_NODE_PARAMS_v1 *kernel)
{
    const struct gpuring_cuda_driver *driver = stream->device->driver;
    CUresult result;

    if (driver->stream_priority == NULL || driver->graph_create == NULL ||
        driver->graph_destroy == NULL || driver->graph_kernel == NULL ||
        driver->graph_attribute == NULL || driver->graph_instantiate == NULL ||
        driver->graph_set == NULL || driver->graph_launch == NULL || driver->graph_end == NULL) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    result = driver->graph_create(&stream->graph, 0);
    if (result == CUDA_SUCCESS) {
        result = driver->graph_kernel(&stream->node, stream->graph, NULL, 0, kernel);
    }
    if (result == CUDA_SUCCESS) {
        result = set_priority(stream);
    }
    return result == CUDA_SUCCESS ? driver->graph_instantiate(&stream->executable, stream->graph, 0)
                                  : result;
}

/* Prepare the stream's graph for a kernel. Return false if it must be launched without. */
static bool prepare_graph(struct gpuring_stream *stream, const CUDA_KERNEL_NODE_PARAMS_v1 *kernel)
{
    CUresult result = CUDA_SUCCESS;
    char text[256];

    if (stream->plain || (stream->executable == NULL && stream->launch_seq <= LAUNCHES_WITHOUT)) {
        return false;
    }
    if (stream->executable != NULL) {
        result = stream->device->driver->graph_set(stream->executable, stream->node, kernel);
    } else {
        result = make_graph(stream, kernel);
    }
    if (result != CUDA_SUCCESS) {
        stream->plain = true;
        gpuring_info("kernels are launched without a CUDA graph, which takes 1 to 2 us "
                     "longer: %s",
                     gpuring_cuda_error(stream->device->driver, result, text, sizeof text));
    }
    return !stream->plain;
}

CUresult gpuring_cuda_graph_launch(struct gpuring_stream *stream, CUfunction function,
                                   uint32_t blocks, uint32_t threads, const void *parameter)
{
    const struct gpuring_cuda_driver *driver = stream->device->driver;
    void *arguments[] = {(void *) (uintptr_t) parameter}; /* the driver copies it */
    CUDA_KERNEL_NODE_PARAMS_v1 kernel = {.func = function,
                                         .gridDimX = blocks,
                                         .gridDimY = 1,
                                         .gridDimZ = 1,
                                         .blockDimX = threads,
                                         .blockDimY = 1,
                                         .blockDimZ = 1,
                                         .kernelParams = arguments};

    return prepare_graph(stream, &kernel) ? driver->graph_launch(stream->executable, stream->stream)
                                          : driver->launch(function, blocks, 1, 1, threads, 1, 1, 0,
                                                           stream->stream, arguments, NULL);
}

void gpuring_cuda_graph_destroy(const struct gpuring_stream *stream)
{
    if (stream->executable != NULL) {
        (void) stream->device->driver->graph_end(stream->executable);
    }
    if (stream->graph != NULL) {
        (void) stream->device->driver->graph_destroy(stream->graph);
    }
}
