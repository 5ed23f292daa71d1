/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The pool of connections of freed communicators: which engines ranks offer, use and destroy.
 * Surveys that communicators of the same processes share. */
#include "test/unit/unit.h"

#include <stdlib.h>

#include "mca/coll_gpuring/wireup/pool.h"
#include "mca/coll_gpuring/wireup/survey.h"

#define RANKS 3
#define KEY   7
#define MANY  100

static int destroyed;
static uint32_t broken; /* the identity of connections that do not work, or 0 */

static bool works(const struct gpuring_pooled *pooled)
{
    return pooled->identity != broken;
}

static void destroy(struct gpuring_pooled *pooled)
{
    destroyed++;
    free(pooled);
}

static struct gpuring_pool pools[RANKS] = {GPURING_POOL_INIT(pools[0], works, destroy),
                                           GPURING_POOL_INIT(pools[1], works, destroy),
                                           GPURING_POOL_INIT(pools[2], works, destroy)};

static void put(int rank, uint64_t key, uint32_t identity, unsigned limit)
{
    struct gpuring_pooled *pooled = malloc(sizeof *pooled);

    assert_non_null(pooled);
    *pooled = (struct gpuring_pooled){.key = key, .identity = identity};
    gpuring_pool_put(&pools[rank], pooled, limit);
}

/* Let all ranks offer an engine, and destroy the offered ones. Return the identity that they agree
 * on, or 0. */
static uint32_t offer_all(uint64_t key)
{
    uint64_t word = 0;
    uint32_t identity = 0;

    for (int rank = 0; rank < RANKS; rank++) {
        struct gpuring_pooled *offer = gpuring_pool_take(&pools[rank], key);

        word |= offer != NULL ? gpuring_pool_word(offer->identity) : GPURING_POOL_NOTHING;
        if (offer != NULL) {
            identity = offer->identity;
            destroy(offer);
        }
    }
    return gpuring_pool_agreed(word) ? identity : 0;
}

static int clear_all(void **state)
{
    for (int rank = 0; rank < RANKS; rank++) {
        gpuring_pool_clear(&pools[rank]);
        assert_int_equal(gpuring_pool_count(&pools[rank]), 0);
    }
    destroyed = 0;
    broken = 0;
    return 0;
}

TEST_WITH(NULL, clear_all, test_all_offer_the_same)
{
    static const uint32_t identities[] = {1, UINT32_C(0x80000000), UINT32_C(0x12345678),
                                          UINT32_MAX};

    assert_int_equal(offer_all(KEY), 0);
    for (size_t i = 0; i < sizeof identities / sizeof *identities; i++) {
        for (int rank = 0; rank < RANKS; rank++) {
            put(rank, KEY, identities[i], 8);
        }
        assert_int_equal(offer_all(KEY), identities[i]);
    }
}

TEST_WITH(NULL, clear_all, test_one_rank_differs)
{
    for (int differs = 0; differs < RANKS; differs++) {
        for (int bit = 0; bit < 32; bit++) {
            for (int rank = 0; rank < RANKS; rank++) {
                put(rank, KEY, 5 ^ (rank == differs ? UINT32_C(1) << bit : 0), 8);
            }
            assert_int_equal(offer_all(KEY), 0);
        }
        for (int rank = 0; rank < RANKS; rank++) {
            put(rank, rank == differs ? KEY + 1 : KEY, 5, 8); /* it has none of this key */
        }
        assert_int_equal(offer_all(KEY), 0);
        assert_int_equal(gpuring_pool_count(&pools[differs]), 1);
        assert_int_equal(gpuring_pool_count(&pools[(differs + 1) % RANKS]), 0);
        clear_all(state);
    }
}

TEST_WITH(NULL, clear_all, test_freed_in_another_order)
{
    for (int rank = 0; rank < RANKS; rank++) {
        for (uint32_t i = 0; i < 4; i++) {
            put(rank, KEY, 10 + (rank == 1 ? 3 - i : i), 8);
        }
    }
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(offer_all(KEY), 10 + i);
    }
}

/* A rank that has destroyed connections beyond its limit makes the others destroy them, too. */
TEST_WITH(NULL, clear_all, test_pools_become_equal)
{
    for (uint32_t i = 1; i <= 4; i++) {
        for (int rank = 0; rank < RANKS; rank++) {
            put(rank, KEY, i, rank == 2 ? 2 : 8);
        }
    }
    assert_int_equal(destroyed, 2);
    for (int i = 0; i < 4; i++) {
        (void) offer_all(KEY);
    }
    for (int rank = 0; rank < RANKS; rank++) {
        assert_int_equal(gpuring_pool_count(&pools[rank]), 0);
        put(rank, KEY, 9, 8);
    }
    assert_int_equal(offer_all(KEY), 9);
}

TEST_WITH(NULL, clear_all, test_failed_ones_are_not_offered)
{
    for (int rank = 0; rank < RANKS; rank++) {
        put(rank, KEY, 1, 8);
        put(rank, KEY, 2, 8);
    }
    broken = 1;
    assert_int_equal(offer_all(KEY), 2);
    assert_int_equal(destroyed, 2 * RANKS);
}

TEST_WITH(NULL, clear_all, test_limit)
{
    struct gpuring_pooled *offer;

    for (uint32_t i = 0; i < MANY; i++) {
        put(0, i, i + 1, 3);
        assert_int_equal(gpuring_pool_count(&pools[0]), i < 3 ? i + 1 : 3);
    }
    assert_int_equal(destroyed, MANY - 3);
    assert_null(gpuring_pool_take(&pools[0], MANY - 4)); /* the oldest ones are gone */
    offer = gpuring_pool_take(&pools[0], MANY - 3);
    assert_non_null(offer);
    free(offer);
    put(0, KEY, 1, 0);
    assert_int_equal(gpuring_pool_count(&pools[0]), 0);
}

/* Create a survey of one rank, which must be released once. */
static struct gpuring_survey *make_survey(uint64_t key, uint64_t own, uint64_t id)
{
    struct gpuring_survey *survey = gpuring_survey_create();
    struct gpuring_rank_info *rank_info = calloc(1, sizeof *rank_info);

    assert_non_null(survey);
    assert_non_null(rank_info);
    rank_info->id[0] = rank_info->id[1] = id;
    survey->rank_infos = (struct gpuring_gathered){
        .nranks = 1, .bytes = sizeof *rank_info, .blocks = (uint8_t *) rank_info};
    survey->key = key;
    survey->own = own;
    return survey;
}

/* Find a survey and end its use. Returns the number of the offer, or 0. */
static uint32_t offer_survey(uint64_t key, uint64_t own, const struct gpuring_survey *expected)
{
    uint32_t offer = 0;
    struct gpuring_survey *found = gpuring_survey_find(key, own, &offer);

    assert_ptr_equal(found, expected);
    gpuring_survey_release(found);
    return offer;
}

TEST(test_survey_is_offered_while_it_is_used)
{
    struct gpuring_survey *survey = make_survey(KEY, 1, 1), *other;
    uint32_t offer;

    assert_false(gpuring_survey_exists(KEY)); /* it is not complete */
    gpuring_survey_share(survey);
    assert_true(gpuring_survey_exists(KEY));
    assert_int_equal(offer_survey(KEY, 1, survey), 1);
    offer_survey(KEY + 1, 1, NULL);
    offer_survey(KEY, 2, NULL); /* this rank has changed */
    assert_int_equal(offer_survey(KEY, 1, survey), 2);
    other = gpuring_survey_find(KEY, 1, &offer);
    gpuring_survey_release(survey); /* the communicator that made it is freed */
    assert_int_equal(offer_survey(KEY, 1, other), 4);
    gpuring_survey_release(other);
    offer_survey(KEY, 1, NULL);
    gpuring_survey_release(NULL);
}

/* A rank no longer offers a survey that another rank did not offer. */
TEST(test_retracted_survey)
{
    struct gpuring_survey *survey = make_survey(KEY, 1, 1);
    uint32_t offer;

    gpuring_survey_share(survey);
    gpuring_survey_retract(gpuring_survey_find(KEY, 1, &offer));
    assert_false(gpuring_survey_exists(KEY));
    gpuring_survey_release(survey); /* the communicator that made it used it until now */
}

TEST(test_the_newest_survey_is_offered)
{
    struct gpuring_survey *first = make_survey(KEY, 1, 1), *second = make_survey(KEY, 1, 2);

    gpuring_survey_share(first);
    gpuring_survey_share(second);
    assert_int_equal(offer_survey(KEY, 1, second), 1);
    gpuring_survey_release(second);
    assert_int_equal(offer_survey(KEY, 1, first), 1);
    gpuring_survey_release(first);
}

/* Wire-ups have different ids if their surveys differ, or the numbers of their offers. */
TEST(test_ids_of_surveys)
{
    struct gpuring_survey *same[] = {make_survey(KEY, 1, 1), make_survey(KEY, 2, 1)};
    struct gpuring_survey *differs = make_survey(KEY, 1, 2);
    uint64_t id[3][2];

    for (uint32_t offer = 1; offer < MANY; offer++) {
        gpuring_survey_id(same[0], offer, id[0]);
        gpuring_survey_id(same[1], offer, id[1]);
        assert_memory_equal(id[0], id[1], sizeof id[0]);
        gpuring_survey_id(same[1], offer + 1, id[1]);
        gpuring_survey_id(differs, offer, id[2]);
        for (int i = 1; i < 3; i++) {
            assert_int_not_equal(id[0][0], id[i][0]);
            assert_int_not_equal((uint32_t) id[0][0], (uint32_t) id[i][0]); /* the offered word */
        }
    }
    gpuring_survey_release(same[0]);
    gpuring_survey_release(same[1]);
    gpuring_survey_release(differs);
}
