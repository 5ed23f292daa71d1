/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/wireup/views.h"

#include <stdlib.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

int gpuring_node_topology_letters(const struct gpuring_gathered *hellos,
                                  const struct gpuring_node_map *members, int rank,
                                  const struct gpuring_oob *oob, struct gpuring_letters *letters)
{
    struct gpuring_node_ranks ranks = gpuring_node_ranks_of(hellos, members, rank);
    uint64_t mine = gpuring_node_ranks_hello(&ranks, ranks.self)->view;
    struct gpuring_local_topology own;
    size_t bytes = 0;
    int status;

    gpuring_local_topology_own(&own);
    for (int i = 0; i < ranks.count; i++) {
        if (gpuring_node_ranks_hello(&ranks, i)->view != mine) {
            bytes += own.bytes + gpuring_node_ranks_hello(&ranks, i)->view_bytes;
        }
    }
    status = gpuring_letters_init(letters, oob, 2 * ranks.count, bytes);
    for (int i = 0; i < ranks.count && status == GPURING_OK; i++) {
        const struct gpuring_hello *hello = gpuring_node_ranks_hello(&ranks, i);

        if (hello->view != mine && gpuring_node_topology_first_view(&ranks, i)) {
            gpuring_letters_add(letters, ranks.rank[i], NULL, hello->view_bytes);
        }
        if (hello->view != mine && gpuring_node_topology_first_view(&ranks, ranks.self)) {
            gpuring_letters_add(letters, ranks.rank[i], own.text, own.bytes);
        }
    }
    return status;
}

/* The view that came from a rank; bytes 0 if it is not what AllGather 1 announced. */
static struct gpuring_local_topology view_from(const struct gpuring_letters *letters, int rank,
                                               const struct gpuring_hello *hello)
{
    for (int i = 0; i < letters->count; i++) {
        const struct gpuring_letter *letter = &letters->letter[i];

        if (!letter->sent && letter->peer == rank && letter->bytes == hello->view_bytes &&
            gpuring_local_topology_fingerprint((const char *) letter->data, letter->bytes) ==
                hello->view) {
            return (struct gpuring_local_topology){.text = (const char *) letter->data,
                                                   .bytes = letter->bytes,
                                                   .fingerprint = hello->view};
        }
    }
    return (struct gpuring_local_topology){.bytes = 0};
}

int gpuring_node_topology_document(const struct gpuring_gathered *hellos,
                                   const struct gpuring_node_map *members, int rank,
                                   const struct gpuring_letters *letters, struct pci_doc **doc,
                                   bool *from_file)
{
    struct gpuring_node_ranks ranks = gpuring_node_ranks_of(hellos, members, rank);
    uint64_t mine = gpuring_node_ranks_hello(&ranks, ranks.self)->view;
    struct gpuring_local_topology *seen = malloc((size_t) ranks.count * sizeof *seen), own;
    int status;

    if (seen == NULL) {
        gpuring_error("out of memory for the topology of a node");
        return GPURING_ERR_NOMEM;
    }
    gpuring_local_topology_own(&own);
    for (int i = 0; i < ranks.count; i++) {
        const struct gpuring_hello *hello = gpuring_node_ranks_hello(&ranks, i);

        seen[i] = hello->view == mine ? own : view_from(letters, ranks.rank[i], hello);
    }
    status = gpuring_node_topology_unite(&ranks, seen, doc, from_file);
    free(seen);
    return status;
}
