/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Measured calls from the JSON of gpuring-perf: an object with collective, ranks and a list
 * "results"; each has size (bytes), p50_us (the median time) and counters, among them how many
 * calls were served by each algorithm (calls_ring, ...) and, where the component counts them, each
 * protocol (calls_simple, ...).
 */
#include "gpuring-fit.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The rest of the only one among these counters that is not zero, as number in the list of names;
 * -1: none or several. */
static int only_counter(json_t *counters, const char *(*name)(int), int count)
{
    int found = -1;

    for (int i = 0; i < count; i++) {
        char key[40];

        (void) snprintf(key, sizeof(key), "calls_%s", name(i));
        if (json_integer_value(json_object_get(counters, key)) > 0) {
            if (found >= 0) {
                return -1;
            }
            found = i;
        }
    }
    return found;
}

static const char *algorithm_name(int number)
{
    return pci_algorithm_name((enum pci_algorithm) number);
}

static const char *protocol_name(int number)
{
    return pci_protocol_name((enum pci_protocol) number);
}

static int append(struct fit_data *data, const struct pci_sample *sample)
{
    if (data->nsamples == data->room) {
        size_t room = 2 * data->room + 64;
        struct pci_sample *samples = realloc(data->samples, room * sizeof(*samples));

        if (NULL == samples) {
            fit_message("no memory for %zu results", room);
            return -ENOMEM;
        }
        data->samples = samples;
        data->room = room;
    }
    data->samples[data->nsamples++] = *sample;
    return 0;
}

/* Take one result of a collective, or count it as skipped when not all of its calls were served by
 * one algorithm and protocol (calls that fell back have none). */
static int add_result(struct fit_data *data, enum pci_collective collective, json_t *result,
                      uint32_t ranks)
{
    json_t *counters = json_object_get(result, "counters");
    int a = only_counter(counters, algorithm_name, PCI_ALGORITHM_COUNT);
    int p = only_counter(counters, protocol_name, PCI_PROTOCOL_COUNT);
    json_t *bytes = json_object_get(result, "size");
    double us = json_number_value(json_object_get(result, "p50_us"));
    struct pci_sample sample;
    int rc;

    p = p < 0 ? data->options->protocol : p;
    if (a < 0 || p < 0 || json_integer_value(json_object_get(counters, "fallbacks")) > 0 ||
        !json_is_integer(bytes) || json_integer_value(bytes) < 0 || !(us > 0) || !isfinite(us)) {
        data->skipped++;
        return 0;
    }
    sample = (struct pci_sample){.algorithm = (enum pci_algorithm) a,
                                 .protocol = (enum pci_protocol) p,
                                 .bytes = (uint64_t) json_integer_value(bytes),
                                 .us = us};
    rc = fit_job_find(data, collective, data->options->nodes, ranks, &sample.job);
    if (0 != rc) {
        return rc;
    }
    if (NULL == sample.job) {
        data->skipped++;
        return 0;
    }
    return append(data, &sample);
}

int fit_samples_read(struct fit_data *data, const char *path)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    json_t *results = json_object_get(root, "results"), *result;
    const char *name = json_string_value(json_object_get(root, "collective"));
    int collective = NULL != name ? pci_collective_parse(name) : -1;
    json_int_t ranks = json_integer_value(json_object_get(root, "ranks"));
    size_t index;
    int rc = 0;

    if (NULL == root) {
        fit_message("%s: %s (line %d)", path, error.text, error.line);
        return -EINVAL;
    }
    if (!json_is_array(results) || NULL == name || ranks < 1 || ranks > UINT32_MAX) {
        fit_message("%s: is not what gpuring-perf --json writes", path);
        rc = -EINVAL;
    } else if (collective < 0 || (PCI_COLLECTIVE_ALLREDUCE != collective &&
                                  (NULL == data->options->topo || data->options->nodes > 1))) {
        fit_message("%s: measured %s, which the model does not have: of GPUs on one node it has "
                    "all in their blocking form but the v forms, else allreduce",
                    path, name);
        rc = -EINVAL;
    }
    json_array_foreach(results, index, result)
    {
        rc = 0 == rc ? add_result(data, (enum pci_collective) collective, result, (uint32_t) ranks)
                     : rc;
    }
    json_decref(root);
    return rc;
}
