/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Compare channels with the recorded answers for real machines, and test them on all parts of a
 * hybrid cube mesh and on invented machines. */
#include "test/unit/unit.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/bounds/pci_bound.h"
#include "mca/topo_pci/predict/pci_predict.h"
#include "mca/topo_pci/search/pci_channels.h"
#include "pci_cube.h"
#include "pci_proof.h"

/* Steps that no search may exceed; one takes about two nanoseconds. */
#define MOST_STEPS 40000000u

static void assert_sound(const struct pci_fabric *fabric, const struct pci_channels *channels,
                         const char *name)
{
    char why[256];

    if (0 != pci_channels_check(fabric, channels, why, sizeof(why))) {
        fail_msg("%s, %s: %s", name, pci_pattern_name(channels->pattern), why);
    }
    assert_true(channels->steps <= MOST_STEPS);
    assert_true(0 == channels->limit ||
                channels->nchannels * channels->bw_inter <= channels->limit * (1 + 1e-6));
}

/* Rings, then trees; both proven. */
static void search_both(const struct pci_fabric *fabric, uint32_t nodes, const char *name,
                        struct pci_channels *ring, struct pci_channels *tree)
{
    struct pci_search search;

    pci_search_init(&search);
    search.nodes = nodes;
    assert_int_equal(pci_channels_search(fabric, &search, ring), 0);
    assert_sound(fabric, ring, name);
    search.pattern = PCI_PATTERN_BALANCED_TREE;
    search.prefer_channels = ring->nchannels;
    assert_int_equal(pci_channels_search(fabric, &search, tree), 0);
    assert_sound(fabric, tree, name);
}

static void both_fini(struct pci_channels *ring, struct pci_channels *tree)
{
    pci_channels_fini(ring);
    pci_channels_fini(tree);
}

/* ---- Recorded answers of real machines ---- */

static const char *topologies(void)
{
    const char *folder = getenv("GPURING_TOPOLOGIES");

    return NULL != folder ? folder : "";
}

static struct pci_graph *graph_of_machine(const char *name, bool p2p, const unsigned *ranks,
                                          size_t count)
{
    char path[1024];
    struct pci_doc *doc;
    struct pci_graph *graph = NULL;
    struct pci_path_rules rules;
    struct pci_error error = {""};

    snprintf(path, sizeof(path), "%s/%s.xml", topologies(), name);
    pci_path_rules_init(&rules);
    rules.all = p2p ? PCI_PEER_OK : PCI_PEER_NO_P2P;
    if (0 != pci_doc_read(path, &doc, &error) ||
        (count > 0 && 0 != pci_doc_keep_gpus(doc, ranks, count, &error)) ||
        0 != pci_graph_build(doc, &rules, &graph, &error) ||
        0 != pci_graph_trim(graph, 0, NULL, &error)) {
        fail_msg("%s: %s", path, error.text);
    }
    pci_doc_free(doc);
    return graph;
}

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* At each size, the model predicts at most 1.02 times the time of the recorded channels. */
static void compare_times(const char *answer, const json_t *want, const struct pci_graph *graph,
                          const struct pci_channels *ring, const struct pci_channels *tree)
{
    uint32_t most = ring->nchannels > tree->nchannels ? ring->nchannels : tree->nchannels;
    struct pci_costs costs;
    struct pci_job job;
    const json_t *row;
    size_t i;

    assert_int_equal(pci_costs_reference(&costs), 0);
    assert_int_equal(pci_job_of_graph(graph, ring->nodes, ring, tree, 2 * most, &job), 0);
    json_array_foreach(json_object_get(want, "allreduce_model"), i, row)
    {
        double recorded = number(json_object_get(row, "best_ring_tree"), "us");
        struct pci_choice choice;

        if (0 != pci_predict_best(&costs, &job, 1u << PCI_ALGORITHM_RING | 1u << PCI_ALGORITHM_TREE,
                                  (uint64_t) number(row, "bytes"), &choice) ||
            choice.us > 1.02 * recorded) {
            fail_msg("%s, %g bytes: %g us, recorded %g", answer, number(row, "bytes"), choice.us,
                     recorded);
        }
    }
    assert_true(i > 0);
}

static void compare_file(const char *answer)
{
    char path[1024], why[256];
    json_error_t fault;
    struct pci_fabric fabric;
    struct pci_channels ring, tree;
    struct pci_connect connect;
    struct pci_graph *graph;
    json_t *want;
    uint32_t nodes;

    snprintf(path, sizeof(path), "%s/expected/%s", topologies(), answer);
    want = json_load_file(path, 0, &fault);
    assert_non_null(want);
    nodes = (uint32_t) number(want, "nodes");
    graph = graph_of_machine(json_string_value(json_object_get(want, "name")),
                             NULL == strstr(answer, ".nop2p"), NULL, 0);
    assert_int_equal(pci_fabric_from_graph(graph, &fabric), 0);
    assert_int_equal(pci_channels_of_graph(graph, nodes, &ring, &tree), 0);
    assert_sound(&fabric, &ring, answer);
    assert_sound(&fabric, &tree, answer);
    compare_times(answer, want, graph, &ring, &tree);
    assert_int_equal(pci_connect_uniform(&connect, nodes, &ring, &tree, NULL), 0);
    if (0 != pci_connect_check(&connect, why, sizeof(why))) {
        fail_msg("%s: %s", answer, why);
    }
    pci_connect_uniform_fini(&connect);
    both_fini(&ring, &tree);
    pci_fabric_fini(&fabric);
    pci_graph_free(graph);
    json_decref(want);
}

TEST(test_recorded)
{
    char folder[1024];
    struct dirent *entry;
    size_t count = 0;
    DIR *dir;

    snprintf(folder, sizeof(folder), "%s/expected", topologies());
    dir = opendir(folder);
    if (NULL == dir) {
        print_message("no recorded answers in %s; set GPURING_TOPOLOGIES\n", folder);
        skip();
        return;
    }
    while (NULL != (entry = readdir(dir))) {
        if (NULL != strstr(entry->d_name, ".json")) {
            compare_file(entry->d_name);
            count++;
        }
    }
    closedir(dir);
    print_message("%zu recorded answers compared\n", count);
    assert_true(count > 0);
}

/* Find the best single order on the NVLinks of a part of the cube mesh, used in both directions, by
 * trying all orders. Rings must reach at least its bandwidth. */
static double simple_ring(const struct pci_flow *flow)
{
    uint32_t n = flow->ngpus, order[CUBE_GPUS], count[CUBE_GPUS] = {0};
    double links[CUBE_GPUS][CUBE_GPUS] = {{0}}, best = 0;

    for (size_t i = 0; i < flow->nlinks; i++) {
        links[flow->links[i].from][flow->links[i].to] =
            (double) flow->links[i].capacity / PCI_FLOW_UNITS;
    }
    for (uint32_t i = 0; i < n; i++) {
        order[i] = i;
    }
    for (uint32_t i = 1; i < n;) { /* Heap's algorithm over order[1 ..]: the first GPU stays */
        double least = INFINITY;
        uint32_t swap, other;

        for (uint32_t k = 0; k < n; k++) {
            double link = links[order[k]][order[(k + 1) % n]];

            least = link < least ? link : least;
        }
        best = least > best ? least : best;
        while (i < n && count[i] >= i - 1) {
            count[i++] = 0;
        }
        if (i == n) {
            break;
        }
        other = 0 == (i - 1) % 2 ? 1 : 1 + count[i];
        swap = order[i];
        order[i] = order[other];
        order[other] = swap;
        count[i]++;
        i = 1;
    }
    return n > 2 ? 2 * best : best;
}

/* Return the rate at which the better of rings and trees handles a vector, in GB/s. */
static double vector_rate(const struct pci_channels *ring, const struct pci_channels *tree,
                          size_t gpus)
{
    double by_ring = ring->nchannels * ring->bw_intra * (double) gpus / (2 * ((double) gpus - 1));
    double by_tree = tree->nchannels * tree->bw_intra / 2;

    return by_ring > by_tree ? by_ring : by_tree;
}

/* Parts for which the reference's better of ring and tree is known; and over the 197 that NVLink
 * connects, how far the optimum is above it in the geometric mean. */
#define REFERENCE_SEVEN 46.6
#define REFERENCE_MEAN  1.32
/* Smallest fraction of the bound of all trees that the better of rings and chains reaches.
 * Six parts are below 0.9; for these, the result is the proven limit of rings and chains. */
#define LEAST_OF_BOUND 0.874
static double reference_rate(unsigned mask)
{
    switch (mask) {
    case 0x07: /* 0,1,2 */
        return 30;
    case 0xb7: /* 0,1,2,4,5,7 */
        return 24;
    default:
        return 7 == __builtin_popcount(mask) ? REFERENCE_SEVEN : 0;
    }
}

/* The channels of all 247 parts of two to eight GPUs are valid, and at least as good as one order
 * in both directions. If NVLink connects the part, they do not exceed its cut bounds. None is below
 * the known results of the reference.
 */
TEST(test_cube_parts)
{
    char name[64];
    FILE *probe;
    char path[1024];
    uint32_t parts = 0, connected = 0;
    double logarithms = 0;

    snprintf(path, sizeof(path), "%s/azure-ndv2.xml", topologies());
    probe = fopen(path, "r");
    if (NULL == probe) {
        print_message("no %s; set GPURING_TOPOLOGIES\n", path);
        skip();
        return;
    }
    fclose(probe);
    for (unsigned mask = 0; mask < 256; mask++) {
        unsigned ranks[CUBE_GPUS];
        size_t count = 0;
        struct pci_flow flow;
        struct pci_fabric fabric;
        struct pci_channels ring, tree;
        struct pci_graph *graph;
        struct pci_bounds bounds;
        double rate;

        for (unsigned g = 0; g < CUBE_GPUS; g++) {
            if (0 != (mask & (1u << g))) {
                ranks[count++] = g;
            }
        }
        if (count < 2) {
            continue;
        }
        snprintf(name, sizeof(name), "part %#x", mask);
        graph = graph_of_machine("azure-ndv2", true, ranks, count);
        assert_int_equal(pci_graph_count(graph, PCI_NODE_GPU), count);
        assert_int_equal(pci_fabric_from_graph(graph, &fabric), 0);
        search_both(&fabric, 1, name, &ring, &tree);
        assert_int_equal(cube_flow(&flow, mask), 0);
        if (ring.nchannels * ring.bw_intra < simple_ring(&flow) * (1 - 1e-9)) {
            fail_msg("%s: rings of %u x %g GB/s, one order both ways has %g", name, ring.nchannels,
                     ring.bw_intra, simple_ring(&flow));
        }
        assert_true(tree.nchannels * tree.bw_intra >= ring.nchannels * ring.bw_intra * (1 - 1e-9));
        rate = vector_rate(&ring, &tree, count);
        if (rate < reference_rate(mask)) {
            fail_msg("%s: %g GB/s, the reference has %g", name, rate, reference_rate(mask));
        }
        assert_int_equal(pci_bounds_of_graph(graph, &bounds), 0);
        if (bounds.nvlink.connected) {
            if (rate < LEAST_OF_BOUND * bounds.nvlink.ar.gbps) {
                fail_msg("%s: %g GB/s of at most %g", name, rate, bounds.nvlink.ar.gbps);
            }
            logarithms += log(bounds.nvlink.ar.gbps / rate);
            connected++;
        }
        pci_flow_fini(&flow);
        both_fini(&ring, &tree);
        pci_fabric_fini(&fabric);
        pci_graph_free(graph);
        parts++;
    }
    assert_int_equal(parts, 247);
    assert_int_equal(connected, 197);
    assert_true(exp(logarithms / connected) <= REFERENCE_MEAN);
}

/* ---- Invented machines ---- */

/* GPUs on one switch: each has one link out and one in. Every second pair shares a NIC. */
static void switched(struct pci_fabric *fabric, uint32_t ngpus, uint32_t nnets, double gpu,
                     double net)
{
    assert_int_equal(pci_fabric_init(fabric, ngpus, nnets, 2 * (ngpus + nnets)), 0);
    fabric->sm = 80;
    for (uint32_t i = 0; i < 2 * (ngpus + nnets); i++) {
        fabric->capacity[i] = i < 2 * ngpus ? gpu : net;
    }
    for (uint32_t a = 0; a < ngpus; a++) {
        for (uint32_t b = 0; b < ngpus; b++) {
            struct pci_way *way = &fabric->gpus[(size_t) a * ngpus + b];

            if (a != b) {
                pci_fabric_way(fabric, way, PCI_PATH_NVL, 2);
                assert_int_equal(pci_fabric_use(fabric, way, 2 * a, 1), 0);
                assert_int_equal(pci_fabric_use(fabric, way, 2 * b + 1, 1), 0);
            }
        }
        for (uint32_t n = 0; n < nnets; n++) {
            enum pci_path_class class = a * nnets / ngpus == n ? PCI_PATH_PIX : PCI_PATH_SYS;
            struct pci_way *out = &fabric->out[(size_t) a * nnets + n];
            struct pci_way *in = &fabric->in[(size_t) n * ngpus + a];

            pci_fabric_way(fabric, out, class, 2);
            assert_int_equal(pci_fabric_use(fabric, out, 2 * (ngpus + n), 1), 0);
            pci_fabric_way(fabric, in, class, 2);
            assert_int_equal(pci_fabric_use(fabric, in, 2 * (ngpus + n) + 1, 1), 0);
        }
    }
}

static double total(const struct pci_channels *channels)
{
    return channels->nchannels * channels->bw_inter;
}

/* From 0 to 256 GPUs on a switch, whose capacity is that of its links. */
TEST(test_sizes)
{
    static const uint32_t sizes[] = {1, 2, 3, 7, 8, 10, 11, 16, 32, 33, 256};
    struct pci_fabric fabric;
    struct pci_channels ring, tree;

    switched(&fabric, 0, 0, 0, 0);
    search_both(&fabric, 1, "no GPU", &ring, &tree);
    assert_int_equal(ring.nchannels, 0);
    both_fini(&ring, &tree);
    pci_fabric_fini(&fabric);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint32_t nnets = sizes[i] < 4 ? 1 : sizes[i] / 2;

        switched(&fabric, sizes[i], nnets, 200, 25);
        search_both(&fabric, 1, "switch", &ring, &tree);
        if (sizes[i] > 1) {
            assert_true(fabs(total(&ring) - 200) < 1e-6);
            assert_true(total(&tree) >= 200 * (1 - 1e-9));
        }
        both_fini(&ring, &tree);
        search_both(&fabric, 4, "switch, four nodes", &ring, &tree);
        if (nnets <= 8) { /* every NIC is used in full */
            assert_true(fabs(total(&ring) - fmin(nnets * 25, 200)) < 1e-6);
            assert_true(fabs(total(&tree) - fmin(nnets * 25, 200)) < 1e-6);
        }
        both_fini(&ring, &tree);
        pci_fabric_fini(&fabric);
    }
}

/* Requested numbers of channels, including invalid ones. */
TEST(test_limits)
{
    struct pci_fabric fabric;
    struct pci_search search;
    struct pci_channels channels;

    switched(&fabric, 8, 8, 200, 25);
    pci_search_init(&search);
    search.nodes = 2;
    search.max_channels = 2;
    assert_int_equal(pci_channels_search(&fabric, &search, &channels), 0);
    assert_sound(&fabric, &channels, "at most two");
    assert_int_equal(channels.nchannels, 2);
    assert_true(fabs(total(&channels) - 50) < 1e-6);
    pci_channels_fini(&channels);
    search.max_channels = 0;
    search.min_channels = 16;
    assert_int_equal(pci_channels_search(&fabric, &search, &channels), 0);
    assert_sound(&fabric, &channels, "at least sixteen");
    assert_int_equal(channels.nchannels, 16);
    pci_channels_fini(&channels);
    search.max_channels = 4;
    assert_int_equal(pci_channels_search(&fabric, &search, &channels), -EINVAL);
    search.max_channels = PCI_CHANNELS_MAX + 1;
    assert_int_equal(pci_channels_search(&fabric, &search, &channels), -EINVAL);
    pci_search_init(&search);
    search.nodes = 0;
    assert_int_equal(pci_channels_search(&fabric, &search, &channels), -EINVAL);
    search.nodes = 1;
    search.pattern = PCI_PATTERN_TREE;
    assert_int_equal(pci_channels_search(&fabric, &search, &channels), -EINVAL);
    pci_fabric_fini(&fabric);
}

/* GPUs without any path, and links without bandwidth: the answer reports it. */
TEST(test_unreachable)
{
    struct pci_fabric fabric;
    struct pci_channels ring, tree;

    assert_int_equal(pci_fabric_init(&fabric, 3, 0, 0), 0);
    search_both(&fabric, 1, "no path", &ring, &tree);
    assert_int_equal(ring.nchannels, 1);
    assert_int_equal(ring.type_intra, PCI_PATH_DIS);
    assert_true(ring.bw_intra == PCI_CHANNELS_BW_UNREACHABLE);
    both_fini(&ring, &tree);
    pci_fabric_fini(&fabric);
    switched(&fabric, 4, 0, 50, 0);
    search_both(&fabric, 3, "nodes without NICs", &ring, &tree);
    assert_int_equal(ring.nets[0][0], PCI_NO_NET);
    assert_true(ring.bw_inter <= PCI_CHANNELS_BW_NO_NIC);
    both_fini(&ring, &tree);
    fabric.capacity[0] = 0;
    search_both(&fabric, 1, "a dead link", &ring, &tree);
    assert_true(ring.bw_intra > 0);
    both_fini(&ring, &tree);
    pci_fabric_fini(&fabric);
    switched(&fabric, 4, 2, 100, 0);
    search_both(&fabric, 2, "dead NICs", &ring, &tree);
    assert_int_equal(ring.nets[0][0], PCI_NO_NET);
    assert_true(ring.nchannels * ring.bw_intra > 100 * (1 - 1e-9));
    both_fini(&ring, &tree);
    pci_fabric_fini(&fabric);
}

/* The checker refuses each single fault. */
TEST(test_check_sees)
{
    struct pci_fabric fabric;
    struct pci_channels ring, tree;
    char why[256];

    switched(&fabric, 4, 2, 100, 25);
    search_both(&fabric, 2, "sound", &ring, &tree);
    ring.bw_inter *= 1.01;
    assert_int_equal(pci_channels_check(&fabric, &ring, why, sizeof(why)), -EINVAL);
    assert_non_null(strstr(why, "carries"));
    ring.bw_inter /= 1.02;
    assert_int_equal(pci_channels_check(&fabric, &ring, why, sizeof(why)), 0);
    ring.intra[1] = ring.intra[0];
    assert_int_equal(pci_channels_check(&fabric, &ring, why, sizeof(why)), -EINVAL);
    assert_non_null(strstr(why, "twice"));
    ring.intra[1] = 9;
    assert_int_equal(pci_channels_check(&fabric, &ring, why, sizeof(why)), -EINVAL);
    tree.nets[0][1] = 1 - tree.nets[0][0];
    assert_int_equal(pci_channels_check(&fabric, &tree, why, sizeof(why)), -EINVAL);
    tree.nets[0][0] = tree.nets[0][1] = 7;
    assert_int_equal(pci_channels_check(&fabric, &tree, why, sizeof(why)), -EINVAL);
    both_fini(&ring, &tree);
    pci_fabric_fini(&fabric);
}
