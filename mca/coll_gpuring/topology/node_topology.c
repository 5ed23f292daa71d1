/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/topology/node_topology.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

struct gpuring_mates gpuring_mates_of(const struct gpuring_gathered *hellos,
                                      const struct gpuring_node_map *members, int rank)
{
    struct gpuring_mates mates = {.hellos = hellos};

    mates.count = gpuring_node_map_local(members, rank, &mates.self);
    mates.rank = members->order + members->position[rank] - mates.self;
    return mates;
}

const struct gpuring_hello *gpuring_mates_hello(const struct gpuring_mates *mates, int place)
{
    return gpuring_hello_of(mates->hellos, mates->rank[place]);
}

bool gpuring_node_topology_tells(const struct gpuring_mates *mates, int place)
{
    uint64_t view = gpuring_mates_hello(mates, place)->view;

    for (int i = 0; i < place; i++) {
        if (gpuring_mates_hello(mates, i)->view == view) {
            return false;
        }
    }
    return view != 0;
}

bool gpuring_node_topology_differ(const struct gpuring_gathered *hellos,
                                  const struct gpuring_node_map *members)
{
    for (int i = 1; i < members->nranks; i++) {
        int rank = members->order[i], before = members->order[i - 1];

        if (members->node[rank] == members->node[before] &&
            gpuring_hello_of(hellos, rank)->view != gpuring_hello_of(hellos, before)->view) {
            return true;
        }
    }
    return false;
}

/* All different views of the node. Their number, or a negative status. */
static int collect(const struct gpuring_mates *mates, const struct gpuring_local_topology *seen,
                   struct gpuring_local_topology *views)
{
    int count = 0;

    for (int i = 0; i < mates->count; i++) {
        if (!gpuring_node_topology_tells(mates, i)) {
            continue;
        }
        if (seen[i].bytes == 0) {
            gpuring_error("rank %d told another topology than it announced", mates->rank[i]);
            return GPURING_ERR_PEER;
        }
        views[count++] = seen[i];
    }
    return count;
}

static int merge(const struct gpuring_mates *mates, const struct gpuring_local_topology *views,
                 int count, struct pci_doc **doc)
{
    struct pci_error error = {.text = ""};
    int status = gpuring_node_topology_merge(views, count, doc, &error);

    if (status == -ENOMEM) {
        gpuring_error("out of memory for the topology of a node");
        return GPURING_ERR_NOMEM;
    }
    if (status != 0 && mates->self == 0) {
        gpuring_warn(
            "the topologies that the ranks of this node see do not fit together: %s; ranks "
            "are connected in their order",
            error.text[0] != '\0' ? error.text : strerror(-status));
    }
    return GPURING_OK;
}

/* At verbose 2: what a node's ranks have in common, to compare. */
static void tell(const struct gpuring_mates *mates, int count, const struct pci_doc *doc)
{
    struct pci_error error;
    char *text = NULL;
    size_t bytes = 0;

    if (gpuring_log_enabled(GPURING_LOG_DEBUG) && pci_doc_format(doc, &text, &bytes, &error) == 0) {
        gpuring_debug("topology of this node: %d views of %d ranks, fingerprint %016llx", count,
                      mates->count,
                      (unsigned long long) gpuring_local_topology_fingerprint(text, bytes));
        free(text);
    }
}

int gpuring_node_topology_unite(const struct gpuring_mates *mates,
                                const struct gpuring_local_topology *seen, struct pci_doc **doc,
                                bool *from_file)
{
    struct gpuring_local_topology *views = malloc((size_t) mates->count * sizeof *views);
    int status = GPURING_OK, count;

    *doc = NULL;
    *from_file = true;
    if (views == NULL) {
        gpuring_error("out of memory for the topology of a node");
        return GPURING_ERR_NOMEM;
    }
    for (int i = 0; i < mates->count; i++) {
        *from_file =
            *from_file && (gpuring_mates_hello(mates, i)->capabilities & GPURING_CAPABILITY_FILE);
    }
    count = collect(mates, seen, views);
    if (count > 0) {
        status = merge(mates, views, count, doc);
    }
    if (*doc != NULL) {
        tell(mates, count, *doc);
    }
    free(views);
    return count < 0 ? count : status;
}
