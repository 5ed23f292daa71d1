/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/stage/abandon.h"

#include <stdlib.h>

#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/stage/notice.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

struct rest {
    struct gpuring_stage stage;
    ompi_request_t *inner;
    struct rest *next;
};

static struct rest *first; /* atomic */

/* Open MPI's own module for such calls numbers them, and messages of calls that have the same
 * number meet. What takes a number and waits for nobody is a gathering of nothing at another rank.
 */
#define SKIP(form, persistent, ...)                                                               \
    int gpuring_stage_##form(struct gpuring_stage *stage, const mca_coll_base_module_t *previous, \
                             ompi_request_t **inner)                                              \
    {                                                                                             \
        mca_coll_gpuring_module_t *module = stage->module;                                        \
        bool inter = OMPI_COMM_IS_INTER(module->comm);                                            \
        int root = inter ? MPI_PROC_NULL : (module->rank + 1) % module->nranks;                   \
                                                                                                  \
        if (module->previous.persistent == NULL ||                                                \
            module->previous.persistent##_module != previous) {                                   \
            return gpuring_compat_error(stage->failed);                                           \
        }                                                                                         \
        return GPURING_CALL_PREVIOUS(module, persistent, NULL, 0, MPI_BYTE, NULL, 0, MPI_BYTE,    \
                                     root, module->comm, __VA_ARGS__ inner);                      \
    }
SKIP(skip, igather)
SKIP(skip_init, gather_init, MPI_INFO_NULL, )

static bool lends(const struct gpuring_stage_buffer *buffer)
{
    ptrdiff_t offset;

    return !buffer->on_gpu && buffer->user != MPI_IN_PLACE &&
           (gpuring_part_touches(&buffer->in, &offset) ||
            gpuring_part_touches(&buffer->out, &offset));
}

static void hand_over(struct gpuring_stage_buffer *buffer)
{
    buffer->block = NULL;
    buffer->in_runs = buffer->out_runs = (struct gpuring_runs){.count = 0};
}

/* Leave the places to the previous module's request. */
static bool abandon(struct gpuring_stage *stage, ompi_request_t **inner)
{
    struct rest *rest = malloc(sizeof *rest);

    if (rest == NULL) {
        return false;
    }
    rest->stage = *stage;
    rest->inner = *inner;
    rest->next = first;
    __atomic_store_n(&first, rest, __ATOMIC_RELAXED);
    *inner = NULL;
    stage->stream = NULL;
    hand_over(&stage->send);
    hand_over(&stage->receive);
    return true;
}

int gpuring_stage_look_for_absence(struct gpuring_stage *stage, ompi_request_t **inner)
{
    struct gpuring_notice notice;
    int status = gpuring_notice_of_absence(stage, &notice);

    if (status == GPURING_OK || stage->stuck) {
        return GPURING_OK;
    }
    if (lends(&stage->send) || lends(&stage->receive)) {
        stage->stuck = true;
        gpuring_error(
            "a collective waits for rank %d%s on host %s, which takes no part in it (%s), "
            "and goes on waiting, since the call uses a buffer in host memory, too",
            (int) notice.rank, notice.remote ? " of the other group" : "", notice.host,
            gpuring_status_text(status));
        return GPURING_OK;
    }
    return abandon(stage, inner) ? status : GPURING_OK; /* or the next time */
}

bool gpuring_stage_abandoned_any(void)
{
    return __atomic_load_n(&first, __ATOMIC_RELAXED) != NULL;
}

/* One of them is out of the list. */
static void give_back(struct rest **link)
{
    struct rest *rest = *link;

    __atomic_store_n(link, rest->next, __ATOMIC_RELAXED);
    gpuring_stage_release(&rest->stage);
    free(rest);
}

void gpuring_stage_abandoned_clear(void)
{
    for (struct rest **link = &first; *link != NULL;) {
        if (REQUEST_COMPLETE((*link)->inner)) {
            ompi_request_free(&(*link)->inner);
            give_back(link);
        } else {
            link = &(*link)->next;
        }
    }
}

/* Modules of communicators that are still there. */
static bool is_alive(const mca_coll_gpuring_module_t *module)
{
    const mca_coll_gpuring_module_t *i;

    GPURING_LIST_EACH(i, &gpuring_process.modules, mca_coll_gpuring_module_t, node)
    {
        if (i == module) {
            return true;
        }
    }
    return false;
}

void gpuring_stage_abandoned_close(void)
{
    while (first != NULL) {
        if (is_alive(first->stage.module)) {
            gpuring_module_end(first->stage.module);
        }
        give_back(&first);
    }
}
