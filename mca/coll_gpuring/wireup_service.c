/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/wireup_service.h"

#include <stdlib.h>
#include <unistd.h>

#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/wireup_check.h"

static int param_or_auto(int value)
{
    return value - 1; /* auto is 0; the others follow the core's order */
}
_Static_assert(GPURING_PARAM_ALGORITHM_RING - 1 == (int) GPURING_ALGORITHM_RING &&
                   GPURING_PARAM_ALGORITHM_PACKED - 1 == (int) GPURING_ALGORITHM_PACKED &&
                   GPURING_PARAM_PROTOCOL_SIMPLE - 1 == (int) GPURING_PROTOCOL_SIMPLE &&
                   GPURING_PARAM_PROTOCOL_LL128 - 1 == (int) GPURING_PROTOCOL_LL128,
               "choices of the parameters in the order of the core");

int gpuring_wireup_service(const mca_coll_gpuring_module_t *module,
                           const struct gpuring_members *members,
                           const struct gpuring_layout *layout,
                           const struct gpuring_gathered *hellos, struct gpuring_service **service)
{
    struct gpuring_channel channels[GPURING_MAX_CHANNELS];
    struct gpuring_advice_places packed = {.count = 0};
    struct gpuring_service_config config = {
        .rank = module->rank,
        .nranks = module->nranks,
        .nnodes = members->nnodes,
        .nrings = layout->nrings,
        .ntrees = layout->ntrees,
        .channels = channels,
        .advice = layout->advice,
        .packed = &packed,
        .oversubscribed =
            gpuring_members_local(members, module->rank, NULL) > sysconf(_SC_NPROCESSORS_ONLN),
        .gpu = gpuring_process.gpu,
        .shared_gpu = gpuring_members_sharing(hellos, module->rank) > 1,
        .patience_us = gpuring_params.patience,
        .algorithm = param_or_auto(gpuring_params.algorithm),
        .protocol = param_or_auto(gpuring_params.protocol),
        .buffer_bytes = gpuring_params.buffer_size,
        .chunk_bytes = gpuring_params.chunk_size,
    };
    int status;

    gpuring_layout_channels(layout, module->rank, channels);
    if (layout->advice != NULL) {
        gpuring_advice_place(layout->advice, members, module->rank, &packed);
    }
    status = gpuring_service_create(&config, gpuring_process.device_ops, gpuring_process.device,
                                    service);
    if (status == GPURING_OK && gpuring_params.check == GPURING_PARAM_CHECK_PLANS) {
        status = gpuring_wireup_check_plans(layout);
    }
    return status;
}

int gpuring_wireup_letters(const struct gpuring_transport *transport,
                           struct ompi_communicator_t *comm, struct gpuring_letters *letters)
{
    int count = gpuring_transport_neighbours(transport), status;
    struct gpuring_transport_letter letter;
    size_t bytes = 0;

    for (int i = 0; i < count; i++) {
        gpuring_transport_letter(transport, i, &letter);
        bytes += letter.bytes + letter.room;
    }
    status = gpuring_letters_init(letters, comm, 2 * count, bytes);
    for (int i = 0; status == GPURING_OK && i < count; i++) {
        gpuring_transport_letter(transport, i, &letter);
        gpuring_letters_expect(letters, letter.peer, letter.room);
        gpuring_letters_send(letters, letter.peer, letter.data, letter.bytes);
    }
    return status;
}

int gpuring_wireup_connect(struct gpuring_transport *transport,
                           const struct gpuring_letters *letters)
{
    int count = gpuring_transport_neighbours(transport), status = GPURING_ERR_NOMEM;
    const void **texts = malloc(((size_t) count + 1) * sizeof *texts);
    size_t *bytes = malloc(((size_t) count + 1) * sizeof *bytes);

    if (texts == NULL || bytes == NULL) {
        gpuring_error("out of memory to connect with %d ranks", count);
    } else {
        for (int i = 0; i < count; i++) { /* each pair begins with the one that came */
            texts[i] = letters->letter[2 * i].data;
            bytes[i] = letters->letter[2 * i].bytes;
        }
        status = gpuring_transport_connect(transport, texts, bytes);
    }
    free(texts);
    free(bytes);
    return status;
}
