/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Forked ranks exchange the connection infos of their transports through shared memory. */
#ifndef GPURING_TEST_LETTERS_H
#define GPURING_TEST_LETTERS_H

#include <string.h>

#include "mca/coll_gpuring/transport/transport.h"
#include "mca/coll_gpuring/util/status.h"

#define CONNECT_INFO_RANKS 8
#define CONNECT_INFO_ROOM  4096 /* of one connect info */

struct connect_infos {
    size_t bytes[CONNECT_INFO_RANKS][CONNECT_INFO_RANKS]; /* [from][to] */
    uint8_t text[CONNECT_INFO_RANKS][CONNECT_INFO_RANKS][CONNECT_INFO_ROOM];
};

/* Post the connection infos of a rank. Return false if one is too long. */
static inline bool connect_infos_post(struct connect_infos *connect_infos, int rank,
                                      const struct gpuring_transport *transport)
{
    for (int i = 0; i < gpuring_transport_neighbours(transport); i++) {
        const struct gpuring_transport_connect_info *connect_info =
            gpuring_transport_connect_info(transport, i);

        if (connect_info->bytes > connect_info->room || connect_info->bytes > CONNECT_INFO_ROOM) {
            return false;
        }
        memcpy(connect_infos->text[rank][connect_info->peer], connect_info->data,
               connect_info->bytes);
        connect_infos->bytes[rank][connect_info->peer] = connect_info->bytes;
    }
    return true;
}

/* Connect after all ranks have posted their connection infos. */
static inline int connect_infos_connect(const struct connect_infos *connect_infos, int rank,
                                        struct gpuring_transport *transport)
{
    int status = GPURING_OK;

    for (int i = 0; status == GPURING_OK && i < gpuring_transport_neighbours(transport); i++) {
        const struct gpuring_transport_connect_info *connect_info =
            gpuring_transport_connect_info(transport, i);

        status =
            gpuring_transport_connect(transport, i, connect_infos->text[connect_info->peer][rank],
                                      connect_infos->bytes[connect_info->peer][rank]);
    }
    return status == GPURING_OK ? gpuring_transport_connected(transport) : status;
}

#endif
