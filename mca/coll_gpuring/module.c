/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/calls/calls.h"
#include "mca/coll_gpuring/component.h"
#include "mca/coll_gpuring/memory_kind.h"
#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/oob/exchange.h"
#include "mca/coll_gpuring/oob/message.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/request.h"
#include "mca/coll_gpuring/serve/fallback_allreduce.h"
#include "mca/coll_gpuring/stage/agree.h"
#include "mca/coll_gpuring/stage/notice.h"
#include "mca/coll_gpuring/stage/pipeline.h"
#include "mca/coll_gpuring/stage/stage.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/wireup/wireup.h"

static void module_construct(mca_coll_gpuring_module_t *module)
{
    module->comm = NULL;
    module->state = GPURING_STATE_UNWIRED;
    module->failure = GPURING_OK;
    module->enabled = module->ended = false;
    module->serves = false;
    module->stages = false;
    module->together = false;
    module->settled = false;
    module->staging = (struct gpuring_staging){.blocking = NULL};
    module->seen_reasons = 0;
    module->logged_staged = 0;
    module->engine = NULL;
    module->wireup = NULL;
    module->exchange = NULL;
    module->simple = NULL;
    module->spare = NULL;
    module->previous = (struct gpuring_previous){.allreduce = NULL};
    module->watchdog = (struct gpuring_watchdog){.looks = 0};
    module->link = NULL;
    gpuring_queue_init(&module->queue);
}

/* ACT(function) for every function that ours may replace. */
#define ALL_FUNCTIONS(ACT_FORMS, ACT) GPURING_STAGED_COLLECTIVES(ACT_FORMS) ACT(reduce_local)

/* Give back the references to the modules that ours replaced. Idempotent. */
static void forget_previous(mca_coll_gpuring_module_t *module)
{
#define FORGET(name)                                 \
    if (module->previous.name##_module != NULL) {    \
        OBJ_RELEASE(module->previous.name##_module); \
        module->previous.name = NULL;                \
        module->previous.name##_module = NULL;       \
    }
#define FORGET_FORMS(name, list) GPURING_FORMS(FORGET, name)
    ALL_FUNCTIONS(FORGET_FORMS, FORGET)
#undef FORGET_FORMS
#undef FORGET
}

/* Local, bounded in time: other ranks may be gone. Idempotent. */
void gpuring_module_end(mca_coll_gpuring_module_t *module)
{
    if (module->ended) {
        return;
    }
    module->ended = true;
    pthread_mutex_lock(&gpuring_process.lock);
    if (module->link != NULL) {
        *module->link = module->next;
        if (module->next != NULL) {
            module->next->link = module->link;
        }
        module->link = NULL;
    }
    pthread_mutex_unlock(&gpuring_process.lock);
    gpuring_queue_destroy(module);
    gpuring_wireup_free(module->wireup);
    gpuring_fallback_allreduce_free(module->simple);
    gpuring_exchange_free(module->exchange);
    gpuring_agreement_free(module->staging.blocking);
    gpuring_agreement_free(module->staging.nonblocking);
    gpuring_notices_close(module);
    if (module->spare != NULL) {
        OBJ_RELEASE(module->spare);
    }
    gpuring_engine_destroy(module->engine);
}

static void module_destruct(mca_coll_gpuring_module_t *module)
{
    gpuring_module_end(module);
#if !GPURING_COLL_SELF_INSTALLS
    forget_previous(module);
#endif
}

OBJ_CLASS_INSTANCE(mca_coll_gpuring_module_t, mca_coll_base_module_t, module_construct,
                   module_destruct);

/*
 * Keep what we replace. 4.1 and 5.0 would release those modules when ours takes over: hold them.
 * A communicator may lack a function; then ours is not offered either.
 */
static void save_previous(mca_coll_gpuring_module_t *module, struct ompi_communicator_t *comm)
{
#define SAVE(name)                                                                     \
    if (module->super.coll_##name != NULL) {                                           \
        module->previous.name = comm->c_coll->coll_##name;                             \
        module->previous.name##_module = comm->c_coll->coll_##name##_module;           \
        if (module->previous.name == NULL || module->previous.name##_module == NULL) { \
            module->super.coll_##name = NULL;                                          \
            module->previous.name = NULL;                                              \
            module->previous.name##_module = NULL;                                     \
        } else if (!GPURING_COLL_SELF_INSTALLS) {                                      \
            OBJ_RETAIN(module->previous.name##_module);                                \
        }                                                                              \
    }
#define SAVE_FORMS(name, list) GPURING_FORMS(SAVE, name)
    ALL_FUNCTIONS(SAVE_FORMS, SAVE)
#undef SAVE_FORMS
#undef SAVE
}

#if GPURING_COLL_SELF_INSTALLS
static void install(mca_coll_gpuring_module_t *module, struct ompi_communicator_t *comm)
{
#define INSTALL(name)                                          \
    if (module->super.coll_##name != NULL) {                   \
        comm->c_coll->coll_##name = module->super.coll_##name; \
        comm->c_coll->coll_##name##_module = &module->super;   \
    }
#define INSTALL_FORMS(name, list) GPURING_FORMS(INSTALL, name)
    ALL_FUNCTIONS(INSTALL_FORMS, INSTALL)
#undef INSTALL_FORMS
#undef INSTALL
}

static void uninstall(mca_coll_gpuring_module_t *module, struct ompi_communicator_t *comm)
{
#define UNINSTALL(name)                                                      \
    if (module->super.coll_##name != NULL &&                                 \
        comm->c_coll->coll_##name##_module == &module->super) {              \
        comm->c_coll->coll_##name = module->previous.name;                   \
        comm->c_coll->coll_##name##_module = module->previous.name##_module; \
    }
#define UNINSTALL_FORMS(name, list) GPURING_FORMS(UNINSTALL, name)
    ALL_FUNCTIONS(UNINSTALL_FORMS, UNINSTALL)
#undef UNINSTALL_FORMS
#undef UNINSTALL
}
#endif

static int module_enable(mca_coll_base_module_t *base, struct ompi_communicator_t *comm)
{
    mca_coll_gpuring_module_t *module = (mca_coll_gpuring_module_t *) base;

    save_previous(module, comm);
#if GPURING_COLL_SELF_INSTALLS
    install(module, comm);
#endif
    module->enabled = true;
    if (comm == MPI_COMM_WORLD && module->stages) {
        gpuring_notice_mail_open();
    }
    pthread_mutex_lock(&gpuring_process.lock);
    module->next = gpuring_process.modules;
    module->link = &gpuring_process.modules;
    if (module->next != NULL) {
        module->next->link = &module->next;
    }
    gpuring_process.modules = module;
    pthread_mutex_unlock(&gpuring_process.lock);
    return OMPI_SUCCESS;
}

/* 4.1 and 5.0 call this once for each function that was ours. */
static int module_disable(mca_coll_base_module_t *base, struct ompi_communicator_t *comm)
{
    mca_coll_gpuring_module_t *module = (mca_coll_gpuring_module_t *) base;

    if (module->enabled) {
        module->enabled = false;
#if GPURING_COLL_SELF_INSTALLS
        uninstall(module, comm);
#else
        (void) comm;
#endif
    }
    return OMPI_SUCCESS;
}

/* Do calls of this process meet GPUs, if any? */
static bool may_stage(void)
{
    return gpuring_process.device_ops->kind != GPURING_DEVICE_HOST;
}

static bool add_agreements(struct gpuring_staging *staging)
{
    if (may_stage()) {
        staging->blocking = gpuring_agreement_create();
        staging->nonblocking = gpuring_agreement_create();
    }
    return !may_stage() || (staging->blocking != NULL && staging->nonblocking != NULL);
}

static void use_agreements(struct gpuring_staging *staging, struct ompi_communicator_t *comm)
{
    bool groups = OMPI_COMM_IS_INTER(comm);

    gpuring_agreement_use(staging->blocking, comm,
                          groups ? GPURING_TAG_GROUP_STAGED : GPURING_TAG_STAGED);
    gpuring_agreement_use(staging->nonblocking, comm,
                          groups ? GPURING_TAG_GROUP_NONBLOCKING : GPURING_TAG_NONBLOCKING);
}

/*
 * A module with what wire-up and the simple path need, so that they cannot fail at one rank alone
 * later. NULL: no memory.
 */
static mca_coll_gpuring_module_t *module_new(bool serves)
{
    mca_coll_gpuring_module_t *module = OBJ_NEW(mca_coll_gpuring_module_t);

    if (module != NULL && !add_agreements(&module->staging)) {
        OBJ_RELEASE(module);
        return NULL;
    }
    if (module == NULL || !serves) {
        return module;
    }
    module->exchange = gpuring_exchange_create();
    module->simple = gpuring_fallback_allreduce_create(module->exchange);
    module->wireup = gpuring_wireup_create();
    gpuring_request_reserve(module);
    if (module->exchange == NULL || module->simple == NULL || module->wireup == NULL ||
        module->spare == NULL) {
        OBJ_RELEASE(module);
        return NULL;
    }
    return module;
}

/* Put a module into the reserve; the one that was there. */
static mca_coll_gpuring_module_t *reserve_exchange(mca_coll_gpuring_module_t *module)
{
    static mca_coll_gpuring_module_t *reserve;
    mca_coll_gpuring_module_t *old;

    pthread_mutex_lock(&gpuring_process.lock);
    old = reserve;
    reserve = module;
    pthread_mutex_unlock(&gpuring_process.lock);
    return old;
}

void gpuring_module_unreserve(void)
{
    mca_coll_gpuring_module_t *module = reserve_exchange(NULL);

    if (module != NULL) {
        OBJ_RELEASE(module);
    }
}

void gpuring_module_reserve(void)
{
    mca_coll_gpuring_module_t *module = reserve_exchange(NULL);

    if (module == NULL) {
        module = module_new(true);
    }
    module = reserve_exchange(module);
    if (module != NULL) { /* another thread was faster */
        OBJ_RELEASE(module);
    }
}

/*
 * A rank without a module would leave the others alone in their wire-up. So one is kept, to be used
 * when there is no memory, and replaced as soon as there is some: here, and when a wire-up begins.
 */
static mca_coll_gpuring_module_t *module_get(bool serves)
{
    mca_coll_gpuring_module_t *module;

    gpuring_module_reserve();
    module = module_new(serves);
    return module != NULL ? module : reserve_exchange(NULL);
}

/* The functions for the communicator's table, before it is known which it has. */
static void offer(mca_coll_gpuring_module_t *module)
{
#define OFFER_STAGED(name)             module->super.coll_##name = gpuring_stage_##name;
#define OFFER_STAGED_FORMS(name, list) GPURING_FORMS(OFFER_STAGED, name)
#define OFFER_CUT(name, list)          module->super.coll_##name = gpuring_pipeline_##name;
    if (module->stages) {
        ALL_FUNCTIONS(OFFER_STAGED_FORMS, OFFER_STAGED)
        GPURING_CUT_COLLECTIVES(OFFER_CUT)
    }
#undef OFFER_CUT
#undef OFFER_STAGED_FORMS
#undef OFFER_STAGED
#define OFFER(name) module->super.coll_##name = mca_coll_gpuring_##name;
    if (module->serves) {
        GPURING_COLLECTIVES(OFFER)
    }
#undef OFFER
}

mca_coll_base_module_t *mca_coll_gpuring_comm_query(struct ompi_communicator_t *comm, int *priority)
{
    mca_coll_gpuring_module_t *module;
    bool serves = !OMPI_COMM_IS_INTER(comm) && ompi_comm_size(comm) > 1, stages;

    if (comm == MPI_COMM_WORLD) {
        gpuring_process.world_rank = ompi_comm_rank(comm);
    }
    if (gpuring_params.priority <= 0 || gpuring_process.device_ops == NULL) {
        return NULL;
    }
    stages = may_stage();
    if (!serves && !stages) {
        return NULL;
    }
    module = module_get(serves);
    if (module == NULL) {
        gpuring_error(
            "out of memory for a communicator, and what was kept is in use: this rank leaves "
            "it to other components; if other ranks do not, their first call waits "
            "(coll_gpuring_timeout bounds that)");
        return NULL;
    }
    if (serves) {
        gpuring_exchange_use(module->exchange, comm, GPURING_TAG_EXCHANGE);
    }
    if (stages) {
        use_agreements(&module->staging, comm);
        gpuring_notices_open(&module->staging, comm);
        if (gpuring_memory_possible()) {
            gpuring_stage_prepare();
        }
    }
    module->comm = comm;
    module->rank = ompi_comm_rank(comm);
    module->nranks = ompi_comm_size(comm);
    module->serves = serves;
    module->stages = stages;
    module->together = stages && gpuring_params.agree == GPURING_PARAM_AGREE_ALWAYS &&
                       (OMPI_COMM_IS_INTER(comm) || module->nranks > 1);
    module->super.coll_module_enable = module_enable;
    module->super.coll_module_disable = module_disable;
    offer(module);
    *priority = gpuring_params.priority;
    return &module->super;
}

void gpuring_module_fail(mca_coll_gpuring_module_t *module, int status)
{
    if (module->state == GPURING_STATE_FAILED) {
        return;
    }
    module->state = GPURING_STATE_FAILED;
    module->failure = status;
    if (module->engine != NULL) {
        gpuring_transport_abort(module->engine->transport, status);
    }
}
