/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Test lists of network devices, and reading them from an invented /sys. */
#include "test/unit/unit.h"

#include <arpa/inet.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mca/coll_gpuring/net/net_list.h"
#include "mca/coll_gpuring/util/status.h"

TEST(test_selects)
{
    static const struct {
        const char *list, *name;
        int port;
        bool selected;
    } cases[] = {
        {NULL, "mlx5_0", 1, true},
        {"", "mlx5_0", 1, true},
        {"all", "mlx5_0", 1, true},
        {"mlx5_0", "mlx5_0", 2, true},
        {"mlx5_0", "mlx5_1", 1, false},
        {"mlx5_0", "mlx5_01", 1, false},
        {"mlx5_1", "mlx5_10", 1, false},
        {"mlx5_*", "mlx5_10", 1, true},
        {"mlx5_*,eth0", "eth0", 1, true},
        {"mlx5_*:2", "mlx5_10", 1, false},
        {"mlx5_*:2", "mlx5_10", 2, true},
        {"mlx5_0:1,^mlx5_2", "mlx5_0", 1, true},
        {"mlx5_0:1,^mlx5_2", "mlx5_0", 2, false},
        {"mlx5_0:1,^mlx5_2", "mlx5_2", 1, false},
        {"mlx5_0:1,^mlx5_2", "mlx5_3", 1, false},
        {"mlx5_*,^mlx5_2:1", "mlx5_2", 1, false},
        {"mlx5_*,^mlx5_2:1", "mlx5_2", 2, true},
        {"^mlx5_2", "mlx5_0", 1, true},
        {"^mlx5_2", "mlx5_2", 1, false},
        {"^mlx5_2,mlx5_3", "mlx5_3", 1, false},
        {"^mlx5_2,mlx5_3", "mlx5_4", 1, true},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (gpuring_net_list_selects(cases[i].list, cases[i].name, cases[i].port) !=
            cases[i].selected) {
            fail_msg("case %zu: list \"%s\", device %s:%d", i, cases[i].list, cases[i].name,
                     cases[i].port);
        }
    }
}

TEST(test_valid)
{
    static const char *const good[] = {"", "all", "a", "a:1,b:2", "^a,b*", "a,^b:12"};
    static const struct {
        const char *list;
        long bad;
    } wrong[] = {{",", 0},     {"a,", 1},   {"a:", 1}, {"a:x", 1},  {"a:1x", 1}, {"^", 0},
                 {"a,^,b", 2}, {"a,,b", 2}, {":1", 0}, {"a:-1", 1}, {"b:+1", 1}};
    const char *bad;

    assert_true(gpuring_net_list_valid(NULL, &bad));
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(gpuring_net_list_valid(good[i], &bad));
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (gpuring_net_list_valid(wrong[i].list, &bad) || bad - wrong[i].list != wrong[i].bad) {
            fail_msg("\"%s\" was accepted, or blamed elsewhere", wrong[i].list);
        }
    }
}

static char root[] = "/tmp/gpuring-test-XXXXXX";

static void put_folder(const char *path)
{
    char full[PATH_MAX];

    for (const char *at = strchr(path, '/'); at != NULL; at = strchr(at + 1, '/')) {
        snprintf(full, sizeof full, "%s/%.*s", root, (int) (at - path), path);
        mkdir(full, 0700);
    }
}

static void put_file(const char *path, const char *text)
{
    char full[PATH_MAX];
    FILE *file;

    put_folder(path);
    snprintf(full, sizeof full, "%s/%s", root, path);
    file = fopen(full, "w");
    assert_non_null(file);
    fprintf(file, "%s\n", text);
    fclose(file);
}

static void put_link(const char *path, const char *target)
{
    char full[PATH_MAX];

    put_folder(path);
    snprintf(full, sizeof full, "%s/%s", root, path);
    assert_int_equal(symlink(target, full), 0);
}

static void put_gid(const char *device, int number, const char *gid, const char *type,
                    const char *interface)
{
    static const char *const folders[] = {"gids", "gid_attrs/types", "gid_attrs/ndevs"};
    const char *texts[] = {gid, type, interface};
    char path[256];

    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "class/infiniband/%s/ports/1/%s/%d", device, folders[i],
                 number);
        put_file(path, texts[i]);
    }
}

static int make_root(void **state)
{
    if (mkdtemp(root) == NULL) {
        return -1;
    }
    put_file("class/net/bond0/operstate", "down");
    put_file("class/net/eth0/operstate", "up");
    put_file("class/net/eth0/type", "1");
    put_link("class/net/eth0/device", "../../../devices/pci0000:00/0000:17:00.1");
    put_file("class/net/a-lo/operstate", "unknown");
    put_file("class/net/a-lo/type", "772");
    put_file("class/net/tap1/operstate", "up");
    put_file("class/net/tap1/type", "1");
    put_file("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
    put_file("class/infiniband/mlx5_0/ports/2/state", "1: DOWN");
    put_link("class/infiniband/mlx5_0/device", "../../../0000:3b:00.0");
    put_file("class/infiniband/rxe0/ports/1/state", "4: ACTIVE");
    put_file("class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand");
    put_gid("mlx5_0", 0, "fec0:0000:0000:0007:0002:c903:00a1:b2c4", "IB/RoCE v1", "");
    put_file("class/infiniband/rxe0/ports/1/link_layer", "Ethernet");
    put_gid("rxe0", 0, "fe80:0000:0000:0000:5054:00ff:fe77:0001", "RoCE v2", "lo");
    put_gid("rxe0", 1, "0000:0000:0000:0000:0000:ffff:7f00:0001", "IB/RoCE v1", "lo");
    put_gid("rxe0", 2, "0000:0000:0000:0000:0000:ffff:7f00:0001", "RoCE v2", "lo");
    put_file("class/infiniband/efa_0/ports/1/state", "4: ACTIVE");
    put_file("class/infiniband/efa_0/ports/1/link_layer", "Unknown");
    put_gid("efa_0", 0, "fe80:0000:0000:0000:0002:00ff:fe77:0001", "", "");
    put_gid("rxe0", 3, "0000:0000:0000:0000:0000:0000:0000:0000", "RoCE v2", "lo");
    return 0;
}

static int remove_root(void **state)
{
    char command[64];

    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

TEST(test_interfaces)
{
    struct gpuring_net_devices devices = {.count = 0};

    assert_int_equal(gpuring_net_devices_ip(root, NULL, &devices), GPURING_OK);
    assert_int_equal(devices.count, 2);
    assert_string_equal(devices.device[0].name, "eth0");
    assert_string_equal(devices.device[0].pci_bus_id, "0000:17:00.1");
    assert_string_equal(devices.device[1].name, "tap1");
    assert_string_equal(devices.device[1].pci_bus_id, "");
    free(devices.device);
}

TEST(test_only_loopback)
{
    struct gpuring_net_devices devices = {.count = 0};

    assert_int_equal(gpuring_net_devices_ip(root, "a-lo", &devices), GPURING_OK);
    assert_int_equal(devices.count, 1);
    assert_string_equal(devices.device[0].name, "a-lo");
    free(devices.device);
}

TEST(test_ports)
{
    struct gpuring_net_devices devices = {.count = 0};

    assert_int_equal(gpuring_net_devices_rdma(root, "^efa_0", &devices), GPURING_OK);
    assert_int_equal(devices.count, 2); /* the port that is down is not there */
    assert_string_equal(devices.device[0].name, "mlx5_0");
    assert_string_equal(devices.device[0].pci_bus_id, "0000:3b:00.0");
    assert_int_equal(devices.device[0].port, 1);
    assert_string_equal(devices.device[1].name, "rxe0");
    assert_false(gpuring_net_only_software(root)); /* one of them is */
    assert_false(gpuring_net_only_software("/nothing"));
    free(devices.device);
}

/* The ports that a process announces. */
TEST(test_nics)
{
    static const uint8_t infiniband[16] = {0xfe, 0xc0, 0,    0, 0, 0,    0,    7,
                                           0,    2,    0xc9, 3, 0, 0xa1, 0xb2, 0xc4};
    static const uint8_t loopback[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};
    struct gpuring_nic nics[GPURING_NICS_MAX];

    assert_int_equal(gpuring_nics_find(root, NULL, 0, nics), 2); /* not EFA */
    assert_string_equal(nics[0].name, "mlx5_0");
    assert_memory_equal(nics[0].gid, infiniband, sizeof infiniband);
    assert_int_equal(nics[0].link, GPURING_NIC_INFINIBAND);
    assert_int_equal(nics[0].port, 1);
    assert_string_equal(nics[1].name, "rxe0");
    assert_int_equal(nics[1].link, GPURING_NIC_ETHERNET);
    assert_memory_equal(nics[1].gid, loopback, sizeof loopback);
    assert_int_equal(nics[1].bits, 96 + 8); /* 127.0.0.0/8 */
    assert_int_equal(nics[0].bits, 0);
    assert_int_equal(gpuring_nics_find(root, "rxe0", 0, nics), 1);
    assert_string_equal(nics[0].name, "rxe0");
    /* As the net takes it: also one of RoCE version 1; none is not announced. */
    assert_int_equal(gpuring_nics_find(root, "rxe0", 1 + 0, nics), 1);
    assert_int_equal(nics[0].gid[0], 0xfe);
    assert_int_equal(gpuring_nics_find(root, "rxe0", 1 + 1, nics), 1);
    assert_memory_equal(nics[0].gid, loopback, sizeof loopback);
    assert_int_equal(gpuring_nics_find(root, "rxe0", 1 + 3, nics), 0);
    assert_int_equal(gpuring_nics_find(root, "mlx5_0", 1 + 200, nics), 0);
    assert_int_equal(gpuring_nics_find("/nowhere", NULL, 0, nics), 0);
}

/* More ports than are announced: the first ones. */
TEST(test_many_nics)
{
    struct gpuring_nic nics[GPURING_NICS_MAX];
    char path[256];

    for (int i = 10; i < 10 + GPURING_NICS_MAX + 2; i++) {
        snprintf(path, sizeof path, "many/class/infiniband/ib%d/ports/1/state", i);
        put_file(path, "4: ACTIVE");
        snprintf(path, sizeof path, "many/class/infiniband/ib%d/ports/1/link_layer", i);
        put_file(path, "InfiniBand");
    }
    snprintf(path, sizeof path, "%s/many", root);
    assert_int_equal(gpuring_nics_find(path, NULL, 0, nics), GPURING_NICS_MAX);
    assert_string_equal(nics[0].name, "ib10");
    assert_string_equal(nics[GPURING_NICS_MAX - 1].name, "ib25");
}

TEST(test_hidden_sys)
{
    struct gpuring_net_devices devices = {.count = 0};

    assert_int_equal(gpuring_net_devices_rdma("/nowhere", NULL, &devices), GPURING_OK);
    assert_int_equal(gpuring_net_devices_ip("/nowhere", NULL, &devices), GPURING_OK);
    assert_int_equal(devices.count, 0);
}

TEST_GROUP(make_root, remove_root)
