/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Test the choice of the network that connects the nodes, from the announcements of all ranks. */
#include "test/unit/unit.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "mca/coll_gpuring/topology/net_choice.h"

static struct gpuring_nic port(enum gpuring_nic_link link, const char *gid, const char *name)
{
    struct gpuring_nic nic = {.port = 1, .link = (uint8_t) link};

    assert_int_equal(inet_pton(AF_INET6, gid, nic.gid), 1);
    snprintf(nic.name, sizeof nic.name, "%s", name);
    return nic;
}

#define RANKS 6

/* The announcement of a rank. */
struct rank {
    int node;
    bool verbs, ucx, failed;
    const struct gpuring_nic *nics;
    uint32_t nnics;
    const char *host;
};

static struct rank rank_of(int node, const char *host, const struct gpuring_nic *nics,
                           uint32_t nnics)
{
    return (struct rank){
        .node = node, .verbs = true, .ucx = true, .nics = nics, .nnics = nnics, .host = host};
}

static void announce(const struct rank *rank, struct gpuring_rank_info *rank_info)
{
    *rank_info = (struct gpuring_rank_info){.nnics = rank->nnics};
    snprintf(rank_info->hostname, sizeof rank_info->hostname, "%s", rank->host);
    rank_info->capabilities = (rank->verbs ? GPURING_CAPABILITY_VERBS : 0) |
                              (rank->ucx ? GPURING_CAPABILITY_UCX : 0) |
                              (rank->failed ? GPURING_CAPABILITY_RDMA_FAILED : 0);
    memcpy(rank_info->nics, rank->nics, rank->nnics * sizeof *rank->nics);
}

TEST(test_reach)
{
    struct gpuring_nic ib = port(GPURING_NIC_INFINIBAND, "fe80::1", "mlx5_0");
    struct gpuring_nic ib_same = port(GPURING_NIC_INFINIBAND, "fe80::2:3", "mlx5_0");
    struct gpuring_nic ib_other = port(GPURING_NIC_INFINIBAND, "fec0::1", "mlx5_1");
    struct gpuring_nic v4 = port(GPURING_NIC_ETHERNET, "::ffff:10.0.0.1", "rxe0");
    struct gpuring_nic v4_far = port(GPURING_NIC_ETHERNET, "::ffff:192.168.7.1", "rxe0");
    struct gpuring_nic v6 = port(GPURING_NIC_ETHERNET, "2001:db8::1", "rxe0");
    struct gpuring_nic local = port(GPURING_NIC_ETHERNET, "fe80::1", "rxe0");

    assert_true(gpuring_nic_reaches(&ib, &ib_same));
    assert_false(gpuring_nic_reaches(&ib, &ib_other));
    assert_false(gpuring_nic_reaches(&ib, &local)); /* the same GID on another wire */
    assert_true(gpuring_nic_reaches(&v4, &v4_far)); /* perhaps by a router: only trying shows */
    assert_false(gpuring_nic_reaches(&v4, &v6));
    assert_false(gpuring_nic_reaches(&local, &v6));
    assert_true(gpuring_nic_reaches(&local, &local));

    /* Two rails with one IP network each, which may be connected by a router. */
    assert_true(gpuring_nic_same_network(&v4, &v4_far)); /* as far as is known */
    v4.bits = v4_far.bits = 96 + 12;
    assert_false(gpuring_nic_same_network(&v4, &v4_far));
    assert_true(gpuring_nic_reaches(&v4, &v4_far));
    v4_far = port(GPURING_NIC_ETHERNET, "::ffff:10.15.7.1", "rxe0");
    v4_far.bits = v4.bits;
    assert_true(gpuring_nic_same_network(&v4, &v4_far));
    v4_far.gid[13] = 16; /* 10.16.7.1 differs in the last of 12 bits */
    assert_false(gpuring_nic_same_network(&v4, &v4_far));
    assert_true(gpuring_nic_same_network(&ib, &ib_same));
    assert_false(gpuring_nic_same_network(&ib, &ib_other));
}

static struct gpuring_nic ethernet[2], infiniband[2], both[2];

static void fill(void)
{
    ethernet[0] = port(GPURING_NIC_ETHERNET, "::ffff:10.0.0.1", "rxe0");
    ethernet[1] = port(GPURING_NIC_ETHERNET, "2001:db8::1", "rxe1");
    infiniband[0] = port(GPURING_NIC_INFINIBAND, "fe80::1", "mlx5_0");
    infiniband[1] = port(GPURING_NIC_INFINIBAND, "fec0::1", "mlx5_1");
    both[0] = infiniband[0];
    both[1] = ethernet[0];
}

static void expect(enum gpuring_param_net wish, const struct rank *ranks, int nranks,
                   const char *failed, enum gpuring_param_net kind, bool spare, const char *why)
{
    struct gpuring_rank_info blocks[RANKS];
    struct gpuring_gathered rank_infos = {
        .nranks = nranks, .bytes = sizeof blocks[0], .blocks = (uint8_t *) blocks};
    struct gpuring_net_choice choice;
    bool one_net = true;
    int node[RANKS];

    for (int i = 0; i < nranks; i++) {
        announce(&ranks[i], &blocks[i]);
        node[i] = ranks[i].node;
        one_net = one_net && ranks[i].nnics < 2;
    }
    gpuring_net_choose(wish, &rank_infos, node, failed, &choice);
    assert_int_equal(choice.one_net, one_net);
    assert_int_equal(choice.kind, kind);
    assert_int_equal(choice.spare, spare);
    if (strstr(choice.why, why) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", why, choice.why);
    }
}

TEST(test_auto)
{
    struct rank ranks[4];

    fill();
    for (int i = 0; i < 4; i++) {
        ranks[i] = rank_of(i / 2, i < 2 ? "a" : "b", ethernet, 2);
    }
    expect(GPURING_PARAM_NET_AUTO, ranks, 4, NULL, GPURING_PARAM_NET_VERBS, true, "rxe0:1");

    /* It was tried in vain. */
    expect(GPURING_PARAM_NET_AUTO, ranks, 4, "rank 3 on b reports: timed out",
           GPURING_PARAM_NET_MPI, false,
           "[rdma-failed] RDMA did not connect the ranks: rank 3 on b reports: timed out");

    /* Verbs is not used if one rank has no port or no verbs. */
    ranks[3].nnics = 0;
    expect(GPURING_PARAM_NET_AUTO, ranks, 4, NULL, GPURING_PARAM_NET_MPI, false,
           "[no-rdma-port] b ");
    ranks[3] = rank_of(1, "b", ethernet, 2);

    /* A process remembers a failed attempt, for all of its communicators. */
    ranks[2].failed = true;
    expect(GPURING_PARAM_NET_AUTO, ranks, 4, NULL, GPURING_PARAM_NET_MPI, false,
           "[rdma-failed] RDMA did not connect an earlier communicator of rank 2 on b");
    ranks[2].failed = false;
    ranks[1].verbs = false;
    /* UCX is selected according to the ports, if all ranks have both. */
    expect(GPURING_PARAM_NET_AUTO, ranks, 4, NULL, GPURING_PARAM_NET_UCX, true,
           "[no-verbs] rank 1 on a ");
    ranks[2].ucx = false;
    expect(GPURING_PARAM_NET_AUTO, ranks, 4, NULL, GPURING_PARAM_NET_MPI, false,
           "[no-verbs] rank 1 on a ");
    ranks[2].ucx = true;
    ranks[3].nnics = 0;
    expect(GPURING_PARAM_NET_AUTO, ranks, 4, NULL, GPURING_PARAM_NET_MPI, false,
           "[no-verbs] rank 1 on a ");
}

/* With ports of different networks, pairs on different nodes count, wherever they are in the
 * list. */
TEST(test_networks)
{
    struct rank ranks[6];

    fill();
    ranks[0] = rank_of(0, "a", infiniband, 2);
    ranks[1] = rank_of(1, "b", ethernet, 2);
    expect(GPURING_PARAM_NET_AUTO, ranks, 2, NULL, GPURING_PARAM_NET_MPI, false,
           "[rdma-networks] no RDMA port of a ");
    ranks[0] = rank_of(0, "a", both, 2);
    expect(GPURING_PARAM_NET_AUTO, ranks, 2, NULL, GPURING_PARAM_NET_VERBS, true, "mlx5_0");

    /* a reaches b and c, but b and c do not reach each other. */
    ranks[2] = rank_of(2, "c", infiniband, 1);
    expect(GPURING_PARAM_NET_AUTO, ranks, 3, NULL, GPURING_PARAM_NET_MPI, false,
           "[rdma-networks] no RDMA port of b ");

    /* Ranks of one node do not have to reach each other through the network, but those of different
     * nodes do. */
    ranks[0] = rank_of(0, "a", infiniband, 1);
    ranks[1] = rank_of(0, "a", infiniband + 1, 1);
    ranks[2] = rank_of(1, "b", infiniband, 1);
    expect(GPURING_PARAM_NET_AUTO, ranks, 2, NULL, GPURING_PARAM_NET_VERBS, true, "");
    expect(GPURING_PARAM_NET_AUTO, ranks, 3, NULL, GPURING_PARAM_NET_MPI, false, "of rank 1");
    ranks[2] = rank_of(1, "b", infiniband, 2);
    expect(GPURING_PARAM_NET_AUTO, ranks, 3, NULL, GPURING_PARAM_NET_VERBS, true, "");
}

/* All ranks make the same choice, because they have the same list, regardless of the order of their
 * own ports. */
TEST(test_asked)
{
    struct rank ranks[2];

    fill();
    ranks[0] = rank_of(0, "a", ethernet, 1);
    ranks[1] = rank_of(1, "b", ethernet, 0);
    expect(GPURING_PARAM_NET_UCX, ranks, 2, NULL, GPURING_PARAM_NET_UCX, false, "[net-asked]");
    expect(GPURING_PARAM_NET_MPI, ranks, 2, NULL, GPURING_PARAM_NET_MPI, false, "[net-asked]");
    expect(GPURING_PARAM_NET_VERBS, ranks, 2, NULL, GPURING_PARAM_NET_NONE, false,
           "[no-rdma-port] b ");
    expect(GPURING_PARAM_NET_NONE, ranks, 2, NULL, GPURING_PARAM_NET_NONE, false, "[net-none]");
    ranks[1] = rank_of(1, "b", ethernet, 1);
    expect(GPURING_PARAM_NET_VERBS, ranks, 2, NULL, GPURING_PARAM_NET_VERBS, false, "[net-asked]");
    ranks[1].ucx = false;
    expect(GPURING_PARAM_NET_UCX, ranks, 2, NULL, GPURING_PARAM_NET_NONE, false, "[no-ucx]");
}
