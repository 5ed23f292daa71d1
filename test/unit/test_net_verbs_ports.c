/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The ports that the net `verbs` uses, on devices that exist in this process only. */
#include "test/unit/unit.h"

#include <pthread.h>
#include <string.h>

#include "mca/coll_gpuring/net/net_list.h"
#include "mca/coll_gpuring/net/verbs/verbs_internal.h"
#include "mca/coll_gpuring/util/status.h"
#include "test/unit/verbs_world.h"

static const struct fake_device down = {
    .name = "down0", .ports = 1, .link_layer = IBV_LINK_LAYER_ETHERNET, .gid = {V4_GID(1)}};

static void test_pure_functions(void **state)
{
    const uint8_t v4[16] = V4_GID(1), v6[16] = V6_GID, local[16] = LL_GID, zero[16] = {0};

    assert_int_equal(gpuring_nic_gid_rank(false, true, false, v4), 0);
    assert_int_equal(gpuring_nic_gid_rank(false, true, true, zero), 0);
    assert_int_equal(gpuring_nic_gid_rank(true, true, true, zero), 0);
    assert_int_equal(gpuring_nic_gid_rank(true, true, false, local), 1);
    assert_true(gpuring_nic_gid_rank(false, true, true, v4) >
                gpuring_nic_gid_rank(false, true, true, v6));
    assert_true(gpuring_nic_gid_rank(false, true, true, v6) >
                gpuring_nic_gid_rank(false, true, true, local));
    assert_true(gpuring_nic_gid_rank(false, true, true, local) > 0);
    assert_true(gpuring_nic_gid_rank(false, false, false, local) > 0);
    for (int status = IBV_WC_SUCCESS; status <= IBV_WC_TM_RNDV_INCOMPLETE; status++) {
        assert_non_null(gpuring_verbs_remedy((enum ibv_wc_status) status));
    }
}

static void test_discovery(void **state)
{
    const struct fake_device devices[] = {world_roce, world_infiniband, down};
    static const struct {
        const char *list;
        int count;
        const char *first;
        int first_port;
    } cases[] = {{NULL, 3, "roce0", 1},
                 {"ib0", 2, "ib0", 1},
                 {"ib0:2", 1, "ib0", 2},
                 {"^ib0:1", 2, "roce0", 1},
                 {"^roce0,^ib0:1", 1, "ib0", 2}};
    struct gpuring_net_config config = world_defaults;
    struct gpuring_net *net;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_verbs_reset(devices, 3, &world_no_faults);
        config.hca = cases[i].list;
        assert_int_equal(gpuring_net_verbs.open(&config, &net), GPURING_OK);
        assert_int_equal(net->devices.count, cases[i].count);
        assert_string_equal(net->devices.device[0].name, cases[i].first);
        assert_int_equal(net->devices.device[0].port, cases[i].first_port);
        gpuring_net_verbs.close(net);
        assert_int_equal(fake_verbs_objects(), 0);
    }
    config.hca = "down0";
    assert_int_equal(gpuring_net_verbs.open(&config, &net), GPURING_ERR_UNSUPPORTED);
    assert_true(log_has("down0:1 not active"));
    assert_true(log_has("roce0:1 not selected by coll_gpuring_verbs_hca"));
    assert_int_equal(fake_verbs_objects(), 0);
}

static void test_only_old_roce(void **state)
{
    struct fake_device device = world_roce;
    struct gpuring_net *net;

    memset(device.gid_type, 0, sizeof device.gid_type);
    for (int i = 0; i < FAKE_GIDS; i++) {
        device.gid_type[i] = IBV_GID_TYPE_ROCE_V1;
    }
    fake_verbs_reset(&device, 1, &world_no_faults);
    assert_int_equal(gpuring_net_verbs.open(&world_defaults, &net), GPURING_ERR_UNSUPPORTED);
    assert_true(log_has("roce0:1 has no GID for RoCE v2"));
}

/* Only ports of InfiniBand and RoCE that make reliable connections are used. */
static void test_candidates(void **state)
{
    struct fake_device efa = world_roce, hfi1 = world_infiniband, usnic = world_roce;
    const struct {
        const struct fake_device *device;
        const char *why;
    } cases[] = {{&efa, "efa_0:1 is neither InfiniBand nor RoCE"},
                 {&hfi1, "hfi1_0:1 is Omni-Path"},
                 {&usnic, "usnic_0:1 does not make a reliable connection"}};
    struct gpuring_net *net;

    efa.name = "efa_0";
    efa.link_layer = IBV_LINK_LAYER_UNSPECIFIED;
    hfi1.name = "hfi1_0";
    hfi1.vendor = 0x1175;
    usnic.name = "usnic_0";
    usnic.no_rc = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct fake_device devices[] = {*cases[i].device, world_roce_next};

        fake_verbs_reset(devices, 1, &world_no_faults);
        assert_int_equal(gpuring_net_verbs.open(&world_defaults, &net), GPURING_ERR_UNSUPPORTED);
        assert_true(log_has("[rdma-unusable]"));
        assert_true(log_has(cases[i].why));
        assert_int_equal(fake_verbs_objects(), 0);
        fake_verbs_reset(devices, 2, &world_no_faults);
        assert_int_equal(gpuring_net_verbs.open(&world_defaults, &net), GPURING_OK);
        assert_int_equal(net->devices.count, 1);
        assert_string_equal(net->devices.device[0].name, "roce1");
        gpuring_net_verbs.close(net);
        assert_int_equal(fake_verbs_objects(), 0);
        clear_log(NULL);
    }
}

/* In a container with /sys but without the nodes of the devices, libibverbs lists none of them. */
static void test_no_uverbs(void **state)
{
    struct gpuring_net *net;

    fake_verbs_reset(&world_roce, 0, &world_no_faults);
    assert_int_equal(gpuring_net_verbs.open(&world_defaults, &net), GPURING_ERR_UNSUPPORTED);
    assert_true(log_has("a container needs /dev/infiniband"));
}

static void test_partition_and_mtu(void **state)
{
    struct gpuring_net_config config = world_defaults;
    struct gpuring_net *net;

    fake_verbs_reset(&world_roce, 1, &world_no_faults);
    config.verbs_pkey = 0x123;
    config.verbs_mtu = IBV_MTU_1024;
    config.verbs_gid_index = 1 + 2;
    assert_int_equal(gpuring_net_verbs.open(&config, &net), GPURING_OK);
    assert_int_equal(net->ports[0].pkey_index, 1);
    assert_int_equal(net->ports[0].mtu, IBV_MTU_1024);
    assert_int_equal(net->ports[0].gid_index, 2);
    gpuring_net_verbs.close(net);
    config.verbs_pkey = 0x124;
    assert_int_equal(gpuring_net_verbs.open(&config, &net), GPURING_ERR_UNSUPPORTED);
    assert_true(log_has("roce0:1 has no partition key coll_gpuring_verbs_pkey"));
    config = world_defaults;
    config.verbs_gid_index = 1 + 100;
    assert_int_equal(gpuring_net_verbs.open(&config, &net), GPURING_ERR_UNSUPPORTED);
    assert_true(log_has("roce0:1 has no GID number coll_gpuring_verbs_gid_index"));
    assert_int_equal(fake_verbs_objects(), 0);
}

/* Of ports with 25 and 200 Gb/s, only the fast ones are used, unless the user selects ports. */
static void test_slow_ports(void **state)
{
    struct fake_device devices[] = {world_roce, world_roce_next, world_roce_last};
    struct gpuring_net_config config = world_defaults;
    struct gpuring_net *net;

    devices[0].speed = 32; /* 25 Gb/s per lane */
    devices[0].width = 1;
    devices[1].speed = devices[2].speed = 64; /* 50 Gb/s */
    devices[1].width = 2;                     /* 4 lanes */
    devices[2].width = 16;                    /* 2 lanes: half as fast is fast enough */
    fake_verbs_reset(devices, 3, &world_no_faults);
    assert_int_equal(gpuring_net_verbs.open(&config, &net), GPURING_OK);
    assert_int_equal(net->devices.count, 2);
    assert_string_equal(net->devices.device[0].name, "roce1");
    assert_int_equal(net->ports[0].speed, 200000);
    assert_int_equal(net->ports[1].speed, 100000);
    gpuring_net_verbs.close(net);
    config.hca = "^roce2";
    assert_int_equal(gpuring_net_verbs.open(&config, &net), GPURING_OK);
    assert_int_equal(net->devices.count, 1);
    gpuring_net_verbs.close(net);
    config.hca = "roce0,roce1";
    assert_int_equal(gpuring_net_verbs.open(&config, &net), GPURING_OK);
    assert_int_equal(net->devices.count, 2);
    assert_string_equal(net->devices.device[0].name, "roce0");
    assert_int_equal(net->ports[0].speed, 25000);
    gpuring_net_verbs.close(net);
    assert_int_equal(fake_verbs_objects(), 0);
}

/* With crossed rails, ports are sorted by their networks, regardless of their names. */
static void test_order_of_networks(void **state)
{
    struct fake_device devices[] = {world_infiniband, world_roce, world_roce_next};
    struct gpuring_net *net;

    devices[0].gid[0][7] = 9;
    devices[1].gid[3][13] = 7; /* 10.7.0.1 */
    fake_verbs_reset(devices, 3, &world_no_faults);
    assert_int_equal(gpuring_net_verbs.open(&world_defaults, &net), GPURING_OK);
    assert_int_equal(net->devices.count, 4);
    assert_string_equal(net->devices.device[0].name, "roce1");
    assert_string_equal(net->devices.device[1].name, "roce0");
    assert_string_equal(net->devices.device[2].name, "ib0");
    assert_int_equal(net->devices.device[2].port, 1);
    assert_int_equal(net->devices.device[3].port, 2);
    gpuring_net_verbs.close(net);
}

/* Ends of a link on port `device` of two hosts with the ports of two subnets that `hca` lists. */
struct two_ends {
    struct gpuring_net *net[2];
    struct lane_end end[2];
    int status; /* of connecting them */
};

static void two_ends_open(struct two_ends *two, const char *const hca[2], const int device[2],
                          int qps)
{
    struct fake_device devices[] = {world_infiniband, world_infiniband};

    for (int i = 0; i < 2; i++) {
        devices[i].name = i == 0 ? "ib0" : "ib1";
        devices[i].ports = 1;
        devices[i].gid[0][7] = (uint8_t) (1 + i);
    }
    fake_verbs_reset(devices, 2, &world_no_faults);
    for (int i = 0; i < 2; i++) {
        struct gpuring_net_config config = world_defaults;

        config.hca = hca[i];
        config.verbs_qps = qps;
        config.verbs_spares = 1;
        assert_int_equal(gpuring_net_verbs.open(&config, &two->net[i]), GPURING_OK);
        assert_int_equal(lane_end_create(&two->end[i], &gpuring_net_verbs, two->net[i], device[i],
                                         NULL, i == 0 ? GPURING_NET_SEND : GPURING_NET_RECV,
                                         WORLD_NSLOTS, WORLD_SLOT_BYTES),
                         GPURING_OK);
    }
    two->status = lane_connect(&two->end[0], two->net[0], "rank 0 on host0", &two->end[1],
                               two->net[1], "rank 1 on host1");
}

/* Expect these devices of connected rails; NULL: not connected. */
static void two_ends_close(struct two_ends *two, unsigned nrails, const char *const *rails)
{
    for (unsigned r = 0; r < nrails; r++) {
        for (int i = 0; i < 2; i++) {
            struct gpuring_verbs_rail rail = world_rail(&two->end[i], r);

            assert_int_equal(rail.state,
                             rails[r] != NULL ? GPURING_VERBS_UP : GPURING_VERBS_UNUSED);
            if (rails[r] != NULL) {
                assert_string_equal(rail.port->adapter->name, rails[r]);
            }
        }
    }
    for (int i = 0; i < 2; i++) {
        lane_end_destroy(&two->end[i], 0);
        gpuring_net_verbs.close(two->net[i]);
    }
    assert_int_equal(fake_verbs_objects(), 0);
    assert_int_equal(fake_verbs_violations(), 0);
}

/* With two subnets, only ports of one subnet are connected, including spares. */
static void test_two_subnets(void **state)
{
    static const struct {
        const char *hca[2];
        int device[2], qps;
        const char *rails[3];
    } cases[] = {
        {{"all", "all"}, {0, 0}, 1, {"ib0", "ib1"}},
        {{"all", "all"}, {1, 0}, 1, {"ib0", "ib1"}}, /* crossed rails */
        {{"all", "ib1"}, {0, 0}, 1, {"ib1", NULL}},  /* the peer has one port */
        {{"ib0", "all"}, {0, 1}, 1, {"ib0", NULL}},
        {{"all", "all"}, {1, 1}, 2, {"ib1", "ib1", "ib0"}},
        {{"all", "ib1"}, {0, 0}, 2, {"ib1", NULL, NULL}}, /* lanes that cannot be connected */
    };
    struct two_ends two;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        two_ends_open(&two, cases[i].hca, cases[i].device, cases[i].qps);
        assert_int_equal(two.status, GPURING_OK);
        two_ends_close(&two, (unsigned) cases[i].qps + 1, cases[i].rails);
    }
    two_ends_open(&two, (const char *const[]){"ib0", "ib1"}, (const int[]){0, 0}, 1);
    assert_int_equal(two.status, GPURING_ERR_PEER);
    assert_true(log_has("[rdma-networks]"));
    two_ends_close(&two, 0, NULL);
}

static int made, gate_taken;

static void look_at_gate(void)
{
    made++;
    if (pthread_mutex_trylock(&world_defaults.gate->mutex) == 0) {
        pthread_mutex_unlock(&world_defaults.gate->mutex);
    } else {
        gate_taken++;
    }
}

/* Making connections takes long and does not stop the communication of other communicators. */
static void test_gate_is_free(void **state)
{
    const struct fake_device devices[] = {world_roce, world_roce_next};
    struct gpuring_net_config config = world_defaults;
    struct gpuring_net *net;
    struct lane_end ends[2];

    fake_verbs_reset(devices, 2, &world_no_faults);
    config.verbs_spares = 1;
    assert_int_equal(gpuring_net_verbs.open(&config, &net), GPURING_OK);
    fake_verbs_watch(look_at_gate);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(lane_end_create(&ends[i], &gpuring_net_verbs, net, i, NULL,
                                         i == 0 ? GPURING_NET_SEND : GPURING_NET_RECV, WORLD_NSLOTS,
                                         WORLD_SLOT_BYTES),
                         GPURING_OK);
    }
    assert_int_equal(lane_connect(&ends[0], net, "rank 0", &ends[1], net, "rank 1"), GPURING_OK);
    for (int i = 0; i < 2; i++) {
        lane_end_destroy(&ends[i], 0);
    }
    gpuring_net_verbs.close(net);
    assert_true(made >= 2 * 2 * 4); /* per rail, a queue pair in three states, a registration */
    assert_int_equal(gate_taken, 0);
    assert_int_equal(fake_verbs_objects(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_pure_functions, clear_log),
        cmocka_unit_test_setup(test_discovery, clear_log),
        cmocka_unit_test_setup(test_only_old_roce, clear_log),
        cmocka_unit_test_setup(test_candidates, clear_log),
        cmocka_unit_test_setup(test_no_uverbs, clear_log),
        cmocka_unit_test_setup(test_partition_and_mtu, clear_log),
        cmocka_unit_test_setup(test_slow_ports, clear_log),
        cmocka_unit_test_setup(test_order_of_networks, clear_log),
        cmocka_unit_test_setup(test_two_subnets, clear_log),
        cmocka_unit_test_setup(test_gate_is_free, clear_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
