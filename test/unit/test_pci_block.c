/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Test the cost model of our executor: times of thread blocks on the GPUs of one node. */
#include "test/unit/unit.h"

#include <math.h>
#include <string.h>

#include "mca/topo_pci/predict/pci_predict.h"

#define RING     PCI_ALGORITHM_RING
#define TREE     PCI_ALGORITHM_TREE
#define DIRECT   PCI_ALGORITHM_DIRECT
#define TWO_SHOT PCI_ALGORITHM_TWO_SHOT
#define SIMPLE   PCI_PROTOCOL_SIMPLE
#define LL       PCI_PROTOCOL_LL
#define LL128    PCI_PROTOCOL_LL128
#define MIB      (UINT64_C(1) << 20)

static struct pci_costs costs_gpu(void)
{
    struct pci_costs costs;

    assert_int_equal(pci_costs_gpu(&costs), 0);
    return costs;
}

static void assert_close(double got, double want, double part)
{
    if (!(fabs(got - want) <= part * fabs(want))) {
        fail_msg("got %.9g, want %.9g", got, want);
    }
}

/* A job on eight H100 with NVSwitch. */
static struct pci_job switch_job(void)
{
    const struct pci_job_graph all = {
        .channels = 16, .bw_intra = 22.5, .bw_inter = 22.5, .nvlink = true, .ll128 = true};

    return (struct pci_job){.nodes = 1,
                            .ranks = 8,
                            .channels = 32,
                            .sm = 90,
                            .generation = PCI_GENERATION_SM90,
                            .ring = all,
                            .tree = all,
                            .direct = {.algbw = 360.0 / 7, .nvlink = true},
                            .protocols = UINT32_MAX};
}

static struct pci_parts parts_of(const struct pci_costs *costs, const struct pci_job *job,
                                 enum pci_algorithm a, enum pci_protocol p, uint64_t bytes)
{
    struct pci_parts parts;

    assert_true(pci_predict_parts(costs, job, a, p, bytes, &parts));
    return parts;
}

static double us(const struct pci_costs *costs, const struct pci_job *job, enum pci_algorithm a,
                 enum pci_protocol p, uint64_t bytes)
{
    return pci_predict_us(costs, job, a, p, bytes);
}

/* For the shortest call, one block is enough, the parts of the time add up, and LL saves a fence.
 */
TEST(test_shortest)
{
    struct pci_costs costs = costs_gpu();
    struct pci_job job = switch_job();
    struct pci_parts parts = parts_of(&costs, &job, DIRECT, LL, 8);

    assert_int_equal(parts.channels, 1);
    assert_close(us(&costs, &job, DIRECT, LL, 8),
                 parts.us[0] + parts.us[1] + parts.us[2] + parts.us[3], 1e-9);
    assert_true(us(&costs, &job, DIRECT, SIMPLE, 8) > us(&costs, &job, DIRECT, LL, 8) + 0.5);
}

/* The bandwidth of a block is its bytes in flight divided by the latency, about 20 GB/s, so one
 * block cannot fill a link. */
TEST(test_blocks)
{
    struct pci_costs costs = costs_gpu();
    struct pci_job job = switch_job();
    struct pci_parts parts;

    job.channels = 1;
    parts = parts_of(&costs, &job, RING, SIMPLE, 256 * MIB);
    assert_string_equal(parts.limit, "blocks");
    assert_true(us(&costs, &job, RING, SIMPLE, 256 * MIB) > 2.0 * 7 / 8 * 256 * MIB / 40e3);
    job.channels = 32;
    parts = parts_of(&costs, &job, RING, SIMPLE, 256 * MIB);
    assert_string_equal(parts.limit, "links");
    assert_close(parts.us[PCI_PART_DATA], 2.0 * 7 / 8 * 256 * MIB / 360e3, 1e-9);
    assert_true(parts.channels > 12 && parts.channels <= 32);
    /* Direct is slow for large vectors, because memory allows only eight stripes, and each block
     * loads many bytes. */
    assert_int_equal(pci_direct_stripes(8, 32), 8);
    assert_int_equal(pci_direct_stripes(16, 1), 1);
    assert_int_equal(pci_two_shot_stripes(8, 32), 20);
    assert_int_equal(pci_two_shot_stripes(8, 16), 16);
    assert_int_equal(pci_two_shot_stripes(16, 1), 1);
    assert_int_equal(pci_direct_lanes(8, 32), 4);
    assert_int_equal(pci_direct_lanes(8, 26), 4);
    assert_int_equal(pci_direct_lanes(64, 26), 26);
    assert_int_equal(pci_direct_lanes(2, 26), 1);
    assert_int_equal(pci_direct_lanes(3, 0), 1);
    assert_true(us(&costs, &job, DIRECT, SIMPLE, 256 * MIB) >
                3 * us(&costs, &job, RING, SIMPLE, 256 * MIB));
    /* Slices hide waiting, where blocks are the limit. */
    job.channels = 4;
    parts = parts_of(&costs, &job, RING, SIMPLE, 256 * MIB);
    costs.executor[SIMPLE][PCI_EXECUTOR_SLICES] = 1;
    assert_true(parts.us[PCI_PART_DATA] <
                0.95 * parts_of(&costs, &job, RING, SIMPLE, 256 * MIB).us[PCI_PART_DATA]);
}

/* Two-shot has more stripes than direct in about the same memory, so that links limit 1 MiB. */
TEST(test_two_shot)
{
    struct pci_costs costs = costs_gpu();
    struct pci_job job = switch_job();
    struct pci_parts parts = parts_of(&costs, &job, TWO_SHOT, SIMPLE, MIB);

    assert_int_equal(pci_two_shot_slot(56, 32768), 32768);
    assert_in_range(140 * pci_two_shot_slot(140, 32768), 55 * 32768, 56 * 32768);
    assert_int_equal(parts.channels, 20);
    assert_string_equal(parts.limit, "links");
    assert_true(parts.total < 20.5);
    assert_int_equal(parts_of(&costs, &job, TWO_SHOT, LL, 8).channels, 1);
    /* The slots of two-shot are short, so large vectors have many windows. */
    assert_true(us(&costs, &job, TWO_SHOT, SIMPLE, 16 * MIB) < 100);
}

/* Mapped buffers save two moves of the data, and the instructions of two steps. The links still
 * carry the same bytes. */
TEST(test_mapped)
{
    struct pci_costs costs = costs_gpu();
    struct pci_job job = switch_job(), mapped = job;
    struct pci_parts parts;

    mapped.mapped = true;
    parts = parts_of(&costs, &mapped, TWO_SHOT, SIMPLE, MIB);
    assert_string_equal(parts.limit, "links");
    assert_true(parts.total < parts_of(&costs, &job, TWO_SHOT, SIMPLE, MIB).total - 1);
    assert_close(us(&costs, &mapped, TWO_SHOT, LL, MIB), us(&costs, &job, TWO_SHOT, LL, MIB), 1e-9);
    assert_true(us(&costs, &mapped, TWO_SHOT, SIMPLE, 8) > us(&costs, &job, DIRECT, LL, 8));
    job =
        (struct pci_job){.nodes = 1, .ranks = 1, .channels = 16, .sm = 90, .protocols = UINT32_MAX};
    job.ring.channels = 1;
    pci_job_share(&job, 4);
    mapped = job;
    mapped.mapped = true;
    /* Within a GPU, a part of the accesses of its memory is saved. */
    assert_true(us(&costs, &mapped, TWO_SHOT, SIMPLE, 64 * MIB) <
                0.6 * us(&costs, &job, TWO_SHOT, SIMPLE, 64 * MIB));
}

/* As many channels as the links need on each GPU. */
TEST(test_lanes)
{
    struct pci_costs costs = costs_gpu();
    uint32_t h100 = pci_lanes(&costs, 90, 132, 16, 360), a100 = pci_lanes(&costs, 80, 108, 12, 240);

    assert_true(h100 >= 20 && h100 <= 32);
    assert_true(a100 >= 12 && a100 <= 24);
    assert_int_equal(pci_lanes(&costs, 90, 132, 1, 0), 16);
    assert_int_equal(pci_lanes(&costs, 90, 8, 1, 360), 8);
    assert_int_equal(pci_lanes(&costs, 90, 8, 12, 360), 12); /* never fewer than were found */
    assert_int_equal(pci_sms(&costs, 90), 132);
    assert_int_equal(pci_sms(&costs, 103), pci_sms(&costs, 100));
    assert_int_equal(pci_sms(&costs, 60), pci_sms(&costs, 70));
}

/* Ranks on one GPU use no links. The memory of the GPU is the limit, and each rank gets a part of
 * its bandwidth. */
TEST(test_sharing)
{
    struct pci_costs costs = costs_gpu();
    struct pci_job job = {
        .nodes = 1, .ranks = 1, .channels = 16, .sm = 90, .protocols = UINT32_MAX};
    double two, eight;

    job.ring.channels = 1;
    pci_job_share(&job, 2);
    assert_int_equal(job.ranks, 2);
    two = us(&costs, &job, RING, SIMPLE, 256 * MIB);
    pci_job_share(&job, 4);
    job.sharing = 8;
    eight = us(&costs, &job, RING, SIMPLE, 256 * MIB);
    assert_string_equal(parts_of(&costs, &job, RING, SIMPLE, 256 * MIB).limit, "memory");
    assert_true(eight > 3 * two && isfinite(us(&costs, &job, DIRECT, LL, 8)));
    assert_true(isinf(us(&costs, &job, DIRECT, LL128, 8))); /* no NVLink */
}

/* Return the bus bandwidth in GB/s of the best combination for 256 MiB on eight H100. */
static double bus(const struct pci_costs *costs, enum pci_collective collective)
{
    struct pci_job job = switch_job();
    struct pci_choice choice;

    job.collective = collective;
    assert_int_equal(pci_predict_best(costs, &job, UINT32_MAX, 256 * MIB, &choice), 0);
    return 256.0 * MIB / choice.us / 1e3 * pci_collective_bus(collective, job.ranks);
}

/* The model must predict the bandwidths that the design aims at. */
TEST(test_wanted)
{
    struct pci_costs costs = costs_gpu();

    assert_true(bus(&costs, PCI_COLLECTIVE_ALLREDUCE) > 340);
    assert_true(bus(&costs, PCI_COLLECTIVE_ALLGATHER) > 340);
    assert_true(bus(&costs, PCI_COLLECTIVE_REDUCE_SCATTER) > 340);
    assert_true(bus(&costs, PCI_COLLECTIVE_ALLTOALL) > 300);
    assert_true(bus(&costs, PCI_COLLECTIVE_BCAST) > 0.8 * 360);
    assert_true(bus(&costs, PCI_COLLECTIVE_REDUCE) > 0.8 * 360);
}

/* Test which algorithms a collective has, and that a collective that moves half as many bytes takes
 * half as long. */
TEST(test_collectives)
{
    struct pci_costs costs = costs_gpu();
    struct pci_job job = switch_job();
    struct pci_choice choice;
    double allreduce = us(&costs, &job, RING, SIMPLE, 256 * MIB);

    for (int c = 0; c < PCI_COLLECTIVE_COUNT; c++) {
        job.collective = (enum pci_collective) c;
        assert_int_equal(pci_collective_parse(pci_collective_name(job.collective)), c);
        assert_int_equal(pci_predict_best(&costs, &job, UINT32_MAX, 256 * MIB, &choice), 0);
        /* No more than the links carry. */
        assert_true(256.0 * MIB / choice.us / 1e3 * pci_collective_bus(job.collective, 8) < 361);
    }
    assert_int_equal(pci_collective_parse("barrier"), -1);
    assert_null(pci_collective_name(PCI_COLLECTIVE_COUNT));
    job.collective = PCI_COLLECTIVE_ALLGATHER;
    assert_true(us(&costs, &job, RING, SIMPLE, 256 * MIB) < 0.55 * allreduce);
    assert_true(isinf(us(&costs, &job, TREE, SIMPLE, MIB)));
    job.collective = PCI_COLLECTIVE_BCAST;
    assert_true(isinf(us(&costs, &job, TREE, SIMPLE, MIB)));
    assert_true(us(&costs, &job, DIRECT, LL, 8) < us(&costs, &job, RING, LL, 8));
    assert_true(us(&costs, &job, DIRECT, SIMPLE, 256 * MIB) >
                3 * us(&costs, &job, RING, SIMPLE, 256 * MIB));
    job.collective = PCI_COLLECTIVE_ALLTOALL;
    assert_true(isinf(us(&costs, &job, RING, SIMPLE, MIB)));
    job.nodes = 2; /* there is no formula */
    assert_true(isinf(us(&costs, &job, DIRECT, SIMPLE, MIB)));
    assert_close(pci_collective_bus(PCI_COLLECTIVE_ALLREDUCE, 8), 1.75, 1e-9);
}

/* The reference table does not model the executor, and a table file can disable it. */
TEST(test_reference)
{
    struct pci_costs costs = costs_gpu(), reference;
    struct pci_job job = switch_job();
    struct pci_parts parts;
    const char *off = "gpu * * 0\n",
               *more = "executor simple slices,chunk 524288 4\ngpu sm90 load 0.5";

    assert_int_equal(pci_costs_reference(&reference), 0);
    assert_false(pci_predict_parts(&reference, &job, RING, SIMPLE, MIB, &parts));
    assert_int_equal(pci_costs_parse(off, strlen(off), &costs, NULL, 0), 0);
    assert_close(us(&costs, &job, RING, SIMPLE, MIB), us(&reference, &job, RING, SIMPLE, MIB), 0);
    assert_int_equal(pci_costs_parse(more, strlen(more), &costs, NULL, 0), 0);
    assert_close(costs.executor[SIMPLE][PCI_EXECUTOR_CHUNK], 524288, 0);
    assert_close(costs.executor[SIMPLE][PCI_EXECUTOR_SLICES], 4, 0);
    assert_true(pci_predict_parts(&costs, &job, RING, SIMPLE, MIB, &parts));
}
