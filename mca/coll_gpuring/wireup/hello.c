/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/topology/identity.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/wireup/state.h"

struct hello_block {
    struct gpuring_hello hello;
    struct gpuring_nic nics[GPURING_NICS_MAX];
};
_Static_assert(sizeof(struct hello_block) ==
                   sizeof(struct gpuring_hello) + GPURING_NICS_MAX * sizeof(struct gpuring_nic),
               "ports follow at once");

static int fill(struct hello_block *block)
{
    struct gpuring_hello *hello = &block->hello;
    struct gpuring_local_topology view;
    int nnics = gpuring_nics_find("/sys", gpuring_params.verbs_hca, block->nics);

    *hello = (struct gpuring_hello){
        .magic = GPURING_HELLO_MAGIC,
        .version = GPURING_WIRE_VERSION,
        .bytes = sizeof *hello,
        .nnics = nnics > 0 ? (uint32_t) nnics : 0,
        .node = gpuring_identity_node(gpuring_params.hostid),
        .pid = (uint32_t) getpid(),
        .capabilities = gpuring_identity_capabilities(),
    };
    hello->tuning = gpuring_process.tuning_fingerprint;
    gpuring_local_topology_own(&view);
    if (view.bytes > 0 && view.bytes <= GPURING_VIEW_BYTES_MAX) {
        hello->view = view.fingerprint;
        hello->view_bytes = (uint32_t) view.bytes;
    }
    hello->capabilities |= gpuring_local_topology_of_gpus() ? GPURING_CAPABILITY_GRAPH : 0;
    hello->capabilities |= view.from_file ? GPURING_CAPABILITY_FILE : 0;
    gpuring_identity_hostname(hello->hostname, sizeof hello->hostname);
    gpuring_params_shared(hello->shared);
    if (nnics < 0) {
        return nnics;
    }
    return gpuring_process.device_ops->identity(gpuring_process.device, &hello->device);
}

int gpuring_hello_send(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    struct hello_block block;
    int status = fill(&block);

    (void) wireup;
    if (status == GPURING_OK) {
        gpuring_oob_gather(module->oob, &block, gpuring_hello_bytes(block.hello.nnics));
    }
    return status;
}

/* The host of a rank, as far as its block can be trusted. */
static const char *host_of(const struct gpuring_gathered *hellos, int rank)
{
    const struct gpuring_hello *hello = gpuring_hello_of(hellos, rank);

    return hellos->sizes[rank] >= sizeof *hello && hello->bytes == sizeof *hello ? hello->hostname
                                                                                 : "unknown";
}

static void version_text(const struct gpuring_gathered *hellos, int rank, char text[64])
{
    const struct gpuring_hello *hello = gpuring_hello_of(hellos, rank);
    bool ours = hellos->sizes[rank] >= 8 && hello->magic == GPURING_HELLO_MAGIC;

    if (ours) {
        snprintf(text, 64, "%u", hello->version);
    } else {
        snprintf(text, 64, "unknown");
    }
}

static void tuning_text(const struct gpuring_gathered *hellos, int rank, char text[64])
{
    uint64_t fingerprint = gpuring_hello_of(hellos, rank)->tuning;

    if (fingerprint > GPURING_TUNING_BROKEN) {
        snprintf(text, 64, "rules with fingerprint %016llx", (unsigned long long) fingerprint);
    } else {
        snprintf(text, 64, "%s",
                 fingerprint == GPURING_TUNING_NONE ? "no tuning file"
                                                    : "a tuning file that it could not use");
    }
}

/* The ranks disagree: say so on the two ranks concerned; every rank knows. */
static void report(const mca_coll_gpuring_module_t *module, const struct gpuring_gathered *hellos,
                   enum gpuring_disagreement what, int rank, int parameter)
{
    char first[16], other[16], first_value[64], other_value[64];
    const char *name;

    if (module->rank != 0 && module->rank != rank) {
        return;
    }
    snprintf(first, sizeof first, "%d", 0);
    snprintf(other, sizeof other, "%d", rank);
    if (what != GPURING_DISAGREE_PARAMETER) {
        bool tuning = what == GPURING_DISAGREE_TUNING;
        void (*text)(const struct gpuring_gathered *, int, char[64]) =
            tuning ? tuning_text : version_text;

        text(hellos, 0, first_value);
        text(hellos, rank, other_value);
        gpuring_compat_help(tuning ? "tuning differs" : "versions differ", first,
                            host_of(hellos, 0), first_value, other, host_of(hellos, rank),
                            other_value);
        return;
    }
    name = gpuring_params_shared_name(parameter);
    gpuring_params_shared_text(parameter, gpuring_hello_of(hellos, 0)->shared[parameter],
                               first_value, sizeof first_value);
    gpuring_params_shared_text(parameter, gpuring_hello_of(hellos, rank)->shared[parameter],
                               other_value, sizeof other_value);
    gpuring_compat_help("ranks disagree", name, first, host_of(hellos, 0), first_value, other,
                        host_of(hellos, rank), other_value, name);
}

int gpuring_hello_compare(const mca_coll_gpuring_module_t *module,
                          const struct gpuring_gathered *hellos)
{
    enum gpuring_disagreement what;
    int rank = 0, parameter = -1;

    what = gpuring_node_map_compare(hellos, &rank, &parameter);
    if (what == GPURING_AGREED) {
        return GPURING_OK;
    }
    report(module, hellos, what, rank, parameter);
    return GPURING_ERR_DISAGREE;
}

uint32_t gpuring_hello_common(const struct gpuring_gathered *hellos)
{
    uint32_t common = ~UINT32_C(0);

    for (int rank = 0; rank < hellos->nranks; rank++) {
        common &= gpuring_hello_of(hellos, rank)->capabilities;
    }
    return common;
}

int gpuring_views_prepare(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    struct gpuring_node_ranks ranks =
        gpuring_node_ranks_of(&wireup->hellos, &wireup->map, module->rank);
    struct gpuring_letters *letters = &wireup->letters;
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
    status = gpuring_letters_init(letters, module->oob, 2 * ranks.count, bytes);
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

int gpuring_views_unite(const mca_coll_gpuring_module_t *module,
                        const struct gpuring_wireup *wireup, struct pci_doc **doc, bool *from_file)
{
    struct gpuring_node_ranks ranks =
        gpuring_node_ranks_of(&wireup->hellos, &wireup->map, module->rank);
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

        seen[i] = hello->view == mine ? own : view_from(&wireup->letters, ranks.rank[i], hello);
    }
    status = gpuring_node_topology_unite(&ranks, seen, doc, from_file);
    free(seen);
    return status;
}
