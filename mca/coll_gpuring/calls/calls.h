/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The entries of the collectives that this component serves. */
#ifndef GPURING_CALLS_H
#define GPURING_CALLS_H

#include "mca/coll_gpuring/compat.h"

/* The entries: mca_coll_gpuring_<collective>, with the arguments of Open MPI's function type. */
int mca_coll_gpuring_allreduce(const void *sbuf, void *rbuf, gpuring_count_t count,
                               struct ompi_datatype_t *dtype, struct ompi_op_t *op,
                               struct ompi_communicator_t *comm, mca_coll_base_module_t *module);
int mca_coll_gpuring_iallreduce(const void *sbuf, void *rbuf, gpuring_count_t count,
                                struct ompi_datatype_t *dtype, struct ompi_op_t *op,
                                struct ompi_communicator_t *comm, ompi_request_t **request,
                                mca_coll_base_module_t *module);
int mca_coll_gpuring_allreduce_init(const void *sbuf, void *rbuf, gpuring_count_t count,
                                    struct ompi_datatype_t *dtype, struct ompi_op_t *op,
                                    struct ompi_communicator_t *comm, struct ompi_info_t *info,
                                    ompi_request_t **request, mca_coll_base_module_t *module);

#endif
