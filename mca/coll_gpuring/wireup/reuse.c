/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Use the connections of a freed communicator of the same processes, which are in the process's
 * pool (wireup/pool.h), or the survey of any such communicator (wireup/survey.h). */
#include <stdlib.h>

#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/pvars.h"
#include "mca/coll_gpuring/util/hash.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/wireup/pool.h"
#include "mca/coll_gpuring/wireup/state.h"

static bool works(const struct gpuring_pooled *pooled)
{
    return gpuring_engine_usable(pooled->engine);
}

static void pooled_destroy(struct gpuring_pooled *pooled)
{
    gpuring_wireup_free(pooled->wireup);
    gpuring_engine_destroy(pooled->engine);
    free(pooled);
}

static struct gpuring_pool pool = GPURING_POOL_INIT(pool, works, pooled_destroy);

static void count_pooled(void)
{
    gpuring_pvar_set(GPURING_PVAR_pooled, gpuring_pool_count(&pool));
}

/* Return the key of a communicator: its processes in their order, and everything that may change
 * between two communicators of the same processes. */
static uint64_t key_of(const mca_coll_gpuring_module_t *module)
{
    int64_t shared[GPURING_SHARED_COUNT];
    uint64_t hash = gpuring_compat_processes(module->comm);

    gpuring_params_shared(shared);
    hash = gpuring_hash_number(hash, module->stream != NULL);
    return gpuring_hash_bytes(hash, shared, sizeof shared);
}

/* Find a survey to offer. Return its word, or GPURING_POOL_NOTHING. */
static uint64_t offer_survey(const mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    uint64_t own;
    uint32_t offer;

    if (gpuring_survey_exists(wireup->key) &&
        gpuring_rank_info_hash(module, wireup, &own) == GPURING_OK) {
        wireup->survey = gpuring_survey_find(wireup->key, own, &offer);
    }
    if (wireup->survey == NULL) {
        return GPURING_POOL_NOTHING;
    }
    gpuring_survey_id(wireup->survey, offer, wireup->id);
    return gpuring_pool_word((uint32_t) wireup->id[0]);
}

int gpuring_reuse_offer(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    wireup->key = key_of(module);
    /* An engine for operations in a stream of the application must not have run others before. */
    wireup->offer = module->stream == NULL ? gpuring_pool_take(&pool, wireup->key) : NULL;
    count_pooled();
    gpuring_oob_agree(module->oob, wireup->offer != NULL
                                       ? gpuring_pool_word(wireup->offer->identity)
                                       : offer_survey(module, wireup));
    return GPURING_OK;
}

int gpuring_reuse_take(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    if (!gpuring_pool_agreed(module->oob->word)) {
        gpuring_reuse_withdraw(wireup);
        gpuring_reuse_forget(wireup);
    } else if (wireup->offer == NULL) {
        wireup->known = true;
        return gpuring_network_choose(wireup, module->rank, NULL);
    } else {
        wireup->engine = wireup->offer->engine;
        wireup->offer->engine = NULL;
        gpuring_engine_resume(wireup->engine, module->comm, module->oob->track);
        gpuring_pvar_add(GPURING_PVAR_reused, 1);
    }
    return GPURING_OK;
}

void gpuring_reuse_forget(struct gpuring_wireup *wireup)
{
    gpuring_survey_retract(wireup->survey);
    wireup->survey = NULL;
    wireup->known = false;
}

struct gpuring_wireup *gpuring_reuse_wireup(struct gpuring_wireup *wireup)
{
    struct gpuring_wireup *pooled = wireup->offer->wireup;

    wireup->offer->wireup = NULL;
    gpuring_reuse_withdraw(wireup);
    return pooled;
}

void gpuring_reuse_withdraw(struct gpuring_wireup *wireup)
{
    if (wireup->offer != NULL) {
        pooled_destroy(wireup->offer);
        wireup->offer = NULL;
    }
}

bool gpuring_reuse_possible(void)
{
    return gpuring_pool_count(&pool) > 0;
}

void gpuring_reuse_clear(void)
{
    gpuring_pool_clear(&pool);
    count_pooled();
}

void gpuring_reuse_make_room(int rank)
{
    gpuring_info(
        "[pool-cleared] rank %d is out of memory: all ranks free the connections that they "
        "keep of freed communicators, and try again",
        rank);
    gpuring_reuse_clear();
}

/* Keep the connections of a module. Returns false if this is not possible. */
static bool keep_engine(mca_coll_gpuring_module_t *module)
{
    struct gpuring_engine *engine = module->engine;
    struct gpuring_pooled *pooled;

    if (module->state != GPURING_STATE_READY || gpuring_params.pool_size == 0 ||
        !gpuring_engine_usable(engine)) {
        return false;
    }
    pooled = malloc(sizeof *pooled);
    if (pooled == NULL) {
        return false;
    }
    gpuring_engine_rest(engine, module->calls, module->agree.votes);
    *pooled = (struct gpuring_pooled){.key = engine->key,
                                      .identity = gpuring_engine_identity(engine),
                                      .engine = engine,
                                      .wireup = module->wireup};
    gpuring_pool_put(&pool, pooled, (unsigned) gpuring_params.pool_size);
    count_pooled();
    return true;
}

void gpuring_wireup_close(mca_coll_gpuring_module_t *module, bool idle)
{
    if (module->wireup != NULL) {
        gpuring_reuse_withdraw(module->wireup);
    }
    if (!idle || !keep_engine(module)) {
        gpuring_wireup_free(module->wireup);
        gpuring_engine_destroy(module->engine);
    }
    module->wireup = NULL;
    module->engine = NULL;
}
