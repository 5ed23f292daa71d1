/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The memory that each collective reads and writes, in blocks (part.h) and in bytes. Arguments that
 * the MPI standard calls not significant are ignored. The part `in` of a buffer is copied to the
 * host before the call, and the part `out` is copied back after it.
 *
 * Some calls do not write all of their receive buffer (exscan on rank 0; neighbours that are
 * MPI_PROC_NULL). Copying `out` back must preserve the bytes that they leave unchanged, so these
 * bytes are in `in`, too.
 */
#include <stdint.h>
#include <sys/uio.h>

#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/stage/stage_call.h"
#include "mca/coll_gpuring/util/status.h"

typedef struct gpuring_description description_t;
typedef const struct gpuring_arguments arguments_t;

/* Return the number of ranks that a rank of this communicator exchanges data with. */
static int peers(arguments_t *a)
{
    return OMPI_COMM_IS_INTER(a->comm) ? ompi_comm_remote_size(a->comm) : ompi_comm_size(a->comm);
}

enum role { ROOT, OTHER, BYSTANDER };

static enum role role_of(arguments_t *a)
{
    if (OMPI_COMM_IS_INTER(a->comm)) {
        return a->root == MPI_ROOT ? ROOT : a->root == MPI_PROC_NULL ? BYSTANDER : OTHER;
    }
    return a->root == ompi_comm_rank(a->comm) ? ROOT : OTHER;
}

/* Return true if this rank exchanges data with the root, which may be this rank itself. The root
 * group of an intercommunicator does not. */
static bool is_served(arguments_t *a)
{
    enum role role = role_of(a);

    return role == OTHER || (role == ROOT && !OMPI_COMM_IS_INTER(a->comm));
}

/* Set a part, which must be zeroed, to n blocks with the arguments of the send or of the receive
 * side. The functions fill in the part in place, because copying it would have to wait for the
 * stores. */
static void sent(arguments_t *a, int n, struct gpuring_part *part)
{
    part->blocks = part->end = n;
    part->count = (size_t) a->scount;
    part->counts = a->scounts;
    part->displs = a->sdispls;
    part->addresses = a->saddresses;
    part->type = a->stype;
    part->types = a->stypes;
}

static void received(arguments_t *a, int n, struct gpuring_part *part)
{
    part->blocks = part->end = n;
    part->count = (size_t) a->rcount;
    part->counts = a->rcounts;
    part->displs = a->rdispls;
    part->addresses = a->raddresses;
    part->type = a->rtype;
    part->types = a->rtypes;
}

static void describe_bcast(description_t *d, arguments_t *a)
{
    enum role role = role_of(a);

    if (role == ROOT) {
        received(a, 1, &d->receive_in);
    } else if (role == OTHER) {
        received(a, 1, &d->receive_out);
    }
}

/* The input of a reduction: the send buffer, or the receive buffer in place. */
static void reduction_input(description_t *d, arguments_t *a, int n)
{
    received(a, n, a->sbuf == MPI_IN_PLACE ? &d->receive_in : &d->send);
}

static void describe_reduce(description_t *d, arguments_t *a)
{
    if (is_served(a)) {
        reduction_input(d, a, 1);
    }
    if (role_of(a) == ROOT) {
        received(a, 1, &d->receive_out);
    }
}

static void describe_allreduce(description_t *d, arguments_t *a)
{
    reduction_input(d, a, 1);
    received(a, 1, &d->receive_out);
}

static void describe_exscan(description_t *d, arguments_t *a)
{
    describe_allreduce(d, a);
    if (ompi_comm_rank(a->comm) == 0) {
        d->receive_in = d->receive_out;
    }
}

static void describe_reduce_local(description_t *d, arguments_t *a)
{
    received(a, 1, &d->receive_out);
    d->receive_in = d->receive_out;
    received(a, 1, &d->send);
}

/* MPI_Reduce_scatter and MPI_Reduce_scatter_block. */
static void describe_reduce_scatter(description_t *d, arguments_t *a)
{
    struct gpuring_part *own = &d->receive_out;

    reduction_input(d, a, ompi_comm_size(a->comm));
    received(a, 1, own);
    if (a->rcounts) {
        own->count = GPURING_COUNT_AT(a->rcounts, ompi_comm_rank(a->comm));
        own->counts = 0;
    }
}

/* The contribution of this rank to a gather: the send buffer, or in place its block of the receive
 * buffer. */
static void gather_input(description_t *d, arguments_t *a)
{
    if (a->sbuf == MPI_IN_PLACE) {
        received(a, peers(a), &d->receive_in);
        d->receive_in.first = ompi_comm_rank(a->comm);
        d->receive_in.end = d->receive_in.first + 1;
    } else {
        sent(a, 1, &d->send);
    }
}

/* This function and the following ones also describe the v and w variants. */
static void describe_allgather(description_t *d, arguments_t *a)
{
    received(a, peers(a), &d->receive_out);
    gather_input(d, a);
}

static void describe_gather(description_t *d, arguments_t *a)
{
    if (role_of(a) == ROOT) {
        received(a, peers(a), &d->receive_out);
    }
    if (is_served(a)) {
        gather_input(d, a);
    }
}

/* Each rank receives a block, except a root that keeps its block in place. */
static void describe_scatter(description_t *d, arguments_t *a)
{
    if (role_of(a) == ROOT) {
        sent(a, peers(a), &d->send);
    }
    if (is_served(a) && !(role_of(a) == ROOT && a->rbuf == MPI_IN_PLACE)) {
        received(a, 1, &d->receive_out);
    }
}

/* In place, received blocks replace the blocks that were sent. */
static void describe_alltoall(description_t *d, arguments_t *a)
{
    received(a, peers(a), &d->receive_out);
    if (a->sbuf == MPI_IN_PLACE) {
        d->receive_in = d->receive_out;
    } else {
        sent(a, peers(a), &d->send);
    }
}

/* Describe a neighbourhood collective. Blocks of missing neighbours (MPI_PROC_NULL) keep their
 * contents. If the number of neighbours is unknown, the call touches nothing. */
static void neighborhood(description_t *d, arguments_t *a, bool to_each)
{
    int sources, targets;

    if (mca_topo_base_neighbor_count(a->comm, &sources, &targets) == OMPI_SUCCESS) {
        sent(a, to_each ? targets : 1, &d->send);
        received(a, sources, &d->receive_out);
        d->receive_in = d->receive_out;
    }
}

static void describe_neighbor_allgather(description_t *d, arguments_t *a)
{
    neighborhood(d, a, false);
}

static void describe_neighbor_alltoall(description_t *d, arguments_t *a)
{
    neighborhood(d, a, true);
}

void gpuring_description_parts(description_t *d)
{
    static void (*const describe[GPURING_STAGED_COUNT])(description_t *, arguments_t *) = {
        [GPURING_STAGED_bcast] = describe_bcast,
        [GPURING_STAGED_reduce] = describe_reduce,
        [GPURING_STAGED_allreduce] = describe_allreduce,
        [GPURING_STAGED_scan] = describe_allreduce,
        [GPURING_STAGED_exscan] = describe_exscan,
        [GPURING_STAGED_reduce_scatter_block] = describe_reduce_scatter,
        [GPURING_STAGED_reduce_scatter] = describe_reduce_scatter,
        [GPURING_STAGED_allgather] = describe_allgather,
        [GPURING_STAGED_allgatherv] = describe_allgather,
        [GPURING_STAGED_gather] = describe_gather,
        [GPURING_STAGED_gatherv] = describe_gather,
        [GPURING_STAGED_scatter] = describe_scatter,
        [GPURING_STAGED_scatterv] = describe_scatter,
        [GPURING_STAGED_alltoall] = describe_alltoall,
        [GPURING_STAGED_alltoallv] = describe_alltoall,
        [GPURING_STAGED_alltoallw] = describe_alltoall,
        [GPURING_STAGED_neighbor_allgather] = describe_neighbor_allgather,
        [GPURING_STAGED_neighbor_allgatherv] = describe_neighbor_allgather,
        [GPURING_STAGED_neighbor_alltoall] = describe_neighbor_alltoall,
        [GPURING_STAGED_neighbor_alltoallv] = describe_neighbor_alltoall,
        [GPURING_STAGED_neighbor_alltoallw] = describe_neighbor_alltoall,
        [GPURING_STAGED_reduce_local] = describe_reduce_local,
        [GPURING_STAGED_barrier] = NULL, /* it has no buffers */
    };

    if (d->has_parts) {
        return;
    }
    d->send = (struct gpuring_part){.user = d->arguments.sbuf};
    d->receive_in = d->receive_out = (struct gpuring_part){.user = d->arguments.rbuf};
    d->has_parts = true;
    if (describe[d->what] != NULL) {
        describe[d->what](d, &d->arguments);
    }
}

/* ---- Parts ---- */

static ptrdiff_t extent_of(const struct ompi_datatype_t *type)
{
    return type->super.ub - type->super.lb;
}

bool gpuring_part_next(const struct gpuring_part *part, struct gpuring_block *block)
{
    int i = block->next++;

    if (i >= part->end) {
        return false;
    }
    if (!part->displs && !part->addresses && block->count > 0) {
        block->offset += (ptrdiff_t) block->count * extent_of(part->type);
    }
    block->count = part->counts ? GPURING_COUNT_AT(part->counts, i) : part->count;
    block->type = part->types != NULL ? part->types[i] : part->type;
    if (block->count == 0) {
        return true; /* the other arguments of an empty block are undefined */
    }
    if (part->addresses) {
        block->offset = GPURING_BYTE_DISPL_AT(part->addresses, i);
    } else if (part->displs) {
        block->offset =
            GPURING_DISPL_AT(part->displs, i) * (part->types != NULL ? 1 : extent_of(block->type));
    }
    return true;
}

/* Like gpuring_part_next, but skip blocks of which the call touches no byte. */
static bool next_touched(const struct gpuring_part *part, struct gpuring_block *block)
{
    while (gpuring_part_next(part, block)) {
        if (block->next > part->first && block->count > 0 && block->type->super.size > 0) {
            return true;
        }
    }
    return false;
}

static bool contiguous(const struct gpuring_block *block)
{
    return opal_datatype_is_contiguous_memory_layout(&block->type->super, block->count > 1 ? 2 : 1);
}

bool gpuring_part_contiguous(const struct gpuring_part *part)
{
    struct gpuring_block block = {.next = 0};

    if (gpuring_part_regular(part)) { /* one block decides for all */
        block.count = part->count;
        block.type = part->type;
        return part->end <= part->first || part->count == 0 || part->type->super.size == 0 ||
               contiguous(&block);
    }
    while (next_touched(part, &block)) {
        if (!contiguous(&block)) {
            return false;
        }
    }
    return true;
}

/* Add the pieces of one element to runs, in order. */
static int element_runs(const struct ompi_datatype_t *type, struct gpuring_runs *runs)
{
    opal_convertor_t convertor;
    struct iovec pieces[64];
    int done = 0, status = GPURING_OK;

    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &type->super, 1, NULL, 0,
                                             &convertor);
    while (!done && status == GPURING_OK) {
        uint32_t n = sizeof pieces / sizeof *pieces;
        size_t length = SIZE_MAX;

        done = opal_convertor_raw(&convertor, pieces, &n, &length);
        for (uint32_t i = 0; i < n && status == GPURING_OK; i++) {
            if (pieces[i].iov_len > 0) {
                status = gpuring_runs_add(runs, (ptrdiff_t) (intptr_t) pieces[i].iov_base,
                                          pieces[i].iov_len);
            }
        }
        done = done || n == 0;
    }
    OBJ_DESTRUCT(&convertor);
    gpuring_runs_end(runs);
    return status;
}

static int block_runs(const struct gpuring_block *block, struct gpuring_runs *runs)
{
    struct gpuring_runs element = {.count = 0};
    int status;

    if (contiguous(block)) {
        return gpuring_runs_add(runs, block->offset + block->type->super.true_lb,
                                block->count * block->type->super.size);
    }
    status = element_runs(block->type, &element);
    if (status == GPURING_OK) {
        status = gpuring_runs_repeat(runs, &element, block->offset, block->count,
                                     extent_of(block->type));
    }
    gpuring_runs_free(&element);
    return status;
}

int gpuring_part_runs(const struct gpuring_part *part, struct gpuring_runs *runs)
{
    struct gpuring_block block = {.next = 0};
    int status = GPURING_OK;

    while (status == GPURING_OK && next_touched(part, &block)) {
        status = block_runs(&block, runs);
    }
    gpuring_runs_end(runs);
    return status;
}

/* Find a byte on a GPU in a part whose datatypes contain addresses. If there is no memory for the
 * runs, return the first byte. The call is then staged, and fails when it needs the runs. */
static const void *find_any(const struct gpuring_part *part, ptrdiff_t first)
{
    struct gpuring_runs runs = {.count = 0};
    const void *found = NULL;

    if (gpuring_part_runs(part, &runs) != GPURING_OK) {
        found = gpuring_stage_address(MPI_BOTTOM, first);
    } else {
        for (size_t i = runs.count; i > 0; i--) {
            const void *address =
                gpuring_stage_address(MPI_BOTTOM, gpuring_runs_at(&runs, i - 1)->offset);

            found = gpuring_memory_on_gpu(address) ? address : found;
        }
    }
    gpuring_runs_free(&runs);
    return found;
}

const void *gpuring_part_find_on_gpu(const struct gpuring_part *part)
{
    struct gpuring_block block = {.next = 0};
    const void *address;
    ptrdiff_t offset;

    if (!next_touched(part, &block)) {
        return NULL;
    }
    offset = block.offset + block.type->super.true_lb;
    if (part->user == MPI_BOTTOM) {
        return find_any(part, offset);
    }
    address = gpuring_stage_address(part->user, offset);
    return gpuring_memory_on_gpu(address) ? address : NULL;
}

int gpuring_part_find_runs(const struct gpuring_part *part, const void **gpu,
                           struct gpuring_runs *runs)
{
    int status = GPURING_OK;

    if (*gpu == NULL) {
        *gpu = gpuring_part_find_on_gpu(part);
    }
    if (*gpu != NULL) {
        status = gpuring_part_runs(part, runs);
    }
    if (status != GPURING_OK) {
        gpuring_runs_free(runs);
    }
    return status;
}
