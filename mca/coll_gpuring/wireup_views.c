/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/wireup_views.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/view.h"

/* The ranks of this node, in their order. */
struct mates {
    const struct gpuring_gathered *hellos;
    const int *rank;
    int count, self;
};

static struct mates mates_of(const struct gpuring_gathered *hellos,
                             const struct gpuring_members *members, int rank)
{
    struct mates mates = {.hellos = hellos};

    mates.count = gpuring_members_local(members, rank, &mates.self);
    mates.rank = members->order + members->position[rank] - mates.self;
    return mates;
}

static const struct gpuring_hello *hello_at(const struct mates *mates, int place)
{
    return gpuring_hello_of(mates->hellos, mates->rank[place]);
}

/* Is the rank at this place the first one with its view? That one tells the others. */
static bool tells(const struct mates *mates, int place)
{
    uint64_t view = hello_at(mates, place)->view;

    for (int i = 0; i < place; i++) {
        if (hello_at(mates, i)->view == view) {
            return false;
        }
    }
    return view != 0;
}

bool gpuring_views_differ(const struct gpuring_gathered *hellos,
                          const struct gpuring_members *members)
{
    for (int i = 1; i < members->nranks; i++) {
        int rank = members->order[i], before = members->order[i - 1];

        if (members->node[rank] == members->node[before] &&
            gpuring_hello_of(hellos, rank)->view != gpuring_hello_of(hellos, before)->view) {
            return true;
        }
    }
    return false;
}

int gpuring_views_letters(const struct gpuring_gathered *hellos,
                          const struct gpuring_members *members, int rank,
                          struct ompi_communicator_t *comm, struct gpuring_letters *letters)
{
    struct mates mates = mates_of(hellos, members, rank);
    uint64_t mine = hello_at(&mates, mates.self)->view;
    struct gpuring_view own;
    size_t bytes = 0;
    int status;

    gpuring_view_own(&own);
    for (int i = 0; i < mates.count; i++) {
        if (hello_at(&mates, i)->view != mine) {
            bytes += own.bytes + hello_at(&mates, i)->view_bytes;
        }
    }
    status = gpuring_letters_init(letters, comm, 2 * mates.count, bytes);
    for (int i = 0; i < mates.count && status == GPURING_OK; i++) {
        const struct gpuring_hello *hello = hello_at(&mates, i);

        if (hello->view != mine && tells(&mates, i)) {
            gpuring_letters_expect(letters, mates.rank[i], hello->view_bytes);
        }
        if (hello->view != mine && tells(&mates, mates.self)) {
            gpuring_letters_send(letters, mates.rank[i], own.text, own.bytes);
        }
    }
    return status;
}

/* The view that came from a rank; bytes 0 if it is not what AllGather 1 announced. */
static struct gpuring_view view_from(const struct gpuring_letters *letters, int rank,
                                     const struct gpuring_hello *hello)
{
    for (int i = 0; i < letters->count; i++) {
        const struct gpuring_letter *letter = &letters->letter[i];

        if (!letter->sent && letter->peer == rank && letter->bytes == hello->view_bytes &&
            gpuring_view_fingerprint((const char *) letter->data, letter->bytes) == hello->view) {
            return (struct gpuring_view){.text = (const char *) letter->data,
                                         .bytes = letter->bytes,
                                         .fingerprint = hello->view};
        }
    }
    return (struct gpuring_view){.bytes = 0};
}

/* All different views of the node. Their number, or a negative status. */
static int collect(const struct mates *mates, const struct gpuring_letters *letters,
                   struct gpuring_view *views)
{
    struct gpuring_view own;
    int count = 0;

    gpuring_view_own(&own);
    for (int i = 0; i < mates->count; i++) {
        const struct gpuring_hello *hello = hello_at(mates, i);

        if (!tells(mates, i)) {
            continue;
        }
        views[count] = hello->view == hello_at(mates, mates->self)->view
                           ? own
                           : view_from(letters, mates->rank[i], hello);
        if (views[count++].bytes == 0) {
            gpuring_error("rank %d told another topology than it announced", mates->rank[i]);
            return GPURING_ERR_PEER;
        }
    }
    return count;
}

static int merge(const struct mates *mates, const struct gpuring_view *views, int count,
                 struct pci_doc **doc)
{
    struct pci_error error = {.text = ""};
    int status = gpuring_views_merge(views, count, doc, &error);

    if (status == -ENOMEM) {
        gpuring_error("out of memory for the topology of a node");
        return GPURING_ERR_NOMEM;
    }
    if (status != 0 && mates->self == 0) {
        gpuring_warn(
            "the topologies that the ranks of this node see do not fit together: %s; ranks "
            "are connected in their order",
            error.text[0] != '\0' ? error.text : strerror(-status));
    }
    return GPURING_OK;
}

/* At verbose 2: what a node's ranks have in common, to compare. */
static void tell(const struct mates *mates, int count, const struct pci_doc *doc)
{
    struct pci_error error;
    char *text = NULL;
    size_t bytes = 0;

    if (gpuring_log_enabled(GPURING_LOG_DEBUG) && pci_doc_format(doc, &text, &bytes, &error) == 0) {
        gpuring_debug("topology of this node: %d views of %d ranks, fingerprint %016llx", count,
                      mates->count, (unsigned long long) gpuring_view_fingerprint(text, bytes));
        free(text);
    }
}

int gpuring_views_document(const struct gpuring_gathered *hellos,
                           const struct gpuring_members *members, int rank,
                           const struct gpuring_letters *letters, struct pci_doc **doc,
                           bool *from_file)
{
    struct mates mates = mates_of(hellos, members, rank);
    struct gpuring_view *views = malloc((size_t) mates.count * sizeof *views);
    int status = GPURING_OK, count;

    *doc = NULL;
    *from_file = true;
    if (views == NULL) {
        gpuring_error("out of memory for the topology of a node");
        return GPURING_ERR_NOMEM;
    }
    for (int i = 0; i < mates.count; i++) {
        *from_file = *from_file && (hello_at(&mates, i)->capabilities & GPURING_CAPABILITY_FILE);
    }
    count = collect(&mates, letters, views);
    if (count > 0) {
        status = merge(&mates, views, count, doc);
    }
    if (*doc != NULL) {
        tell(&mates, count, *doc);
    }
    free(views);
    return count < 0 ? count : status;
}
