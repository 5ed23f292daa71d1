/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include <pthread.h>
#include <stdlib.h>

#include "mca/coll_gpuring/util/hash.h"
#include "mca/coll_gpuring/wireup/survey.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpuring_list all = GPURING_LIST_INIT(all); /* the newest first */

struct gpuring_survey *gpuring_survey_create(void)
{
    struct gpuring_survey *survey = calloc(1, sizeof *survey);

    if (survey != NULL) {
        survey->users = 1;
    }
    return survey;
}

/* End a use of a survey. retract: no longer offer it. */
static void end_use(struct gpuring_survey *survey, bool retract)
{
    bool last;

    if (survey == NULL) {
        return;
    }
    pthread_mutex_lock(&lock);
    last = --survey->users == 0;
    if (last || retract) {
        gpuring_list_remove(&survey->shared);
    }
    pthread_mutex_unlock(&lock);
    if (last) {
        gpuring_survey_fini(survey);
        free(survey);
    }
}

void gpuring_survey_release(struct gpuring_survey *survey)
{
    end_use(survey, false);
}

void gpuring_survey_retract(struct gpuring_survey *survey)
{
    end_use(survey, true);
}

void gpuring_survey_share(struct gpuring_survey *survey)
{
    pthread_mutex_lock(&lock);
    gpuring_list_prepend(&all, &survey->shared);
    pthread_mutex_unlock(&lock);
}

/* Return the newest shared survey with this key and, unless it is NULL, this own block. The caller
 * holds the lock. */
static struct gpuring_survey *newest(uint64_t key, const uint64_t *own)
{
    struct gpuring_survey *survey;

    GPURING_LIST_EACH(survey, &all, struct gpuring_survey, shared)
    {
        if (survey->key == key && (own == NULL || survey->own == *own)) {
            return survey;
        }
    }
    return NULL;
}

bool gpuring_survey_exists(uint64_t key)
{
    bool exists;

    pthread_mutex_lock(&lock);
    exists = newest(key, NULL) != NULL;
    pthread_mutex_unlock(&lock);
    return exists;
}

struct gpuring_survey *gpuring_survey_find(uint64_t key, uint64_t own, uint32_t *offer)
{
    struct gpuring_survey *found;

    pthread_mutex_lock(&lock);
    found = newest(key, &own);
    if (found != NULL) {
        found->users++;
        *offer = ++found->offers;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

void gpuring_survey_id(const struct gpuring_survey *survey, uint32_t offer, uint64_t id[2])
{
    const struct gpuring_rank_info *first = gpuring_rank_info_of(&survey->rank_infos, 0);

    for (int i = 0; i < 2; i++) {
        id[i] = gpuring_hash_number(gpuring_hash_number(GPURING_HASH_START, first->id[i]), offer);
    }
}
