/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test properties of all machines on random ones, with different numbers of NVLinks in each
 * direction, missing NICs, trimmed GPUs, and refused peer-to-peer. Channels do not exceed their
 * links, totals do not exceed the bounds, rings and trees are valid, and predictions are finite.
 */
#include "test/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/bounds/pci_bound.h"
#include "mca/topo_pci/predict/pci_predict.h"
#include "pci_proof.h"
#include "pci_test.h"

#define MACHINES  1000u
#define MOST_GPUS 8u
#define ROUNDING  (1 + 1e-6)

static uint32_t rng = 20260915;

/* A number below LIMIT. */
static uint32_t any(uint32_t limit)
{
    rng ^= rng << 13; /* xorshift (Marsaglia, 2003) */
    rng ^= rng >> 17;
    rng ^= rng << 5;
    return rng % limit;
}

/* With one chance in ONE_IN. */
static bool now_and_then(uint32_t one_in)
{
    return 0 == any(one_in);
}

static bool common; /* all PCI links of the machine are alike, and fast; so are its NICs */

static const char *pci_attributes(void)
{
    static const char *const speeds[] = {"link_speed='8.0 GT/s PCIe' link_width='16'",
                                         "link_speed='16.0 GT/s PCIe' link_width='16'",
                                         "link_speed='32.0 GT/s PCIe' link_width='16'",
                                         "link_speed='16.0 GT/s PCIe' link_width='4'"};

    return common ? speeds[2] : speeds[any(sizeof(speeds) / sizeof(speeds[0]))];
}

/* Write GPU G of NGPUS with its NVLinks, to a switch or to other GPUs. Each direction has separate
 * numbers. */
static void write_gpu(FILE *file, uint32_t g, uint32_t ngpus, int sm, uint32_t nvlinks, bool gdr)
{
    fprintf(file,
            "<pci busid='%x:00.0' class='0x030200' %s><gpu dev='%u' rank='%u' sm='%d' gdr='%u'>",
            16 + g, pci_attributes(), g, g, sm, gdr);
    for (uint32_t other = 0; other < ngpus && nvlinks == 1; other++) {
        if (other != g && any(3) > 0) {
            fprintf(file, "<nvlink target='%x:00.0' count='%u' tclass='0x030200'/>", 16 + other,
                    1 + any(12));
        }
    }
    if (2 == nvlinks) {
        fprintf(file, "<nvlink target='ff:00.0' count='%u' tclass='0x068000'/>", 1 + any(12));
    }
    fprintf(file, "</gpu></pci>");
}

static void write_nic(FILE *file, uint32_t dev, bool gdr)
{
    static const uint32_t speeds[] = {25000, 100000, 200000, 400000};

    fprintf(file,
            "<pci busid='%x:00.0' class='0x020700' %s><nic><net name='mlx5_%u' dev='%u' "
            "speed='%u' port='1' guid='0x%x' gdr='%u'/></nic></pci>",
            128 + dev, pci_attributes(), dev, dev, speeds[common ? 3 : any(4)], 1 + dev, gdr);
}

/* Return a machine of one or two processors, with or without switches, as text that the caller
 * frees. */
static char *write_machine(uint32_t ngpus)
{
    static const int sms[] = {70, 80, 89, 90, 100};
    static const char *const cpus[] = {"vendor='GenuineIntel' familyid='6' modelid='106'",
                                       "vendor='GenuineIntel' familyid='6' modelid='143'",
                                       "vendor='AuthenticAMD' familyid='143' modelid='49'"};
    const char *cpu = cpus[any(3)];
    int sm = sms[any(5)];
    uint32_t sockets = 1 + any(2), nvlinks = any(3), switches = any(3), nics = any(4), dev = 0;
    bool gdr = !now_and_then(4);
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);

    assert_non_null(file);
    common = now_and_then(2);
    fprintf(file, "<system version='1'>");
    for (uint32_t s = 0; s < sockets; s++) {
        uint32_t first = ngpus * s / sockets, end = ngpus * (s + 1) / sockets;

        fprintf(file, "<cpu numaid='%u' arch='x86_64' %s>", s, cpu);
        for (uint32_t g = first; g < end; g++) {
            if (switches > 0) {
                fprintf(file, "<pci busid='%x:00.0' class='0x060400' %s>", 64 + g,
                        pci_attributes());
            }
            write_gpu(file, g, ngpus, sm, nvlinks, gdr);
            if (3 == nics || (2 == nics && any(3) > 0)) {
                write_nic(file, dev++, gdr);
            }
            fprintf(file, switches > 0 ? "</pci>" : "");
        }
        if (nics > 0 && now_and_then(2)) {
            write_nic(file, dev++, gdr);
        }
        fprintf(file, "</cpu>");
    }
    fprintf(file, "</system>");
    assert_int_equal(fclose(file), 0);
    return text;
}

/* Build the graph of some of the machine's GPUs with some rules, and return the remaining
 * document. */
static struct pci_graph *graph_of_some(const char *text, uint32_t ngpus, struct pci_doc **doc)
{
    struct pci_error error = {""};
    struct pci_path_rules rules;
    struct pci_graph *graph = NULL;
    unsigned keep[MOST_GPUS];
    size_t count = 0;

    *doc = doc_of(text);
    for (unsigned g = 0; g < ngpus; g++) {
        if (!now_and_then(6)) {
            keep[count++] = g;
        }
    }
    pci_path_rules_init(&rules);
    rules.all = now_and_then(5) ? PCI_PEER_NO_P2P : PCI_PEER_OK;
    rules.nvb = !now_and_then(4);
    if ((count > 0 && pci_doc_keep_gpus(*doc, keep, count, &error)) ||
        pci_graph_build(*doc, &rules, &graph, &error)) {
        fail_msg("%s: %s", error.text, text);
    }
    return graph;
}

static void prove_part(const struct pci_part *part, const char *text)
{
    struct pci_fabric fabric;
    char why[256] = "";

    assert_int_equal(pci_fabric_from_graph(part->graph, &fabric), 0);
    if (pci_channels_check(&fabric, &part->ring, why, sizeof(why)) ||
        pci_channels_check(&fabric, &part->tree, why, sizeof(why))) {
        fail_msg("%s: %s", why, text);
    }
    pci_fabric_fini(&fabric);
}

/* Check the channels of each part, and the rings and trees of a job of such nodes. */
static void prove(const struct pci_chosen *chosen, uint32_t nodes, const char *text)
{
    struct pci_wire wires[4 * MOST_GPUS];
    struct pci_connect connect;
    struct pci_error error = {""};
    char why[256] = "";
    uint32_t ranks = 0;

    for (uint32_t node = 0; node < nodes * chosen->nparts; node++) {
        const struct pci_part *part = &chosen->part[node % chosen->nparts];

        prove_part(part, text);
        for (uint32_t g = 0; g < part->ring.ngpus; g++) {
            assert_int_equal(pci_wire_fill(&wires[ranks++], node, g, &part->ring, &part->tree), 0);
        }
    }
    assert_int_equal(chosen->job.ranks, ranks);
    if (pci_connect_init(&connect, wires, ranks, &error)) {
        fail_msg("%u nodes, %s: %s", nodes, error.text, text);
    }
    if (pci_connect_check(&connect, why, sizeof(why))) {
        fail_msg("%u nodes, %s: %s", nodes, why, text);
    }
    pci_connect_fini(&connect);
}

/* Return the total bandwidth of the channels of one set inside a node and between its parts. */
static double total_of(const struct pci_job_graph *set)
{
    return set->channels * fmin(set->bw_intra, set->bw_inter);
}

/* On one node, neither rings nor trees nor direct exchanges exceed the bounds of the links. */
static void compare_bounds(const struct pci_graph *graph, const struct pci_chosen *chosen,
                           const char *text)
{
    const struct pci_job *job = &chosen->job;
    double n = job->ranks;
    double by_ring = total_of(&job->ring) * n / (2 * (n - 1)), by_tree = total_of(&job->tree) / 2;
    struct pci_bounds bounds;

    assert_int_equal(pci_bounds_of_graph(graph, &bounds), 0);
    if (!bounds.all.connected) {
        return; /* the stated bandwidth promises nothing then */
    }
    if (by_ring > bounds.all.ag.gbps * ROUNDING || by_tree > bounds.all.ar.gbps * ROUNDING ||
        job->direct.algbw * n / 2 > bounds.all.ag.gbps * ROUNDING) {
        fail_msg("ring %g, tree %g, two-shot %g GB/s; the bounds are %g and %g: %s", by_ring,
                 by_tree, job->direct.algbw * n / 2, bounds.all.ag.gbps, bounds.all.ar.gbps, text);
    }
    if (1 == chosen->nparts && chosen->part->ring.type_intra <= PCI_PATH_NVB &&
        chosen->part->tree.type_intra <= PCI_PATH_NVB &&
        (by_ring > bounds.nvlink.ag.gbps * ROUNDING ||
         by_tree > bounds.nvlink.ar.gbps * ROUNDING)) {
        fail_msg("ring %g, tree %g GB/s over NVLink; its bounds are %g and %g: %s", by_ring,
                 by_tree, bounds.nvlink.ag.gbps, bounds.nvlink.ar.gbps, text);
    }
}

/* Every size has a finite prediction; without a NIC none is faster than the network that is
 * assumed: each node receives as much as the vector, less its own share. */
static void compare_predictions(const struct pci_costs *costs, const struct pci_chosen *chosen,
                                const char *text)
{
    const struct pci_job *job = &chosen->job;
    double most = PCI_CHANNELS_BW_NO_NIC * job->nodes / (job->nodes - 1.0) * ROUNDING;
    struct pci_choice choice;

    for (unsigned log = 0; job->ranks > 1 && log < PCI_SIZE_COUNT; log++) {
        double bytes = ldexp(1, (int) log);

        if (pci_predict_best(costs, job, (1u << PCI_ALGORITHM_COUNT) - 1, (uint64_t) bytes,
                             &choice) ||
            !isfinite(choice.us) || choice.us <= 0 || 0 == choice.channels) {
            fail_msg("no prediction of %g bytes: %s", bytes, text);
        }
        if (pci_channels_no_nic(&chosen->part->ring) && bytes / choice.us / 1e3 > most) {
            fail_msg("%g GB/s over a network of %g: %s", bytes / choice.us / 1e3,
                     PCI_CHANNELS_BW_NO_NIC, text);
        }
    }
}

static bool check_machine(uint32_t ngpus, uint32_t nodes)
{
    char *text = write_machine(ngpus);
    struct pci_doc *doc;
    struct pci_graph *graph = graph_of_some(text, ngpus, &doc);
    struct pci_error error = {""};
    struct pci_chosen chosen;
    struct pci_search limits;
    struct pci_costs costs;
    bool parts;

    pci_search_init(&limits);
    limits.nodes = nodes;
    assert_int_equal(pci_costs_gpu(&costs), 0);
    if (pci_choose(graph, doc, &costs, &limits, &chosen, &error)) {
        fail_msg("%s: %s", error.text, text);
    }
    parts = chosen.nparts > 1;
    prove(&chosen, nodes, text);
    if (1 == nodes && chosen.job.ranks > 1) {
        compare_bounds(graph, &chosen, text);
    }
    compare_predictions(&costs, &chosen, text);
    pci_chosen_fini(&chosen);
    pci_graph_free(graph);
    pci_doc_free(doc);
    free(text);
    return parts;
}

TEST(test_machines)
{
    uint32_t parts = 0;

    for (uint32_t i = 0; i < MACHINES; i++) {
        parts += check_machine(1 + any(MOST_GPUS), i % 3 ? 1 : 2 + any(3));
    }
    print_message("%u of %u machines in parts\n", parts, MACHINES);
    assert_true(parts >= 5 && parts <= MACHINES / 2);
}

/* One NVLink in one direction and twelve in the other: a tree
 * uses each edge in both directions, so the narrow direction limits it. */
TEST(test_asymmetric)
{
    struct pci_graph *graph = graph_of(
        "<system><cpu numaid='0' arch='x86_64' vendor='GenuineIntel' familyid='6' modelid='106'>"
        "<pci busid='1:0' link_speed='16.0 GT/s PCIe' link_width='16'><gpu dev='0' rank='0' "
        "sm='80'>"
        "<nvlink target='2:0' count='1' tclass='0x030200'/></gpu></pci>"
        "<pci busid='2:0' link_speed='16.0 GT/s PCIe' link_width='16'><gpu dev='1' rank='1' "
        "sm='80'>"
        "<nvlink target='1:0' count='12' tclass='0x030200'/></gpu></pci></cpu></system>",
        NULL);
    struct pci_channels ring, tree;
    struct pci_bounds bounds;

    assert_int_equal(pci_channels_of_graph(graph, 1, &ring, &tree), 0);
    assert_int_equal(pci_bounds_of_graph(graph, &bounds), 0);
    assert_true(fabs(bounds.nvlink.ar.gbps - 20) < 1e-6 && fabs(bounds.all.ar.gbps - 44) < 1e-6);
    assert_true(fabs(ring.nchannels * ring.bw_intra - 20) < 1e-6);
    assert_true(fabs(tree.nchannels * tree.bw_intra / 2 - 20) < 1e-6);
    pci_channels_fini(&ring);
    pci_channels_fini(&tree);
    pci_graph_free(graph);
}

/* Two parts, each with a NIC that is faster than the path between the sockets. */
TEST(test_parts)
{
    struct pci_doc *doc = doc_of_file("two-sockets-fast-nics.xml");
    struct pci_error error = {""};
    struct pci_graph *graph;
    struct pci_search limits;
    struct pci_costs costs;
    struct pci_chosen chosen;
    struct pci_bounds bounds;
    struct pci_curve whole, parts;

    pci_search_init(&limits);
    assert_int_equal(pci_costs_gpu(&costs), 0);
    assert_int_equal(pci_graph_build(doc, NULL, &graph, &error), 0);
    assert_int_equal(pci_choose(graph, NULL, &costs, &limits, &chosen, &error), 0);
    assert_int_equal(chosen.nparts, 1);
    assert_true(fabs(total_of(&chosen.job.ring) - 22) < 1e-6);
    pci_predict_curve(&costs, &chosen.job, &whole);
    pci_chosen_fini(&chosen);
    assert_int_equal(pci_choose(graph, doc, &costs, &limits, &chosen, &error), 0);
    assert_int_equal(chosen.nparts, 2);
    assert_int_equal(chosen.part[0].ring.ngpus, 2);
    assert_int_equal(pci_graph_node(chosen.part[1].graph, PCI_NODE_GPU, 0)->gpu.rank, 2);
    assert_true(fabs(total_of(&chosen.job.ring) - 48) < 1e-6);
    pci_predict_curve(&costs, &chosen.job, &parts);
    assert_false(pci_curve_better(&whole, &parts));
    assert_true(parts.us[PCI_CURVE_SIZES - 1] < 0.7 * whole.us[PCI_CURVE_SIZES - 1]);
    assert_int_equal(pci_bounds_of_graph(graph, &bounds), 0);
    assert_true(fabs(bounds.all.ag.gbps - 32) < 1e-6); /* 48 x 4 / 3 / 2 */
    pci_chosen_fini(&chosen);
    pci_graph_free(graph);
    pci_doc_free(doc);
}
