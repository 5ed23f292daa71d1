/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/stage/notice.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/topology/format.h"
#include "mca/coll_gpuring/util/backoff.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define PATIENCE (30 * GPURING_SECOND) /* for answers, with coll_gpuring_timeout 0 */
#define AGAIN    GPURING_SECOND        /* .. when the last time was in vain */

/*
 * Open MPI gives the number of a communicator again when that one is freed. So all ranks count how
 * often a number was used with the same ranks: a notice of an earlier communicator is known by
 * that.
 */
static struct {
    pthread_mutex_t lock; /* guards all */
    struct {
        uint64_t name;
        uint32_t uses;
    } * seen;
    size_t count, room;
} names = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The processes of a group, in their order. */
static uint64_t hash_of(struct ompi_communicator_t *comm, int ranks, bool remote)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (int i = 0; i < ranks; i++) {
        hash = (hash ^ gpuring_compat_process(comm, i, remote)) * UINT64_C(0x100000001b3);
        hash ^= hash >> 29;
    }
    return hash;
}

/* The same on all ranks: between groups either may be this one. */
static uint64_t name_of(struct ompi_communicator_t *comm)
{
    uint64_t groups = hash_of(comm, ompi_comm_size(comm), false);

    if (OMPI_COMM_IS_INTER(comm)) {
        groups += hash_of(comm, ompi_comm_remote_size(comm), true);
    }
    return groups ^ (GPURING_COMM_KEY(comm) + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Called with the lock held. The place of a name, made if need be; -1: no memory. */
static long find(uint64_t name)
{
    size_t i = 0;

    while (i < names.count && names.seen[i].name != name) {
        i++;
    }
    if (i == names.count && names.count == names.room) {
        size_t room = 2 * names.room + 64;
        void *seen = realloc(names.seen, room * sizeof *names.seen);

        if (seen == NULL) {
            return -1;
        }
        names.seen = seen;
        names.room = room;
    }
    if (i == names.count) {
        names.seen[names.count].name = name;
        names.seen[names.count++].uses = 0;
    }
    return (long) i;
}

void gpuring_notices_open(struct gpuring_staging *staging, struct ompi_communicator_t *comm)
{
    long i;

    staging->name = name_of(comm);
    pthread_mutex_lock(&names.lock);
    i = find(staging->name);
    staging->use = i < 0 ? 0 : ++names.seen[i].uses;
    pthread_mutex_unlock(&names.lock);
}

static bool is_of(const struct gpuring_notice *notice, const mca_coll_gpuring_module_t *module)
{
    return notice->name == module->staging.name && notice->use == module->staging.use;
}

static bool is_of_argument(const struct gpuring_notice *notice, const void *module)
{
    return is_of(notice, module);
}

void gpuring_notices_close(mca_coll_gpuring_module_t *module)
{
    struct gpuring_notice notice;

    while (gpuring_notice_box_filled() &&
           gpuring_notice_box_take(is_of_argument, module, true, &notice)) {
    }
    if (module->comm == MPI_COMM_WORLD) {
        gpuring_notice_mail_close();
        free(names.seen);
        names.seen = NULL;
        names.count = names.room = 0;
    }
}

static bool has_peers(const mca_coll_gpuring_module_t *module)
{
    return module->nranks > 1 || OMPI_COMM_IS_INTER(module->comm);
}

/* Who gets of this rank's data, if not nobody. Neighbours count as all. */
static struct gpuring_notice_ranks readers_of(const struct gpuring_stage *stage)
{
    struct ompi_communicator_t *comm = stage->module->comm;
    int mine = stage->module->nranks, first = OMPI_COMM_IS_INTER(comm) ? mine : 0;
    int end = first + (OMPI_COMM_IS_INTER(comm) ? ompi_comm_remote_size(comm) : mine);

    switch (stage->what) {
    case GPURING_STAGED_scan:
    case GPURING_STAGED_exscan:
        first = stage->module->rank + 1;
        break;
    case GPURING_STAGED_reduce:
    case GPURING_STAGED_gather:
    case GPURING_STAGED_gatherv:
        first += stage->party.root;
        end = first + 1;
        break;
    default:
        break;
    }
    return (struct gpuring_notice_ranks){first, end};
}

void gpuring_notice_give(struct gpuring_stage *stage, int failure, enum gpuring_notice_kind kind)
{
    mca_coll_gpuring_module_t *module = stage->module;
    struct gpuring_notice notice = {
        .version = GPURING_WIRE_VERSION,
        .name = module->staging.name,
        .use = module->staging.use,
        .call = stage->call,
        .start = stage->start,
        .failure = failure,
        .rank = module->rank,
        .what = (uint8_t) stage->what,
        .kind = (uint8_t) kind,
    };
    struct gpuring_notice_ranks asked = {0, 0};
    char text[256], name[64];

    if (stage->noticed || stage->what == GPURING_STAGED_reduce_local || !has_peers(module) ||
        notice.use == 0 ||
        (module->together && !stage->party.none && kind != GPURING_NOTICE_ABSENT)) {
        return;
    }
    stage->noticed = true;
    snprintf(notice.host, sizeof notice.host, "%s", gpuring_process.hostname);
    if (kind == GPURING_NOTICE_VOID) {
        asked = readers_of(stage);
    }
    stage->receipt = gpuring_notice_mail_send(module->comm, &notice, asked);
    stage->told_ns = gpuring_now_ns();
    gpuring_module_text(module, text, sizeof text);
    gpuring_stage_name(stage->what, name, sizeof name);
    gpuring_log(module->staging.given == failure ? GPURING_LOG_INFO : GPURING_LOG_ERROR,
                "%s: %s (call %" PRIu64 ") fails here: %s; the other ranks are told", text, name,
                stage->call, gpuring_status_text(failure));
    module->staging.given = failure;
}

void gpuring_notices_drop(struct gpuring_stage *stage)
{
    if (stage->receipt != NULL) {
        gpuring_notice_mail_forget(stage->receipt);
        stage->receipt = NULL;
    }
}

/* It has taken too long. */
static void go_on(const struct gpuring_stage *stage, int missing, uint64_t waited)
{
    char text[256], name[64];

    gpuring_module_text(stage->module, text, sizeof text);
    gpuring_stage_name(stage->what, name, sizeof name);
    gpuring_warn("%s: %s (call %" PRIu64 "): %d ranks have not answered for %" PRIu64 " s that "
                 "they know of the failure here (not in MPI, or without coll/gpuring?); the call "
                 "goes on, and they may return success with void data, and the error in their next "
                 "staged call",
                 text, name, stage->call, missing, waited / GPURING_SECOND);
}

bool gpuring_notices_answered(struct gpuring_stage *stage)
{
    static bool in_vain; /* atomic: the last time */
    int missing = stage->receipt != NULL ? gpuring_notice_mail_missing(stage->receipt) : 0;
    uint64_t waited, limit = (uint64_t) gpuring_params.timeout * GPURING_SECOND;

    if (missing > 0) {
        limit = limit > 0 ? limit : PATIENCE;
        limit = limit > AGAIN && __atomic_load_n(&in_vain, __ATOMIC_RELAXED) ? AGAIN : limit;
        waited = gpuring_now_ns() - stage->told_ns;
        if (waited < limit) {
            return false;
        }
        go_on(stage, missing, waited);
    }
    if (stage->receipt != NULL) {
        __atomic_store_n(&in_vain, missing > 0, __ATOMIC_RELAXED);
        gpuring_notices_drop(stage);
    }
    return true;
}

void gpuring_notices_wait(struct gpuring_stage *stage)
{
    struct gpuring_backoff pause = {.vain = 0};

    while (!gpuring_notices_answered(stage)) {
        gpuring_notice_mail_look();
        opal_progress();
        gpuring_backoff(&pause, (uint64_t) gpuring_notice_mail_missing(stage->receipt), false);
    }
}

/* What is sought in the box. */
struct search {
    const struct gpuring_stage *stage;
    gpuring_notice_is_open_fn is_open;
};

static bool is_of_call(const struct gpuring_notice *notice, const struct gpuring_stage *stage)
{
    return is_of(notice, stage->module) && notice->call == stage->call &&
           (notice->start == stage->start || notice->kind == GPURING_NOTICE_ABSENT);
}

/* Has the call begun here? */
static bool has_begun(const struct gpuring_notice *notice, const mca_coll_gpuring_module_t *module)
{
    bool apart = (notice->start & GPURING_STAGE_APART) != 0;
    bool beside = (notice->start & GPURING_STAGE_BESIDE) != 0;
    uint32_t number = notice->start & ~GPURING_STAGE_APART;
    uint64_t calls = gpuring_stage_calls(module);

    return notice->call < calls ||
           (notice->call == calls && !beside && (!apart || number <= module->staging.apart));
}

static bool is_due(const struct gpuring_notice *notice, const void *argument)
{
    const struct search *search = argument;
    const mca_coll_gpuring_module_t *module = search->stage->module;

    return is_of_call(notice, search->stage) ||
           (is_of(notice, module) && has_begun(notice, module) && !search->is_open(module, notice));
}

static bool is_absence(const struct gpuring_notice *notice, const void *stage)
{
    return notice->kind == GPURING_NOTICE_ABSENT && is_of_call(notice, stage);
}

int gpuring_notice_of_absence(const struct gpuring_stage *stage, struct gpuring_notice *notice)
{
    return gpuring_notice_box_filled() && gpuring_notice_box_take(is_absence, stage, false, notice)
               ? notice->failure
               : GPURING_OK;
}

static const char *meaning(enum gpuring_notice_kind kind)
{
    switch (kind) {
    case GPURING_NOTICE_VOID:
        return "its data is void (0xff) in the results of all ranks";
    case GPURING_NOTICE_LOST:
        return "it has no result, those of other ranks are right";
    default:
        return "it took no part";
    }
}

/* Of equal ones that follow each other the first is an error, as is the first of each collective.
 */
static void tell(const struct gpuring_stage *stage, const struct gpuring_notice *notice)
{
    struct gpuring_staging *staging = &stage->module->staging;
    bool again = staging->told == notice->failure && staging->told_rank == notice->rank &&
                 staging->told_what == notice->what;
    char text[256], name[64], mine[64], when[160] = "";

    staging->told = notice->failure;
    staging->told_rank = notice->rank;
    staging->told_what = notice->what;
    gpuring_module_text(stage->module, text, sizeof text);
    gpuring_stage_name((enum gpuring_staged) notice->what, name, sizeof name);
    gpuring_stage_name(stage->what, mine, sizeof mine);
    if (!is_of_call(notice, stage)) {
        snprintf(when, sizeof when,
                 ", %" PRIu64 " calls ago, whose results are undefined here; the error is returned "
                 "by this call, %s",
                 gpuring_stage_calls(stage->module) - notice->call, mine);
    }
    gpuring_log(again ? GPURING_LOG_INFO : GPURING_LOG_ERROR,
                "%s: %s (call %" PRIu64 "%s%s) failed at rank %d%s on host %s: %s: %s; its log "
                "tells more",
                text, name, notice->call,
                notice->start > 0 && notice->start < GPURING_STAGE_BESIDE ? ", persistent" : "",
                when, (int) notice->rank, notice->remote ? " of the other group" : "", notice->host,
                gpuring_status_text(notice->failure), meaning(notice->kind));
}

static int take_all(gpuring_notice_is_fn is, const void *argument,
                    const struct gpuring_stage *stage, int status)
{
    struct gpuring_notice notice;

    while (gpuring_notice_box_take(is, argument, true, &notice)) {
        /* Else all have the verdict already; of these calls there is none. */
        if (!stage->agrees || notice.start >= GPURING_STAGE_BESIDE) {
            tell(stage, &notice);
            status = status == GPURING_OK ? notice.failure : status;
        }
    }
    return status;
}

int gpuring_notices_settle(const struct gpuring_stage *stage, int status,
                           gpuring_notice_is_open_fn is_open)
{
    struct search search = {.stage = stage, .is_open = is_open};

    if (status == GPURING_OK) {
        stage->module->staging.given = GPURING_OK;
    }
    if (!gpuring_notice_box_filled()) {
        if (status == GPURING_OK) {
            stage->module->staging.told = GPURING_OK;
        }
        return status;
    }
    return take_all(is_due, &search, stage, status);
}

static bool is_own(const struct gpuring_notice *notice, const void *stage)
{
    return notice->kind != GPURING_NOTICE_ABSENT && is_of_call(notice, stage);
}

int gpuring_notices_settle_own(const struct gpuring_stage *stage)
{
    return take_all(is_own, stage, stage, GPURING_OK);
}
