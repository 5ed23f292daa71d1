/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The channels of a node from its topology, and the peers whose memory a rank maps. */
#include "test/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/topology/local_channels.h"
#include "mca/topo_pci/predict/pci_predict.h"
#include "mca/topo_pci/xml/pci_doc.h"

#define RANKS 8

static struct gpuring_rank_info rank_infos[RANKS];

/* Return the channels that rank 0 finds on a machine of test/data. The ranks use its GPUs in
 * order. */
static struct gpuring_local_channels find_local(const char *file, int nranks)
{
    struct gpuring_gathered gathered = {
        .nranks = nranks, .bytes = sizeof *rank_infos, .blocks = (uint8_t *) rank_infos};
    struct gpuring_local_channels local;
    struct pci_error error = {.text = ""};
    struct gpuring_node_map map;
    struct pci_doc *doc = NULL;
    const char *folder = getenv("top_srcdir");
    char path[4096];

    snprintf(path, sizeof path, "%s/test/data/topo/%s", folder != NULL ? folder : ".", file);
    memset(rank_infos, 0, sizeof rank_infos);
    assert_int_equal(pci_doc_read(path, &doc, &error), 0);
    for (int rank = 0; rank < nranks; rank++) {
        struct pci_elem *gpu = NULL;

        for (int i = 0; i <= rank; i++) {
            gpu = pci_doc_next(doc, gpu, "gpu");
        }
        assert_non_null(gpu);
        assert_int_equal(pci_elem_setf(gpu, "sm", "80"), 0);
        rank_infos[rank].device.kind = GPURING_DEVICE_CUDA;
        snprintf(rank_infos[rank].device.pci_bus_id, sizeof rank_infos[rank].device.pci_bus_id,
                 "%s", pci_elem_get(pci_elem_parent(gpu), "busid"));
    }
    assert_int_equal(gpuring_node_map_find(&gathered, &map), 0);
    gpuring_local_channels_find(&gathered, &map, 0, doc, true, PCI_PEER_OK, false, &local);
    gpuring_node_map_clear(&map);
    pci_doc_free(doc);
    return local;
}

/* On a hybrid cube mesh, rank 0 has NVLink to four GPUs. The other three could only be reached
 * through a relaying GPU, which is not used, or over PCI and the link between the sockets. */
TEST(gpus_do_not_relay)
{
    static const bool near[8] = {true, true, true, true, true};
    struct gpuring_local_channels local = find_local("cube-single-links.xml", 8);
    const uint32_t ring = 1u << GPURING_ALGORITHM_RING, direct = 1u << GPURING_ALGORITHM_DIRECT;

    assert_true(local.known);
    for (int rank = 0; rank < 8; rank++) {
        assert_int_equal(gpuring_local_channels_may_map(&local, rank), near[rank]);
    }
    assert_true(local.model.known);
    assert_int_equal(local.model.ll128 & ring, ring); /* over NVLink alone */
    assert_int_equal(local.model.ll128 & direct, 0);
    assert_false(local.model.mapped[gpuring_model_index(1 << 20)]);
}

/* GPUs of two sockets, without NVLink. The search connects those under the same switches directly,
 * and the fourth through the host. */
TEST(auto_maps_what_the_search_connects)
{
    struct gpuring_local_channels local = find_local("two-sockets.xml", 4), unknown = {0};

    assert_true(local.known);
    for (int rank = 0; rank < 4; rank++) {
        assert_int_equal(gpuring_local_channels_may_map(&local, rank), rank < 3);
    }
    assert_true(gpuring_local_channels_may_map(&unknown, 3));
    gpuring_params.p2p_level = GPURING_PARAM_LEVEL_SYS;
    assert_true(gpuring_local_channels_may_map(&local, 3));
    gpuring_params.p2p_level = GPURING_PARAM_LEVEL_LOC;
    assert_false(gpuring_local_channels_may_map(&local, 1));
    gpuring_params.p2p_level = GPURING_PARAM_LEVEL_AUTO;
}

/* NCCL does the same. */
TEST(rings_of_two_ranks_by_cuda_11_8_have_no_ll128)
{
    struct pci_job job = {.ranks = 2, .sm = 90};

    assert_true(pci_ll128_ring_excluded(&job, 11080));
    assert_false(pci_ll128_ring_excluded(&job, 12000));
    job.ranks = 3;
    assert_false(pci_ll128_ring_excluded(&job, 11080));
    job = (struct pci_job){.ranks = 2, .sm = 80};
    assert_false(pci_ll128_ring_excluded(&job, 11080));
}
