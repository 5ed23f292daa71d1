/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Graphs of one kernel. As in a driver, parameters are copied when they are set, and the kernel of
 * an executable graph may be replaced by one of the same context. Its priority is that of the node,
 * whichever stream it is launched on. Graphs that an application has captured are made of tasks
 * instead (capture.c), and may be instantiated once.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/move.h"
#include "kernels/work.h"
#include "test/standin/standin.h"
#include "test/standin/task.h"

struct CUgraphNode_st {
    CUDA_KERNEL_NODE_PARAMS_v1 kernel;
    union {
        struct gpuring_work work;
        struct gpuring_move move;
    } parameter;
    int priority;
};

struct CUgraph_st {
    struct standin_owner owner;
    struct CUgraphNode_st node;
    bool has_node;
    bool captured;
    void *tasks; /* of a captured graph, until it is instantiated */
};

struct CUgraphExec_st {
    struct standin_owner owner;
    const struct CUgraphNode_st *of; /* its node in the graph */
    struct CUgraphNode_st node;
    bool captured;
    void *tasks;
};

CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
    STANDIN_ENTER(graph_create);
    STANDIN_NEED_CONTEXT();
    if (flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *graph = calloc(1, sizeof **graph);
    if (*graph == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    (*graph)->owner = standin_own();
    standin_count((*graph)->owner, STANDIN_GRAPH, 1);
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    STANDIN_NEED_CONTEXT();
    if (mode > CU_STREAM_CAPTURE_MODE_RELAXED || standin_captured() != NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    gpuring_standin_graph_begin(stream);
    return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    CUresult result;

    STANDIN_REFUSE_IF(standin_captured() != stream, CUDA_ERROR_INVALID_VALUE,
                      "the stream is not captured");
    result = cuGraphCreate(graph, 0);
    if (result == CUDA_SUCCESS) {
        (*graph)->captured = true;
        (*graph)->tasks = gpuring_standin_graph_end();
    }
    return result;
}

static CUresult destroy_graph(CUgraph graph)
{
    STANDIN_NEED_OWNER(graph->owner);
    gpuring_standin_graph_free(graph->tasks);
    standin_count(graph->owner, STANDIN_GRAPH, -1);
    free(graph);
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    STANDIN_RELEASE(graph_destroy, destroy_graph(graph));
}

static CUresult set(struct CUgraphNode_st *node, const CUDA_KERNEL_NODE_PARAMS_v1 *kernel)
{
    STANDIN_REFUSE_IF(!standin_kernel_owned(kernel->func), CUDA_ERROR_INVALID_HANDLE,
                      "the kernel was loaded in another context");
    node->kernel = *kernel;
    memcpy(&node->parameter, kernel->kernelParams[0],
           standin_kernel_moves(kernel->func) ? sizeof node->parameter.move
                                              : sizeof node->parameter.work);
    return CUDA_SUCCESS;
}

CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                              size_t nafter, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    STANDIN_ENTER(graph_kernel);
    STANDIN_NEED_OWNER(graph->owner);
    if (after != NULL || nafter != 0 || graph->has_node) {
        return CUDA_ERROR_INVALID_VALUE; /* the component makes no such graph */
    }
    graph->has_node = true;
    *node = &graph->node;
    return set(&graph->node, params);
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute,
                                       const CUkernelNodeAttrValue *value)
{
    STANDIN_ENTER(graph_attribute);
    STANDIN_NEED_CONTEXT();
    if (attribute != CU_KERNEL_NODE_ATTRIBUTE_PRIORITY) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    node->priority = value->priority;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph,
                                     unsigned long long flags)
{
    STANDIN_ENTER(graph_instantiate);
    STANDIN_NEED_OWNER(graph->owner);
    if (flags != 0 || !(graph->has_node || graph->captured)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *executable = calloc(1, sizeof **executable);
    if (*executable == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    (*executable)->owner = graph->owner;
    (*executable)->of = &graph->node;
    (*executable)->node = graph->node;
    (*executable)->captured = graph->captured;
    (*executable)->tasks = graph->tasks;
    graph->tasks = NULL;
    standin_count(graph->owner, STANDIN_GRAPH, 1);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    STANDIN_ENTER(graph_set);
    STANDIN_NEED_OWNER(executable->owner);
    STANDIN_REFUSE_IF(node != executable->of, CUDA_ERROR_INVALID_VALUE,
                      "the node is not of this graph");
    return set(&executable->node, params);
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream)
{
    void *arguments[] = {&executable->node.parameter};

    STANDIN_ENTER(graph_launch);
    STANDIN_NEED_OWNER(executable->owner);
    if (executable->captured) {
        gpuring_standin_graph_launch(executable->tasks, stream);
        return CUDA_SUCCESS;
    }
    executable->node.kernel.kernelParams = arguments;
    return standin_kernel_launch(stream, &executable->node.kernel, executable->node.priority);
}

static CUresult destroy_executable(CUgraphExec executable)
{
    STANDIN_NEED_OWNER(executable->owner);
    gpuring_standin_graph_free(executable->tasks);
    standin_count(executable->owner, STANDIN_GRAPH, -1);
    free(executable);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec executable)
{
    STANDIN_RELEASE(graph_end, destroy_executable(executable));
}
