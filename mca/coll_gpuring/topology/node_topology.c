/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/topology/node_topology.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/util/hash.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/topo_pci/discover/pci_discover.h"
#include "mca/topo_pci/discover/pci_driver.h"

static struct {
    pthread_mutex_t lock;
    bool known; /* the other members are set */
    struct gpuring_local_topology view;
} own = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool gpuring_local_topology_of_gpus(void)
{
    return gpuring_param_given(gpuring_params.topo_file) ||
           gpuring_params.device != GPURING_PARAM_DEVICE_HOST;
}

static int discover(struct pci_doc **doc, struct pci_error *error)
{
    struct pci_discover_options options = {.strict = false};
    struct pci_nvml *nvml = NULL;
    struct pci_cuda *cuda = NULL;
    char why[256] = "";
    int status;

    if (gpuring_params.device != GPURING_PARAM_DEVICE_HOST &&
        pci_nvml_open(NULL, &nvml, why, sizeof why) == 0) {
        options.hooks = pci_nvml_hooks(nvml);
        /* Only use the driver if the application has loaded it. */
        if (pci_cuda_open(NULL, true, &cuda) == 0) {
            pci_cuda_hook(cuda, &options.hooks);
        }
    } else if (why[0] != '\0') {
        gpuring_debug("NVLinks are not known: %s", why);
    }
    status = pci_discover(&options, doc, error);
    pci_cuda_close(cuda);
    pci_nvml_close(nvml);
    return status;
}

/* Load the selected file, or this machine if there is no file or it cannot be used. */
static int load_document(struct pci_doc **doc, bool *from_file)
{
    struct pci_error error = {.text = ""};
    int status;

    *from_file = gpuring_param_given(gpuring_params.topo_file);
    if (*from_file) {
        status = pci_doc_read(gpuring_params.topo_file, doc, &error);
        if (status == 0) {
            return 0;
        }
        gpuring_warn("coll_gpuring_topo_file: %s; the topology of this machine is used instead",
                     error.text);
        *from_file = false;
    }
    status = discover(doc, &error);
    if (status != 0) {
        gpuring_warn("[no-topology] the topology of this machine cannot be detected: %s; ranks are "
                     "connected in rank order",
                     error.text);
    }
    return status;
}

/* Return a fingerprint, which is never 0. */
uint64_t gpuring_local_topology_fingerprint(const char *text, size_t bytes)
{
    uint64_t hash = gpuring_hash_bytes(GPURING_HASH_START, text, bytes);

    return hash != 0 ? hash : 1;
}

/* Find the view. The caller holds the lock. */
static void topology_look(void)
{
    struct pci_error error = {.text = ""};
    struct pci_doc *doc = NULL;
    char *text = NULL;
    size_t bytes = 0;
    bool from_file;

    if (load_document(&doc, &from_file) == 0) {
        if (pci_doc_format(doc, &text, &bytes, &error) == 0) {
            own.view = (struct gpuring_local_topology){
                .text = text,
                .bytes = bytes,
                .fingerprint = gpuring_local_topology_fingerprint(text, bytes),
                .from_file = from_file};
        } else {
            gpuring_warn("the topology of this machine cannot be written for others: %s",
                         error.text);
        }
    }
    pci_doc_free(doc);
    own.known = true;
}

void gpuring_local_topology_own(struct gpuring_local_topology *view)
{
    pthread_mutex_lock(&own.lock);
    if (!own.known &&
        (gpuring_local_topology_of_gpus() || gpuring_param_given(gpuring_params.topo_dump_file))) {
        topology_look();
    }
    *view = own.view;
    pthread_mutex_unlock(&own.lock);
}

void gpuring_local_topology_close(void)
{
    pthread_mutex_lock(&own.lock);
    free((char *) (uintptr_t) own.view.text);
    own.view = (struct gpuring_local_topology){.bytes = 0};
    own.known = false;
    pthread_mutex_unlock(&own.lock);
}

/* ---- All ranks of a node ---- */

/* Reject views that describe a PCI device differently, because they cannot be of the same
 * machine. */
static int check_device(const struct pci_elem *here, const struct pci_elem *there,
                        struct pci_error *error)
{
    static const char *const keys[] = {"class", "vendor", "device"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *left = pci_elem_get(here, keys[i]), *right = pci_elem_get(there, keys[i]);

        if (left != NULL && right != NULL && *left != '\0' && *right != '\0' &&
            strcmp(left, right) != 0) {
            snprintf(error->text, sizeof error->text,
                     "[views-differ] the ranks of this node see different machines: pci %s has "
                     "%s=\"%s\" for one, \"%s\" for another",
                     pci_elem_get(here, "busid"), keys[i], left, right);
            return -EPROTO;
        }
    }
    return 0;
}

static int check_devices(const struct pci_doc *into, const struct pci_doc *from,
                         struct pci_error *error)
{
    const struct pci_elem *there = NULL;
    int status = 0;

    while (status == 0 && (there = pci_doc_next(from, there, "pci")) != NULL) {
        const char *busid = pci_elem_get(there, "busid");
        const struct pci_elem *here =
            busid != NULL ? pci_doc_find(into, "pci", "busid", busid) : NULL;

        status = here != NULL ? check_device(here, there, error) : 0;
    }
    return status;
}

/* If two elements have the same number, renumber all of them in the order of the document, because
 * each container counts from 0. */
static int renumber(struct pci_doc *doc, const char *element, const char *key)
{
    struct pci_elem *elem = NULL, *other;
    bool twice = false;
    int number = 0;

    while (!twice && (elem = pci_doc_next(doc, elem, element)) != NULL) {
        const char *value = pci_elem_get(elem, key);

        for (other = elem; value != NULL && (other = pci_doc_next(doc, other, element)) != NULL;) {
            const char *same = pci_elem_get(other, key);

            twice = twice || (same != NULL && strcmp(same, value) == 0);
        }
    }
    for (elem = NULL; twice && (elem = pci_doc_next(doc, elem, element)) != NULL; number++) {
        if (pci_elem_setf(elem, key, "%d", number) != 0) {
            return -ENOMEM;
        }
    }
    return 0;
}

/* Merge a view into the document. If the views differ in a value that may change, such as the speed
 * of a link, the first view applies. Return a negative errno value if the view cannot be read or
 * contradicts the document. */
static int add_view(const struct gpuring_local_topology *view, struct pci_doc **doc,
                    struct pci_error *error)
{
    struct pci_doc *from = NULL;
    int status = pci_doc_parse(view->text, view->bytes, *doc == NULL ? doc : &from, error);

    if (status == 0 && from != NULL) {
        status = check_devices(*doc, from, error);
    }
    if (status == 0 && from != NULL) {
        status = pci_doc_merge(*doc, from, error);
    }
    pci_doc_free(from);
    return status;
}

bool gpuring_node_topology_first_view(const struct gpuring_node_ranks *ranks, int i)
{
    uint64_t view = gpuring_node_ranks_rank_info(ranks, i)->view;

    for (int before = 0; before < i; before++) {
        if (gpuring_node_ranks_rank_info(ranks, before)->view == view) {
            return false;
        }
    }
    return view != 0;
}

bool gpuring_node_topology_differ(const struct gpuring_gathered *rank_infos,
                                  const struct gpuring_node_map *map)
{
    for (int i = 1; i < map->nranks; i++) {
        int rank = map->order[i], before = map->order[i - 1];

        if (map->node[rank] == map->node[before] &&
            gpuring_rank_info_of(rank_infos, rank)->view !=
                gpuring_rank_info_of(rank_infos, before)->view) {
            return true;
        }
    }
    return false;
}

/* Log the common topology of a node's ranks at verbose level 2. */
static void log_common(const struct gpuring_node_ranks *ranks, int count, const struct pci_doc *doc)
{
    struct pci_error error;
    char *text = NULL;
    size_t bytes = 0;

    if (gpuring_log_enabled(GPURING_LOG_DEBUG) && pci_doc_format(doc, &text, &bytes, &error) == 0) {
        gpuring_debug("[views] topology of this node: %d views of %d ranks, fingerprint %016llx",
                      count, ranks->count,
                      (unsigned long long) gpuring_local_topology_fingerprint(text, bytes));
        free(text);
    }
}

/* Merge all different views of the node into one document. Return the number of views, or a
 * negative errno value. */
static int merge(const struct gpuring_node_ranks *ranks, const struct gpuring_local_topology *views,
                 struct pci_doc **doc, struct pci_error *error)
{
    int status = 0, count = 0;

    for (int i = 0; status == 0 && i < ranks->count; i++) {
        if (gpuring_node_topology_first_view(ranks, i)) {
            status = add_view(&views[i], doc, error);
            count++;
        }
    }
    if (status == 0 && count > 1) {
        status = renumber(*doc, "gpu", "rank");
        status = status == 0 ? renumber(*doc, "gpu", "dev") : status;
        status = status == 0 ? renumber(*doc, "net", "dev") : status;
    }
    return status == 0 ? count : status;
}

int gpuring_node_topology_unite(const struct gpuring_node_ranks *ranks,
                                const struct gpuring_local_topology *views, struct pci_doc **doc,
                                bool *from_file)
{
    struct pci_error error = {.text = ""};
    int count;

    *doc = NULL;
    *from_file = true;
    for (int i = 0; i < ranks->count; i++) {
        *from_file = *from_file && (gpuring_node_ranks_rank_info(ranks, i)->capabilities &
                                    GPURING_CAPABILITY_FILE);
        if (gpuring_node_topology_first_view(ranks, i) && views[i].bytes == 0) {
            gpuring_error("rank %d sent another topology than it announced", ranks->rank[i]);
            return GPURING_ERR_PEER;
        }
    }
    count = merge(ranks, views, doc, &error);
    if (count > 0) {
        log_common(ranks, count, *doc);
    }
    if (count >= 0) {
        return GPURING_OK;
    }
    pci_doc_free(*doc);
    *doc = NULL;
    if (count == -ENOMEM) {
        gpuring_error("out of memory for the topology of a node");
        return GPURING_ERR_NOMEM;
    }
    if (ranks->self == 0) {
        gpuring_warn("[no-topology] the ranks of this node see topologies that contradict each "
                     "other: %s; ranks are connected in rank order",
                     error.text[0] != '\0' ? error.text : strerror(-count));
    }
    return GPURING_OK;
}
