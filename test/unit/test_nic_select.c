/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Test the choice of the network device for each channel, with a topology and without one. */
#include "test/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "mca/coll_gpuring/plan/plan.h"
#include "mca/coll_gpuring/topology/nic_select.h"
#include "test/unit/pci_test.h"

static const struct gpuring_net_device devices[] = {
    {.name = "mlx5_1", .port = 1}, {.name = "mlx5_0", .port = 1}, {.name = "mlx5_0", .port = 2}};

static const struct gpuring_nic_select routes = {.nnics = 6,
                                                 .nic = {{"mlx5_0", 1, {false}},
                                                         {"mlx5_0", 2, {false}},
                                                         {"mlx5_1", 1, {false}},
                                                         {"mlx5_9", 1, {false}},
                                                         {"mlx5_1", 0, {false}},
                                                         {"mlx5_0", 0, {false}}},
                                                 .own = PCI_NO_NET,
                                                 .nrings = 2,
                                                 .ntrees = 1,
                                                 .ring = {{0, 1}, {2, 3}},
                                                 .tree = {{4, 5}}};

TEST(test_names)
{
    struct gpuring_channel_nics found;

    gpuring_nic_select_channels(&routes, 2, 1, false, devices, 3, &found);
    for (int c = 0; c < GPURING_MAX_CHANNELS; c += 2) { /* again and again */
        assert_int_equal(found.ring[c][GPURING_NIC_IN], 1);
        assert_int_equal(found.ring[c][GPURING_NIC_OUT], 2);
        assert_int_equal(found.ring[c + 1][GPURING_NIC_IN], 0);
        /* The net has no mlx5_9: in turn. */
        assert_int_equal(found.ring[c + 1][GPURING_NIC_OUT], (c + 1) % 3);
    }
    for (int c = 0; c < GPURING_MAX_CHANNELS; c++) {
        assert_int_equal(found.tree[c][GPURING_NIC_IN], 0);
        assert_int_equal(found.tree[c][GPURING_NIC_OUT], 1);
    }
    assert_int_equal(found.own[GPURING_NIC_IN], 1); /* not known: as ring 0 */
    assert_int_equal(found.own[GPURING_NIC_OUT], 2);
    gpuring_nic_select_channels(&routes, 2, 1, true, devices, 3,
                                &found); /* NICs swapped in pairs */
    assert_int_equal(found.ring[0][GPURING_NIC_IN], 0);
    assert_int_equal(found.ring[1][GPURING_NIC_IN], 1);
    assert_int_equal(found.ring[1][GPURING_NIC_OUT], 2);
    assert_int_equal(found.tree[0][GPURING_NIC_IN], 0);
    gpuring_nic_select_channels(&routes, 1, 1, false, devices, 3,
                                &found); /* others have one ring */
    assert_int_equal(found.ring[1][GPURING_NIC_IN], 1);
}

/* If a device has a single port, the port may have another number in the topology. If it has
 * several, it may not. */
TEST(test_port_of_card)
{
    static const struct gpuring_nic_select counted = {.nnics = 3,
                                                      .nic = {{"mlx5_1", 2, {true, false}},
                                                              {"mlx5_0", 1, {false, false}},
                                                              {"mlx5_0", 2, {true, true}}},
                                                      .nrings = 1,
                                                      .ring = {{0, 2}}};
    struct gpuring_channel_nics found;

    gpuring_nic_select_channels(&counted, 1, 0, false, devices, 3, &found);
    assert_int_equal(found.ring[0][GPURING_NIC_IN], 0);
    assert_int_equal(found.ring[0][GPURING_NIC_OUT], 2);
    assert_true(gpuring_nic_select_direct(&counted, &devices[0], GPURING_NIC_IN, false));
    assert_false(gpuring_nic_select_direct(&counted, &devices[0], GPURING_NIC_OUT, true));
    assert_false(gpuring_nic_select_direct(&counted, &devices[1], GPURING_NIC_OUT, true));
    assert_true(gpuring_nic_select_direct(&counted, &devices[2], GPURING_NIC_OUT, false));
}

/* Write the cores near a PCI device to an invented /sys. */
static void put_near(const char *root, const char *bus_id, const char *cores)
{
    const char *const parts[] = {"bus", "bus/pci", "bus/pci/devices", NULL};
    char path[256];
    FILE *file;

    for (int i = 0; parts[i] != NULL; i++) {
        snprintf(path, sizeof path, "%s/%s", root, parts[i]);
        mkdir(path, 0700);
    }
    snprintf(path, sizeof path, "%s/bus/pci/devices/%s", root, bus_id);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/bus/pci/devices/%s/local_cpulist", root, bus_id);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(cores, file);
    fclose(file);
}

#define SOCKET_NICS 4

/* A node with two sockets of 16 cores and four NICs each, and ranks on these cores. Count how often
 * each NIC is used for channel 0. */
static void use_nics(const char *root, const int *cores, int nranks, bool one_net,
                     int used[2 * SOCKET_NICS])
{
    struct gpuring_net_device list[2 * SOCKET_NICS];
    const struct gpuring_net_devices all = {.device = list, .count = 2 * SOCKET_NICS};
    cpu_set_t sets[32];

    memset(used, 0, 2 * SOCKET_NICS * sizeof *used);
    for (int i = 0; i < 2 * SOCKET_NICS; i++) {
        list[i] = (struct gpuring_net_device){.port = 1};
        snprintf(list[i].pci_bus_id, sizeof list[i].pci_bus_id, "0000:%02x:00.0", 16 + i);
        put_near(root, list[i].pci_bus_id, i < SOCKET_NICS ? "0-15" : "16-31");
    }
    for (int rank = 0; rank < nranks; rank++) {
        struct gpuring_nic_turns turns;
        int device;

        CPU_ZERO(&sets[rank]);
        CPU_SET(cores[rank], &sets[rank]);
        gpuring_nic_turns_find(root, &all, sets, rank, one_net, &turns);
        device = gpuring_nic_turns_device(&turns, 0, 0);
        assert_true(device >= 0 && device < all.count);
        used[device]++;
        if (one_net) {
            assert_int_equal(device / SOCKET_NICS, cores[rank] / 16);
        }
        for (uint32_t c = 1; c < 2 * SOCKET_NICS; c++) { /* channels use further NICs */
            assert_int_not_equal(gpuring_nic_turns_device(&turns, 0, c),
                                 gpuring_nic_turns_device(&turns, 0, c - 1));
        }
        if (!one_net) { /* both ends choose the same one */
            struct gpuring_nic_turns peer = turns;

            peer.local = 5;
            assert_int_equal(gpuring_nic_turns_device(&turns, 5, 3),
                             gpuring_nic_turns_device(&peer, rank, 3));
        }
    }
}

/* Without a topology, a node with 8 NICs uses 8, each by ranks of its socket. */
TEST(test_in_turn)
{
    static const int blocks[] = {0, 1, 2, 3, 16, 17, 18, 19}; /* sockets one after the other */
    static const int turns[] = {0, 16, 1, 17, 2, 18, 3, 19};  /* in turn */
    const int *const orders[] = {blocks, turns};
    const struct gpuring_net_devices none = {.count = 0};
    char root[] = "/tmp/gpuring-test-XXXXXX", command[64];
    struct gpuring_nic_turns nothing;
    cpu_set_t cores;
    int used[2 * SOCKET_NICS];

    assert_non_null(mkdtemp(root));
    for (int i = 0; i < 4; i++) {
        use_nics(root, orders[i / 2], 8, i % 2 == 0, used);
        for (int nic = 0; nic < 2 * SOCKET_NICS; nic++) {
            assert_int_equal(used[nic], 1);
        }
    }
    use_nics(root, turns, 3, true, used);
    assert_true(used[0] == 1 && used[1] == 1 && used[SOCKET_NICS] == 1);
    CPU_ZERO(&cores);
    gpuring_nic_turns_find(root, &none, &cores, 0, true, &nothing);
    assert_int_equal(gpuring_nic_turns_device(&nothing, 3, 2), 0);
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

/* On two sockets with a NIC and GPUs each, every NIC is used, each by its own socket's GPUs. */
TEST(test_engine)
{
    struct pci_graph *graph = graph_of_file("two-sockets.xml", NULL);
    struct pci_channels ring = {.nchannels = 0}, tree = {.nchannels = 0};
    struct pci_fabric fabric = {.ngpus = 0};
    struct gpuring_nic_select found;
    struct pci_search search;

    assert_int_equal(pci_fabric_from_graph(graph, &fabric), 0);
    pci_search_init(&search);
    search.nodes = 2;
    assert_int_equal(pci_channels_search(&fabric, &search, &ring), 0);
    search.pattern = PCI_PATTERN_BALANCED_TREE;
    assert_int_equal(pci_channels_search(&fabric, &search, &tree), 0);
    gpuring_nic_select_find(graph, 0, &ring, &tree, &found);
    assert_int_equal(found.nrings, ring.nchannels);
    assert_int_equal(found.ntrees, tree.nchannels);
    assert_true(ring.nchannels > 0);
    for (uint32_t c = 0; c < ring.nchannels; c++) {
        for (int way = 0; way < GPURING_NIC_WAYS; way++) {
            const struct pci_node *net = pci_graph_node(graph, PCI_NODE_NET, ring.nets[c][way]);

            assert_true(found.ring[c][way] < found.nnics);
            assert_string_equal(found.nic[found.ring[c][way]].name, net->net.name);
            assert_int_equal(found.nic[found.ring[c][way]].port, net->net.port);
        }
    }
    pci_channels_fini(&ring);
    pci_channels_fini(&tree);
    pci_fabric_fini(&fabric);
    pci_graph_free(graph);
}

/* A NIC that supports it accesses the memory of near GPUs, or of all GPUs if the level allows it.
 */
TEST(test_direct)
{
    const struct pci_channels none = {.nchannels = 0};
    const struct gpuring_net_device unknown = {.name = "mlx5_9", .port = 1};
    uint32_t reached[2] = {0, 0};

    for (int far = 0; far < 2; far++) {
        struct pci_path_rules rules;
        struct pci_graph *graph;
        uint32_t nnets;

        pci_path_rules_init(&rules);
        rules.gdr_level = far ? PCI_PATH_SYS : PCI_LEVEL_AUTO;
        graph = graph_of_file("two-sockets.xml", &rules);
        nnets = pci_graph_count(graph, PCI_NODE_NET);
        assert_true(nnets > 1);
        for (int gpu = 0; gpu < 4; gpu++) {
            struct gpuring_nic_select found;

            gpuring_nic_select_find(graph, gpu, &none, &none, &found);
            assert_int_equal(found.nnics, nnets);
            for (uint32_t n = 0; n < nnets; n++) {
                const struct pci_node *net = pci_graph_node(graph, PCI_NODE_NET, n);
                struct gpuring_net_device device = {.port = net->net.port};

                snprintf(device.name, sizeof device.name, "%s", net->net.name);
                for (int way = 0; way < GPURING_NIC_WAYS; way++) {
                    bool direct = gpuring_nic_select_direct(&found, &device, way, false);

                    assert_int_equal(
                        direct, pci_graph_gdr(graph, (uint32_t) gpu, n, way == GPURING_NIC_OUT));
                    reached[far] += direct;
                }
            }
            assert_true(gpuring_nic_select_direct(&found, &unknown, GPURING_NIC_IN, true));
            assert_false(gpuring_nic_select_direct(&found, &unknown, GPURING_NIC_IN, false));
        }
        pci_graph_free(graph);
    }
    assert_true(reached[0] > 0 && reached[0] < reached[1]);
    assert_int_equal(reached[1], 4 * GPURING_NIC_WAYS); /* one of the two NICs cannot */
}

/* Exchanges use the NIC nearest to each GPU, and all NICs together. */
TEST(test_own)
{
    static const struct {
        const char *file;
        int ngpus, nnics;
    } machines[] = {{"eight-two-level.xml", 8, 8}, {"sixteen-torus.xml", 16, 8}};
    const struct pci_channels none = {.nchannels = 0};

    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++) {
        struct pci_graph *graph = graph_of_file(machines[m].file, NULL);
        uint32_t used[16];
        int nused = 0;

        for (int gpu = 0; gpu < machines[m].ngpus; gpu++) {
            struct gpuring_nic_select found;
            struct gpuring_channel_nics nics;
            struct gpuring_net_device list[] = {{.name = "other", .port = 1}, {.port = 1}};
            int i = 0;

            gpuring_nic_select_find(graph, gpu, &none, &none, &found);
            assert_true(found.own < found.nnics);
            while (i < nused && used[i] != found.own) {
                i++;
            }
            used[i] = found.own;
            nused = i == nused ? nused + 1 : nused;
            snprintf(list[1].name, sizeof list[1].name, "%s", found.nic[found.own].name);
            gpuring_nic_select_channels(&found, 0, 0, false, list, 2, &nics);
            assert_int_equal(nics.own[GPURING_NIC_IN], 1);
            assert_int_equal(nics.own[GPURING_NIC_OUT], 1);
        }
        assert_int_equal(nused, machines[m].nnics);
        pci_graph_free(graph);
    }
}

/* Connections have the numbers of their channels, for rings and for both trees of a channel. */
TEST(test_channels_of_connections)
{
    struct gpuring_channel channels[3];
    struct gpuring_plan_input input = {
        .nranks = 2, .channels = channels, .nrings = 3, .ntrees = 3, .ndirect = 3};
    struct gpuring_plan *plan = NULL;

    memset(channels, 0, sizeof channels);
    for (int c = 0; c < 3; c++) {
        channels[c].ring = (struct gpuring_ring_position){.prev = 1, .next = 1, .index = 0};
        for (int t = 0; t < 2; t++) {
            channels[c].tree[t] = (struct gpuring_tree_position){.up = -1, .down = {1, -1, -1}};
        }
    }
    assert_int_equal(gpuring_plan_build(GPURING_ALGORITHM_RING, &input, &plan), 0);
    assert_int_equal(plan->nsends, 3);
    for (uint32_t c = 0; c < 3; c++) {
        assert_int_equal(gpuring_plan_channel(plan, plan->sends[c].key), c);
        assert_int_equal(gpuring_plan_channel(plan, plan->recvs[c].key), c);
    }
    gpuring_plan_free(plan);
    assert_int_equal(gpuring_plan_build(GPURING_ALGORITHM_TREE, &input, &plan), 0);
    assert_int_equal(plan->nsends, 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(gpuring_plan_channel(plan, plan->sends[i].key), i / 2);
    }
    gpuring_plan_free(plan);
    assert_int_equal(gpuring_plan_build(GPURING_ALGORITHM_TWO_SHOT, &input, &plan), 0);
    assert_int_equal(plan->nsends, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(gpuring_plan_channel(plan, plan->sends[i].key), i);
    }
    gpuring_plan_free(plan);
}
