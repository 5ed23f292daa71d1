/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Test the rings and trees of jobs: small jobs completely, large ones for some ranks, and wrong
 * structs from other ranks. */
#include "test/unit/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pci_proof.h"

#define MAX_GPUS     16u
#define MAX_CHANNELS 4u

/* Make the channels of a node. Channel c is the order of the GPUs rotated by c. */
struct sample {
    struct pci_channels ring, tree;
    uint32_t intra[MAX_CHANNELS * MAX_GPUS];
    uint32_t nets[MAX_CHANNELS][2];
};

static void sample_make(struct sample *sample, uint32_t ngpus, enum pci_pattern pattern,
                        uint32_t cross_nic)
{
    memset(sample, 0, sizeof(*sample));
    for (uint32_t c = 0; c < MAX_CHANNELS; c++) {
        for (uint32_t i = 0; i < ngpus; i++) {
            sample->intra[c * ngpus + i] = (i + c) % ngpus;
        }
    }
    sample->ring = (struct pci_channels){.pattern = PCI_PATTERN_RING,
                                         .ngpus = ngpus,
                                         .nchannels = MAX_CHANNELS,
                                         .bw_intra = 20,
                                         .bw_inter = 10,
                                         .type_intra = PCI_PATH_NVL,
                                         .type_inter = PCI_PATH_PIX,
                                         .cross_nic = cross_nic,
                                         .intra = sample->intra,
                                         .nets = sample->nets};
    sample->tree = sample->ring;
    sample->tree.pattern = pattern;
    sample->tree.nchannels = 3;
}

static void assert_sound(const struct pci_connect *connect)
{
    char why[256];

    if (0 != pci_connect_check(connect, why, sizeof(why))) {
        fail_msg("%u ranks on %u nodes: %s", connect->nranks, connect->nnodes, why);
    }
}

/* All sizes up to 20 nodes of 1 to 8 GPUs, with either kind of tree and of NIC use. */
TEST(test_uniform)
{
    static const enum pci_pattern patterns[] = {PCI_PATTERN_BALANCED_TREE, PCI_PATTERN_TREE};
    struct sample sample;
    struct pci_connect connect;

    for (uint32_t nodes = 1; nodes <= 20; nodes++) {
        for (uint32_t ngpus = 1; ngpus <= 8; ngpus += 1 + ngpus / 3) {
            for (uint32_t i = 0; i < 4; i++) {
                sample_make(&sample, ngpus, patterns[i % 2], i < 2 ? 0 : 2);
                assert_int_equal(
                    pci_connect_uniform(&connect, nodes, &sample.ring, &sample.tree, NULL), 0);
                assert_int_equal(connect.agreed.rings, 4);
                assert_int_equal(connect.agreed.trees, 3);
                assert_int_equal(connect.agreed.channels, 8);
                assert_sound(&connect);
                pci_connect_uniform_fini(&connect);
            }
        }
    }
}

/* With swapped NICs, odd nodes use the partner's chain. */
TEST(test_swap)
{
    struct sample sample;
    struct pci_connect connect;
    struct pci_ring_position position;

    sample_make(&sample, 4, PCI_PATTERN_TREE, 2);
    assert_int_equal(pci_connect_uniform(&connect, 2, &sample.ring, &sample.tree, NULL), 0);
    assert_true(connect.agreed.swap);
    pci_connect_ring(&connect, 3, 0, &position); /* the last of node 0 on channel 0: 0 1 2 3 */
    assert_int_equal(position.next, 5);          /* the first of node 1 on channel 1: 1 2 3 0 */
    assert_int_equal(position.index, 3);
    pci_connect_ring(&connect, 4, 0, &position);
    assert_int_equal(position.index, 7);
    assert_int_equal(position.next, 0);
    pci_connect_uniform_fini(&connect);
}

/* The trees over four and five nodes, drawn by hand. */
TEST(test_node_trees)
{
    static const int32_t up4[2][4] = {{-1, 2, 0, 2}, {1, 3, 1, -1}};
    static const int32_t up5[2][5] = {{1, 3, 1, -1, 3}, {2, 0, -1, 2, 0}};

    for (uint32_t which = 0; which < 2; which++) {
        for (uint32_t node = 0; node < 5; node++) {
            int32_t up, down[2];

            if (node < 4) {
                pci_connect_node_tree(4, node, which, &up, down);
                assert_int_equal(up, up4[which][node]);
            }
            pci_connect_node_tree(5, node, which, &up, down);
            assert_int_equal(up, up5[which][node]);
        }
    }
}

/* Nodes of different sizes, ranks dealt to them in turn. */
TEST(test_mixed)
{
    static const uint32_t sizes[] = {1, 8, 2, 5, 3};
    struct sample sample;
    struct pci_wire wires[19];
    struct pci_connect connect;
    uint32_t used[5] = {0}, rank = 0;

    while (rank < 19) {
        for (uint32_t node = 0; node < 5; node++) {
            if (used[node] < sizes[node]) {
                sample_make(&sample, sizes[node],
                            0 == node % 2 ? PCI_PATTERN_TREE : PCI_PATTERN_BALANCED_TREE, 0);
                sample.ring.nchannels = 1 + node % 4;
                sample.ring.bw_intra = 30 - node;
                assert_int_equal(
                    pci_wire_fill(&wires[rank++], node, used[node]++, &sample.ring, &sample.tree),
                    0);
            }
        }
    }
    assert_int_equal(pci_connect_init(&connect, wires, 19, NULL), 0);
    assert_int_equal(connect.agreed.rings, 1);
    assert_true(connect.agreed.bw[0] == 26);
    assert_sound(&connect);
    pci_connect_fini(&connect);
}

/* A large job: for a sample of ranks, check that neighbours agree. */
TEST(test_large)
{
    struct sample sample;
    struct pci_connect connect;

    sample_make(&sample, 8, PCI_PATTERN_BALANCED_TREE, 0);
    assert_int_equal(pci_connect_uniform(&connect, 16384, &sample.ring, &sample.tree, NULL), 0);
    assert_int_equal(connect.nranks, 131072);
    for (uint32_t rank = 0; rank < connect.nranks; rank += 997) {
        struct pci_ring_position ring, next;
        struct pci_tree_position tree, parent;
        bool known = false;

        pci_connect_ring(&connect, rank, 1, &ring);
        pci_connect_ring(&connect, ring.next, 1, &next);
        assert_int_equal(next.prev, rank);
        assert_int_equal(next.index, (ring.index + 1) % connect.nranks);
        pci_connect_tree(&connect, rank, 2, 1, &tree);
        if (tree.up >= 0) {
            pci_connect_tree(&connect, (uint32_t) tree.up, 2, 1, &parent);
            for (int i = 0; i < PCI_CONNECT_DOWN; i++) {
                known = known || parent.down[i] == (int32_t) rank;
            }
            assert_true(known);
        }
    }
    pci_connect_uniform_fini(&connect);
}

/* For large numbers of nodes, check only the depth of the trees over nodes, and that no node is an
 * inner node of both. */
TEST(test_node_trees_large)
{
    static const uint32_t sizes[] = {31, 32, 33, 255, 256, 257, 1000, 4097};
    struct sample sample;
    struct pci_connect connect;

    sample_make(&sample, 1, PCI_PATTERN_TREE, 0);
    sample.ring.nchannels = sample.tree.nchannels = 1;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        assert_int_equal(pci_connect_uniform(&connect, sizes[i], &sample.ring, &sample.tree, NULL),
                         0);
        assert_sound(&connect);
        pci_connect_uniform_fini(&connect);
    }
}

/* Structs from other ranks are not trusted. */
TEST(test_refused)
{
    struct sample sample;
    struct pci_wire good[8], wires[8];
    struct pci_connect connect;
    struct pci_error error;

    sample_make(&sample, 4, PCI_PATTERN_TREE, 0);
    for (uint32_t rank = 0; rank < 8; rank++) {
        assert_int_equal(pci_wire_fill(&good[rank], rank / 4, rank % 4, &sample.ring, &sample.tree),
                         0);
    }
    assert_int_equal(pci_wire_fill(&wires[0], 0, 4, &sample.ring, &sample.tree), -EINVAL);
    assert_int_equal(pci_connect_init(&connect, good, 0, NULL), -EINVAL);
    for (int fault = 0; fault < 8; fault++) {
        memcpy(wires, good, sizeof(good));
        switch (fault) {
        case 0:
            wires[5].version = 9;
            break;
        case 1:
            wires[5].node = 0;
            break;
        case 2:
            wires[5].node = 4000000000u;
            break;
        case 3:
            wires[5].ring[2] = wires[6].ring[2];
            break;
        case 4:
            wires[5].tree[0] = 60000;
            break;
        case 5:
            wires[5].rings = 200;
            break;
        case 6:
            wires[5].bw[1] = -1;
            break;
        default:
            wires[5].bw[1] = 11;
            break;
        }
        error.text[0] = '\0';
        assert_int_equal(pci_connect_init(&connect, wires, 8, &error), -EPROTO);
        assert_non_null(strstr(error.text, "rank"));
    }
    assert_int_equal(pci_connect_init(&connect, good, 8, NULL), 0);
    assert_sound(&connect);
    pci_connect_fini(&connect);
}

/* Check that the checker detects a rank that was moved in the data. */
TEST(test_check_sees)
{
    struct sample sample;
    struct pci_connect connect;
    char why[128];

    sample_make(&sample, 4, PCI_PATTERN_TREE, 0);
    assert_int_equal(pci_connect_uniform(&connect, 3, &sample.ring, &sample.tree, NULL), 0);
    ((struct pci_wire *) connect.wires)[5].node = 2; /* it believes to be elsewhere */
    assert_int_equal(pci_connect_check(&connect, why, sizeof(why)), -EINVAL);
    assert_true(strlen(why) > 0);
    pci_connect_uniform_fini(&connect);
}
