/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Test the cost model: its formula, its choice of algorithms, and its tables. */
#include "test/unit/unit.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mca/topo_pci/predict/pci_predict.h"

#define RING     PCI_ALGORITHM_RING
#define TREE     PCI_ALGORITHM_TREE
#define DIRECT   PCI_ALGORITHM_DIRECT
#define TWO_SHOT PCI_ALGORITHM_TWO_SHOT
#define SIMPLE   PCI_PROTOCOL_SIMPLE
#define LL       PCI_PROTOCOL_LL
#define LL128    PCI_PROTOCOL_LL128

static struct pci_costs costs_gpu(void)
{
    struct pci_costs costs;

    assert_int_equal(pci_costs_reference(&costs), 0);
    return costs;
}

static void assert_close(double got, double want, double part)
{
    if (!(fabs(got - want) <= part * fabs(want))) {
        fail_msg("got %.9g, want %.9g", got, want);
    }
}

/* Eight V100 of a hybrid cube mesh: six channels of 20 GB/s. */
static struct pci_job cube_job(void)
{
    return (struct pci_job){
        .nodes = 1,
        .ranks = 8,
        .channels = 12,
        .generation = PCI_GENERATION_SM70,
        .host = PCI_HOST_INTEL,
        .ring = {.channels = 6, .bw_intra = 20, .bw_inter = 20, .nvlink = true, .ll128 = true},
        .tree = {.channels = 6, .bw_intra = 20, .bw_inter = 20, .nvlink = true, .ll128 = true},
        .protocols = UINT32_MAX};
}

/* ---- the model ------------------------------------------------------------------------------- */

TEST(test_formula)
{
    struct pci_costs costs = costs_gpu();
    struct pci_job job = cube_job();

    assert_close(pci_predict_us(&costs, &job, RING, SIMPLE, UINT64_C(1) << 30),
                 8.4 + 14 * 3.4 + 1073741824.0 / (120e3 * 8 / 14), 1e-9);
    assert_close(pci_predict_us(&costs, &job, TREE, LL, 1024),
                 6.8 + 14 * 0.6 + 1024 / (120e3 * 0.92 / 3.8 / 2 * 0.9), 1e-6);
    assert_close(pci_predict_us(&costs, &job, RING, LL, 0), 6.6 + 14 * 0.6, 1e-9);
}

/* Between nodes, a broadcast is half of an allreduce, and other collectives are not modelled. */
TEST(test_one_way)
{
    struct pci_costs costs = costs_gpu();
    struct pci_job all = cube_job(), bcast;

    all.nodes = 4;
    all.ranks = 32;
    bcast = all;
    bcast.collective = PCI_COLLECTIVE_BCAST;
    for (int a = RING; a <= TREE; a++) {
        enum pci_algorithm algorithm = (enum pci_algorithm) a;
        double base = costs.base[a][LL];

        assert_close(2 * (pci_predict_us(&costs, &bcast, algorithm, LL, 1) - base),
                     pci_predict_us(&costs, &all, algorithm, LL, 1) - base, 1e-4);
        assert_close(pci_predict_us(&costs, &bcast, algorithm, LL, UINT64_C(1) << 34) * 62 / 32,
                     pci_predict_us(&costs, &all, algorithm, LL, UINT64_C(1) << 34), 1e-3);
    }
    assert_true(isinf(pci_predict_us(&costs, &bcast, DIRECT, LL, 1)));
    bcast.collective = PCI_COLLECTIVE_ALLGATHER;
    assert_true(isinf(pci_predict_us(&costs, &bcast, RING, LL, 1)));
    bcast.collective = PCI_COLLECTIVE_BCAST;
    bcast.nodes = 1; /* without the executor's model */
    assert_true(isinf(pci_predict_us(&costs, &bcast, RING, LL, 1)));
}

TEST(test_offers)
{
    struct pci_costs costs = costs_gpu();
    struct pci_job job = cube_job();
    struct pci_choice choice;

    assert_true(isinf(pci_predict_us(&costs, &job, TWO_SHOT, SIMPLE, 1024)));
    assert_true(isinf(pci_predict_us(&costs, &job, DIRECT, LL, 1024)));
    assert_true(isinf(pci_predict_us(&costs, &job, PCI_ALGORITHM_COUNT, LL, 1024)));
    job.ring.ll128 = false;
    assert_true(isinf(pci_predict_us(&costs, &job, RING, LL128, 1024)));
    assert_false(isinf(pci_predict_us(&costs, &job, TREE, LL128, 1024)));
    job.protocols = 1u << LL;
    assert_true(isinf(pci_predict_us(&costs, &job, RING, SIMPLE, 1024)));
    assert_false(isinf(pci_predict_us(&costs, &job, RING, LL, 1024)));
    assert_int_equal(pci_predict_best(&costs, &job, 1u << TWO_SHOT, 1024, &choice), -ENOENT);
    job.ranks = 1;
    assert_int_equal(pci_predict_best(&costs, &job, UINT32_MAX, 1024, &choice), -ENOENT);
}

/* Three GPUs, each with 40 GB/s to both others, and rings over half of that. Direct wins where
 * only latency counts. */
TEST(test_choice)
{
    struct pci_costs costs = costs_gpu();
    struct pci_job job = cube_job();
    struct pci_choice choice;

    job.ranks = 3;
    job.ring.channels = job.tree.channels = 2;
    job.direct.algbw = 40;
    job.direct.nvlink = true;
    job.channels = 24; /* for several stripes */
    assert_int_equal(pci_predict_best(&costs, &job, UINT32_MAX, 1024, &choice), 0);
    assert_int_equal(choice.algorithm, DIRECT);
    assert_int_equal(choice.protocol, LL);
    assert_int_equal(pci_predict_best(&costs, &job, UINT32_MAX, UINT64_C(1) << 30, &choice), 0);
    assert_int_equal(choice.algorithm, TWO_SHOT);
    assert_int_equal(choice.protocol, SIMPLE);
    assert_int_equal(choice.channels, 24);
    assert_int_equal(pci_predict_best(&costs, &job, 1u << RING, UINT64_C(1) << 30, &choice), 0);
    assert_int_equal(choice.algorithm, RING);
}

TEST(test_channels)
{
    struct pci_costs costs = costs_gpu();
    struct pci_job job = cube_job();

    assert_int_equal(pci_predict_channels(&costs, &job, RING, LL, 0), 1);
    assert_int_equal(pci_predict_channels(&costs, &job, RING, LL, 65535), 1);
    assert_int_equal(pci_predict_channels(&costs, &job, RING, LL, 65536), 2);
    assert_int_equal(pci_predict_channels(&costs, &job, TREE, LL, 65536), 12);
    assert_int_equal(pci_predict_channels(&costs, &job, RING, SIMPLE, UINT64_MAX), 12);
    job.channels = 0;
    assert_int_equal(pci_predict_channels(&costs, &job, RING, SIMPLE, UINT64_MAX), 1);
}

TEST(test_names)
{
    assert_string_equal(pci_algorithm_label(TWO_SHOT), "Two-shot");
    assert_string_equal(pci_protocol_label(LL128), "LL128");
    assert_null(pci_algorithm_label(PCI_ALGORITHM_COUNT));
    assert_null(pci_protocol_label(PCI_PROTOCOL_COUNT));
    assert_int_equal(pci_generation_of(70), PCI_GENERATION_SM70);
    assert_int_equal(pci_generation_of(86), PCI_GENERATION_SM80);
    assert_int_equal(pci_generation_of(90), PCI_GENERATION_SM90);
    assert_int_equal(pci_generation_of(120), PCI_GENERATION_SM100);
}

/* ---- table files ----------------------------------------------------------------------------- */

static int parse(const char *text, struct pci_costs *costs, char *error, size_t size)
{
    return pci_costs_parse(text, strlen(text), costs, error, size);
}

TEST(test_parse)
{
    struct pci_costs costs = costs_gpu();
    char error[100];

    assert_int_equal(parse("# a comment\n\n  hop ring ll nvlink 0.75 # and one here\n"
                           "factor * simple * 0.5 0.6 0.7\r\n"
                           "correction tree ll 10-12,20 1 2 3 4\nbase ring,tree simple 3",
                           &costs, error, sizeof(error)),
                     0);
    assert_close(costs.hop[RING][LL][PCI_HOP_NVLINK], 0.75, 0);
    assert_close(costs.hop[RING][LL][PCI_HOP_PCI], 1, 0);
    assert_close(costs.factor[TWO_SHOT][SIMPLE][PCI_SPAN_MORE], 0.7, 0);
    assert_close(costs.correction[TREE][LL][11], 2, 0);
    assert_close(costs.correction[TREE][LL][20], 4, 0);
    assert_close(costs.correction[TREE][LL][13], 0.7, 0);
    assert_close(costs.base[TREE][SIMPLE], 3, 0);
    assert_close(costs.base[TWO_SHOT][SIMPLE], 8.4, 0);
}

TEST(test_parse_errors)
{
    static const struct {
        const char *text, *error;
    } wrong[] = {
        {"bse ring ll 1\n", "line 1: unknown table 'bse'"},
        {"\n# x\nbase rng ll 1\n", "line 3: unknown algorithm 'rng'"},
        {"base ring ll\n", "line 1: 'base' takes 2 indices and a value"},
        {"base ring ll one\n", "line 1: 'one' is no finite number of 0 or more"},
        {"base ring ll -1\n", "line 1: '-1' is no finite number of 0 or more"},
        {"base ring ll inf\n", "line 1: 'inf' is no finite number of 0 or more"},
        {"base ring ll nan\n", "line 1: 'nan' is no finite number of 0 or more"},
        {"base ring ll 1e999\n", "line 1: '1e999' is no finite number of 0 or more"},
        {"base ring ll 1 2\n", "line 1: 2 values for 1 of protocol"},
        {"cap * ll * 1 2 3\n", "line 1: 3 values for 4 of generation"},
        {"correction tree ll 40 1\n", "line 1: unknown size '40'"},
        {"correction tree ll 12-10 1\n", "line 1: unknown size '12-10'"},
        {"correction tree ll x 1\n", "line 1: unknown size 'x'"},
        {"base ring, ll 1\n", "line 1: unknown algorithm 'ring,'"},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct pci_costs costs = costs_gpu(), same = costs;
        char error[100] = "";

        assert_int_equal(parse(wrong[i].text, &costs, error, sizeof(error)), -EINVAL);
        assert_string_equal(error, wrong[i].error);
        assert_memory_equal(&costs, &same, sizeof(costs));
        assert_int_equal(parse(wrong[i].text, &costs, NULL, 0), -EINVAL);
    }
}

/* Test too many words, a word that is too long, a null byte, and a message that does not fit. */
TEST(test_parse_limits)
{
    struct pci_costs costs = costs_gpu();
    char text[4096], error[100], tiny[4];

    memset(text, 'x', sizeof(text));
    assert_int_equal(pci_costs_parse(text, sizeof(text), &costs, error, sizeof(error)), -EINVAL);
    assert_non_null(strstr(error, "too long"));
    for (size_t i = 0; i < sizeof(text); i++) {
        text[i] = 0 == i % 2 ? '1' : ' ';
    }
    assert_int_equal(pci_costs_parse(text, sizeof(text), &costs, error, sizeof(error)), -EINVAL);
    assert_non_null(strstr(error, "words"));
    assert_int_equal(pci_costs_parse("base ri\0ng", 10, &costs, error, sizeof(error)), -EINVAL);
    assert_non_null(strstr(error, "null byte"));
    assert_int_equal(parse("x", &costs, tiny, sizeof(tiny)), -EINVAL);
    assert_string_equal(tiny, "lin");
    assert_int_equal(pci_costs_parse(NULL, 0, &costs, error, sizeof(error)), 0);
}

TEST(test_load)
{
    struct pci_costs costs = costs_gpu();
    char path[] = "pci_costs_XXXXXX", error[100];
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, "base ring ll 9\n", 15), 15);
    assert_int_equal(pci_costs_load(path, &costs, error, sizeof(error)), 0);
    assert_close(costs.base[RING][LL], 9, 0);
    assert_int_equal(ftruncate(fd, 2 << 20), 0);
    assert_int_equal(pci_costs_load(path, &costs, error, sizeof(error)), -E2BIG);
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(pci_costs_load(path, &costs, error, sizeof(error)), -ENOENT);
    assert_string_equal(error, "No such file or directory");
}
