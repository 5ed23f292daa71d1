/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Compare the cost model with recorded answers of real machines. */
#include "test/unit/unit.h"

#include <dirent.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/predict/pci_predict.h"

#define CLASS_NAME(id, name) name,

#define RECORDED_CLOSE 1e-4 /* the recorded times have six digits */

static struct pci_costs costs_gpu(void)
{
    struct pci_costs costs;

    assert_int_equal(pci_costs_reference(&costs), 0);
    return costs;
}

/* The path class of this name. */
static enum pci_path_class class_of(const char *name)
{
    static const char *const names[] = {PCI_PATH_CLASSES(CLASS_NAME)};
    int class = 0;

    while (class < PCI_PATH_CLASS_COUNT && 0 != strcmp(names[class], name)) {
        class ++;
    }
    assert_true(class < PCI_PATH_CLASS_COUNT);
    return (enum pci_path_class) class;
}

static struct pci_job_graph recorded_graph(json_t *graph, int sm)
{
    const char *intra = json_string_value(json_object_get(graph, "typeIntra"));
    const char *inter = json_string_value(json_object_get(graph, "typeInter"));
    const char *pattern = json_string_value(json_object_get(graph, "pattern"));

    return (struct pci_job_graph){
        .channels = (uint32_t) json_integer_value(json_object_get(graph, "nChannels")),
        .bw_intra = json_number_value(json_object_get(graph, "bwIntra")),
        .bw_inter = json_number_value(json_object_get(graph, "bwInter")),
        .nvlink = PCI_PATH_NVL == class_of(intra),
        .ll128 = pci_ll128_whole(sm, class_of(intra), class_of(inter)),
        .chain = 0 == strcmp(pattern, "TREE"),
    };
}

static struct pci_job recorded_job(json_t *root)
{
    json_t *graphs = json_object_get(root, "graphs");
    json_t *gpu = json_array_get(json_object_get(root, "gpus"), 0);
    int sm = (int) json_integer_value(json_object_get(gpu, "sm"));
    json_int_t vendor = json_integer_value(json_object_get(json_object_get(root, "cpu"), "vendor"));

    return (struct pci_job){
        .nodes = (uint32_t) json_integer_value(json_object_get(root, "nodes")),
        .ranks = (uint32_t) json_integer_value(json_object_get(root, "ranks")),
        .channels = (uint32_t) json_integer_value(
            json_object_get(json_object_get(root, "final"), "nChannels")),
        .generation = pci_generation_of(sm),
        .host = 1 == vendor   ? PCI_HOST_INTEL
                : 2 == vendor ? PCI_HOST_AMD
                              : PCI_HOST_OTHER,
        .ring = recorded_graph(json_object_get(graphs, "ring"), sm),
        .tree = recorded_graph(json_object_get(graphs, "tree"), sm),
        .protocols = UINT32_MAX,
    };
}

/* Compare all times of one size. Return their number. */
static unsigned compare_times(const char *file, const struct pci_costs *costs,
                              const struct pci_job *job, json_t *entry)
{
    uint64_t bytes = (uint64_t) json_integer_value(json_object_get(entry, "bytes"));
    unsigned compared = 0;

    for (int a = PCI_ALGORITHM_RING; a <= PCI_ALGORITHM_TREE; a++) {
        for (int p = 0; p < PCI_PROTOCOL_COUNT; p++) {
            char key[32];
            json_t *want;
            double us =
                pci_predict_us(costs, job, (enum pci_algorithm) a, (enum pci_protocol) p, bytes);

            (void) snprintf(key, sizeof(key), "%s/%s", pci_algorithm_label((enum pci_algorithm) a),
                            pci_protocol_label((enum pci_protocol) p));
            want = json_object_get(json_object_get(entry, "us"), key);
            if (NULL == want) {
                assert_true(isinf(us));
                continue;
            }
            if (fabs(us / json_number_value(want) - 1) > RECORDED_CLOSE) {
                fail_msg("%s, %llu bytes, %s: %g us, recorded %g", file, (unsigned long long) bytes,
                         key, us, json_number_value(want));
            }
            compared++;
        }
    }
    return compared;
}

static void compare_choice(const char *file, const struct pci_costs *costs,
                           const struct pci_job *job, json_t *entry)
{
    uint64_t bytes = (uint64_t) json_integer_value(json_object_get(entry, "bytes"));
    json_t *best = json_object_get(entry, "best_ring_tree");
    struct pci_choice choice;

    assert_int_equal(pci_predict_best(costs, job,
                                      1u << PCI_ALGORITHM_RING | 1u << PCI_ALGORITHM_TREE, bytes,
                                      &choice),
                     0);
    if (0 != strcmp(pci_algorithm_label(choice.algorithm),
                    json_string_value(json_object_get(best, "algo"))) ||
        0 != strcmp(pci_protocol_label(choice.protocol),
                    json_string_value(json_object_get(best, "proto"))) ||
        choice.channels != json_integer_value(json_object_get(best, "nChannels"))) {
        fail_msg("%s, %llu bytes: chose %s %s on %u channels", file, (unsigned long long) bytes,
                 pci_algorithm_label(choice.algorithm), pci_protocol_label(choice.protocol),
                 choice.channels);
    }
}

static unsigned compare_file(const char *folder, const char *file)
{
    struct pci_costs costs = costs_gpu();
    struct pci_job job;
    char path[PATH_MAX];
    json_error_t error;
    json_t *root, *entry;
    unsigned compared = 0;
    size_t index;

    assert_true((size_t) snprintf(path, sizeof(path), "%s/%s", folder, file) < sizeof(path));
    root = json_load_file(path, 0, &error);
    if (NULL == root) {
        fail_msg("%s: %s", path, error.text);
    }
    job = recorded_job(root);
    json_array_foreach(json_object_get(root, "allreduce_model"), index, entry)
    {
        unsigned times = compare_times(file, &costs, &job, entry);

        assert_true(times > 0);
        compared += times;
        compare_choice(file, &costs, &job, entry);
    }
    json_decref(root);
    if (0 == compared) {
        fail_msg("%s: nothing to compare", file);
    }
    return compared;
}

TEST(test_recorded)
{
    const char *topologies = getenv("GPURING_TOPOLOGIES");
    char folder[PATH_MAX];
    unsigned compared = 0;
    struct dirent *file;
    DIR *dir;

    assert_true((size_t) snprintf(folder, sizeof(folder), "%s/expected",
                                  NULL == topologies ? "../shared/topologies" : topologies) <
                sizeof(folder));
    dir = opendir(folder);
    if (NULL == dir) {
        print_message("no recorded answers in %s; set GPURING_TOPOLOGIES\n", folder);
        skip();
    }
    while (NULL != (file = readdir(dir))) {
        if (NULL != strstr(file->d_name, ".json")) {
            compared += compare_file(folder, file->d_name);
        }
    }
    assert_int_equal(closedir(dir), 0);
    assert_true(compared > 0);
}
