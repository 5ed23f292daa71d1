/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/wireup_service.h"

#include <stdlib.h>

#include "mca/coll_gpuring/layout_service.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/wireup_check.h"

int gpuring_wireup_service(const mca_coll_gpuring_module_t *module,
                           const struct gpuring_layout *layout,
                           const struct gpuring_gathered *hellos, struct gpuring_service **service)
{
    int status =
        gpuring_layout_service(layout, hellos, module->rank, gpuring_process.gpu,
                               gpuring_process.device_ops, gpuring_process.device, service);

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
