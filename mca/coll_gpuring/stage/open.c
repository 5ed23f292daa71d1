/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* How staged calls begin and end, in each form, and what the ranks tell each other then. */
#include "mca/coll_gpuring/stage/stage.h"

#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/stage/agree.h"
#include "mca/coll_gpuring/stage/notice.h"
#include "mca/coll_gpuring/stage/request.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

int gpuring_stage_failure(const struct gpuring_stage *stage)
{
    const mca_coll_gpuring_module_t *module = stage->module;

    if (stage->failed != GPURING_OK) {
        return stage->failed;
    }
    return module != NULL && module->state == GPURING_STATE_FAILED &&
                   module->failure == GPURING_ERR_DEVICE
               ? GPURING_ERR_DEVICE
               : GPURING_OK;
}

static uint32_t number_apart(const mca_coll_gpuring_module_t *module, enum gpuring_staged what)
{
    return gpuring_stage_is_apart(module->comm, what) ? GPURING_STAGE_APART | module->staging.apart
                                                      : 0;
}

/* The places of a call; none are needed where no buffer is on a GPU. */
static int take_places(struct gpuring_stage *stage, mca_coll_gpuring_module_t *module,
                       enum gpuring_staged what)
{
    int status;

    stage->module = module;
    stage->what = what;
    stage->call = gpuring_stage_calls(module);
    if (!gpuring_stage_uses_gpu(stage)) {
        return GPURING_OK;
    }
    status = gpuring_stage_reserve(stage);
    gpuring_stage_account(module, what);
    if (status != GPURING_OK) {
        stage->absent = true;
        stage->failed = stage->lacking = status;
    }
    return status;
}

static bool agrees(const struct gpuring_stage *stage)
{
    bool left_out =
        stage->party.none || (stage->party.rooted && stage->party.root == MPI_PROC_NULL);

    return stage->module->together && stage->what != GPURING_STAGED_reduce_local && !left_out;
}

void gpuring_stage_tell(mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                        const struct gpuring_verdict *verdict, const char *how)
{
    struct gpuring_staging *staging = &module->staging;
    bool again = staging->told == verdict->failure && staging->told_rank == verdict->rank;
    char text[256], name[64];

    staging->told = verdict->failure;
    staging->told_rank = verdict->rank;
    if (verdict->failure == GPURING_OK || (again && !gpuring_log_enabled(GPURING_LOG_INFO))) {
        return;
    }
    gpuring_module_text(module, text, sizeof text);
    gpuring_stage_name(what, name, sizeof name);
    gpuring_log(again ? GPURING_LOG_INFO : GPURING_LOG_ERROR,
                "%s: %s %s: rank %d%s on host %s: %s; its log tells more", text, name, how,
                verdict->rank, verdict->remote ? " of the other group" : "",
                gpuring_compat_host(module->comm, verdict->rank, verdict->remote),
                gpuring_status_text(verdict->failure));
}

/* All ranks can go on, or none does. agreed: facts for which they agree at the end, too. */
static int go_on(struct gpuring_stage *stage, int status, uint64_t agreed)
{
    struct gpuring_verdict verdict = {.failure = status};

    if (agrees(stage)) {
        uint64_t returns = stage->receive.on_gpu ? GPURING_FACT_RETURNS : 0;

        verdict = gpuring_agreement_wait(
            stage->module->staging.blocking, stage->party, status,
            gpuring_stage_uses_gpu(stage) ? GPURING_FACT_STAGES | returns : 0);
        stage->agrees = (verdict.facts & agreed) != 0;
        gpuring_stage_tell(stage->module, stage->what, &verdict, "was not begun on any rank");
    }
    if (verdict.failure != GPURING_OK) {
        gpuring_stage_release(stage);
    }
    return gpuring_compat_error(verdict.failure);
}

int gpuring_stage_open(struct gpuring_stage *stage, mca_coll_gpuring_module_t *module,
                       enum gpuring_staged what)
{
    int status = take_places(stage, module, what);

    stage->start = number_apart(module, what);
    stage->party.none = gpuring_stage_is_of_graph(module->comm, what);
    if (status == GPURING_OK) {
        (void) gpuring_stage_fetch(stage);
        gpuring_notices_wait(stage);
        status = agrees(stage) ? gpuring_stage_failure(stage) : GPURING_OK;
    } else if (!agrees(stage)) {
        gpuring_notice_give(stage, status, GPURING_NOTICE_ABSENT);
    }
    return go_on(stage, status, GPURING_FACT_RETURNS);
}

/* No places for a call with a request. Alone, or where the previous module's calls cannot be kept
 * in step, it is an error at once. */
static int stay_away(struct gpuring_stage *stage)
{
    gpuring_notice_give(stage, stage->failed, GPURING_NOTICE_ABSENT);
    gpuring_stage_release(stage);
    return stage->noticed ? MPI_SUCCESS : gpuring_compat_error(stage->failed);
}

int gpuring_stage_open_nonblocking(struct gpuring_stage *stage, mca_coll_gpuring_module_t *module,
                                   enum gpuring_staged what)
{
    int status = take_places(stage, module, what);

    stage->party.rooted = false; /* Open MPI hands these calls on at all ranks */
    stage->party.none = stage->beside;
    stage->start = stage->beside ? GPURING_STAGE_BESIDE : 0;
    gpuring_stage_requests_reserve();
    stage->agrees = agrees(stage);
    if (status != GPURING_OK) {
        return stay_away(stage);
    }
    (void) gpuring_stage_fetch(stage);
    return MPI_SUCCESS;
}

bool gpuring_stage_defers(struct gpuring_stage *stage, const mca_coll_base_module_t *nonblocking,
                          const mca_coll_base_module_t *persistent)
{
    stage->deferred = stage->receipt != NULL && nonblocking == persistent;
    if (!stage->deferred) {
        gpuring_notices_drop(stage);
    }
    return stage->deferred;
}

int gpuring_stage_open_persistent(struct gpuring_stage *stage, mca_coll_gpuring_module_t *module,
                                  enum gpuring_staged what)
{
    int status = take_places(stage, module, what), result;

    stage->party.rooted = false;
    gpuring_stage_requests_reserve();
    if (!agrees(stage)) {
        return status != GPURING_OK ? stay_away(stage) : MPI_SUCCESS;
    }
    if (status == GPURING_OK) {
        status = gpuring_stage_request_take(stage);
    }
    result = go_on(stage, status, GPURING_FACT_STAGES);
    if (result == MPI_SUCCESS) {
        gpuring_stage_request_name(stage);
    }
    return result;
}

int gpuring_stage_close_here(struct gpuring_stage *stage, int result)
{
    int status = GPURING_ERR_ABORTED;

    if (result == OMPI_SUCCESS) {
        status = gpuring_stage_failure(stage);
        if (status == GPURING_OK) {
            status = gpuring_stage_deliver(stage);
        }
    }
    gpuring_stage_release(stage);
    return status;
}

int gpuring_stage_look(const struct gpuring_stage *stage, int status)
{
    opal_progress(); /* a notice may have arrived with the last data */
    gpuring_notice_mail_look();
    return gpuring_stage_requests_settle(stage, status);
}

int gpuring_stage_close(struct gpuring_stage *stage, int result)
{
    int status = gpuring_stage_close_here(stage, result);

    if (stage->agrees) {
        struct gpuring_verdict verdict =
            gpuring_agreement_wait(stage->module->staging.blocking, stage->party, status, 0);

        gpuring_stage_tell(stage->module, stage->what, &verdict, "failed on all ranks");
        status = verdict.failure;
    }
    if (!stage->agrees || gpuring_notice_box_filled()) { /* else nothing is waited for */
        status = gpuring_stage_look(stage, status);
    }
    return result == OMPI_SUCCESS ? gpuring_compat_error(status) : result;
}

int gpuring_stage_passed_noticed(mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                                 uint64_t number, int result)
{
    struct gpuring_stage stage = {.module = module,
                                  .what = what,
                                  .call = number,
                                  .start = number_apart(module, what),
                                  .agrees = module->together};
    int status = gpuring_notices_settle_own(&stage);

    return result == OMPI_SUCCESS ? gpuring_compat_error(status) : result;
}
