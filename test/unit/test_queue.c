/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Test decisions about calls, the queue of a communicator, and the order of its persistent
 * calls. */
#include "test/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/serve/decide.h"
#include "mca/coll_gpuring/serve/persistent_order.h"
#include "mca/coll_gpuring/serve/queue.h"

/* ---- Decisions ---- */

static enum gpuring_decision decide(enum gpuring_form form, enum gpuring_state state,
                                    enum gpuring_reason reason, const char *flags,
                                    enum gpuring_reason expected)
{
    struct gpuring_circumstances known = {
        .form = form,
        .state = state,
        .reason = reason,
        .must_agree = strchr(flags, 'a') != NULL,
        .tuned = strchr(flags, 't') != NULL,
        .busy = strchr(flags, 'b') != NULL,
        .unconnected = strchr(flags, 'u') != NULL,
        .unconnectable = strchr(flags, 'U') != NULL,
    };
    enum gpuring_reason found = reason;
    enum gpuring_decision decision = gpuring_decide(&known, &found);

    assert_int_equal(found, expected);
    return decision;
}

#define DECIDE(form, state, reason, flags, expected)                              \
    decide(GPURING_##form, GPURING_STATE_##state, GPURING_REASON_##reason, flags, \
           GPURING_REASON_##expected)

TEST(calls_run_wait_or_are_delegated)
{
    assert_int_equal(DECIDE(BLOCKING, READY, NONE, "", NONE), GPURING_RUN);
    assert_int_equal(DECIDE(BLOCKING, READY, NONE, "b", NONE), GPURING_WAIT);
    assert_int_equal(DECIDE(BLOCKING, READY, NONE, "a", NONE), GPURING_WAIT);
    assert_int_equal(DECIDE(BLOCKING, READY, NONE, "at", NONE), GPURING_WAIT);
    assert_int_equal(DECIDE(BLOCKING, READY, NONE, "bt", TUNED), GPURING_DELEGATE);
    assert_int_equal(DECIDE(BLOCKING, READY, MIXED, "", MIXED), GPURING_DELEGATE);
    assert_int_equal(DECIDE(BLOCKING, READY, NONE, "u", NONE), GPURING_WAIT);
    assert_int_equal(DECIDE(BLOCKING, READY, NONE, "uU", DEAD), GPURING_DELEGATE);
    assert_int_equal(DECIDE(BLOCKING, READY, NONE, "uaU", DEAD), GPURING_DELEGATE);
    assert_int_equal(DECIDE(BLOCKING, READY, NONE, "ubU", NONE), GPURING_WAIT);
    assert_int_equal(DECIDE(PERSISTENT, READY, NONE, "u", NONE), GPURING_WAIT);
    assert_int_equal(DECIDE(BLOCKING, UNWIRED, NONE, "", NONE), GPURING_WAIT);
    assert_int_equal(DECIDE(BLOCKING, UNWIRED, MEMORY, "", MEMORY), GPURING_DELEGATE);
    assert_int_equal(DECIDE(BLOCKING, WIRING, NONE, "", NONE), GPURING_WAIT);
    assert_int_equal(DECIDE(BLOCKING, DEAD, NONE, "", DEAD), GPURING_DELEGATE);
    assert_int_equal(DECIDE(BLOCKING, DEAD, NONE, "b", NONE), GPURING_WAIT);
    assert_int_equal(DECIDE(BLOCKING, FAILED, NONE, "", NONE), GPURING_REFUSE);
    assert_int_equal(DECIDE(BLOCKING, FAILED, NONE, "t", TUNED), GPURING_DELEGATE);
    assert_int_equal(DECIDE(BLOCKING, FAILED, TYPE, "", TYPE), GPURING_DELEGATE);
}

TEST(persistent_calls_are_decided_when_they_are_made)
{
    assert_int_equal(DECIDE(PERSISTENT, UNWIRED, NONE, "", NONE), GPURING_WAIT);
    assert_int_equal(DECIDE(PERSISTENT, WIRING, NONE, "", NONE), GPURING_WAIT);
    assert_int_equal(DECIDE(PERSISTENT, READY, NONE, "a", NONE), GPURING_WAIT);
    assert_int_equal(DECIDE(PERSISTENT, READY, NONE, "t", TUNED), GPURING_DELEGATE);
    assert_int_equal(DECIDE(PERSISTENT, READY, NONE, "", NONE), GPURING_RUN);
    assert_int_equal(DECIDE(PERSISTENT, DEAD, NONE, "", DEAD), GPURING_DELEGATE);
    assert_int_equal(DECIDE(PERSISTENT, FAILED, NONE, "", NONE), GPURING_REFUSE);
    assert_int_equal(DECIDE(STARTED, READY, NONE, "t", NONE), GPURING_RUN);
    assert_int_equal(DECIDE(STARTED, FAILED, NONE, "", NONE), GPURING_REFUSE);
}

/* ---- The queue ---- */

#define RANKS 3
#define MOST  32

static struct gpuring_queue queues[RANKS];
static struct gpuring_item items[RANKS][MOST];
static int completed;

static void count(struct gpuring_item *item)
{
    assert_int_equal(item->phase, GPURING_PHASE_DONE);
    assert_int_equal(item->status, -completed);
    completed++;
}

static int queues_setup(void **state)
{
    memset(items, 0, sizeof items);
    completed = 0;
    for (int r = 0; r < RANKS; r++) {
        gpuring_queue_init(&queues[r]);
    }
    return 0;
}

static int queues_teardown(void **state)
{
    for (int r = 0; r < RANKS; r++) {
        gpuring_queue_fini(&queues[r]);
    }
    return 0;
}

TEST_WITH(queues_setup, queues_teardown, items_end_in_the_order_of_the_calls)
{
    struct gpuring_list finished;
    struct gpuring_queue *queue = &queues[0];

    gpuring_list_init(&finished);
    assert_true(gpuring_queue_empty(queue));
    assert_null(gpuring_queue_next(queue));
    for (int i = 0; i < 3; i++) {
        items[0][i].complete = count;
        gpuring_queue_add(queue, &items[0][i], GPURING_PHASE_QUEUED);
        assert_int_equal(items[0][i].phase, GPURING_PHASE_QUEUED);
    }
    for (int i = 0; i < 3; i++) {
        assert_false(gpuring_queue_empty(queue));
        assert_ptr_equal(gpuring_queue_next(queue), &items[0][i]);
        assert_true(gpuring_persistent_ordered(queue));
        gpuring_queue_finish(queue, -i, &finished);
    }
    assert_true(gpuring_queue_empty(queue));
    assert_int_equal(completed, 0);
    gpuring_queue_complete(&finished);
    assert_int_equal(completed, 3);
    assert_int_equal(queue->finished, 3);
}

/* ---- Calls that a vote may delegate ---- */

static int delegated, refuses;

static int delegate_item(struct gpuring_item *item)
{
    assert_false(gpuring_list_linked(&item->node));
    delegated++;
    return refuses;
}

TEST_WITH(queues_setup, queues_teardown, undecided_calls_are_delegated_in_their_turn)
{
    struct gpuring_queue *queue = &queues[0];
    struct gpuring_list finished;

    delegated = refuses = 0;
    gpuring_list_init(&finished);
    for (int i = 0; i < 4; i++) {
        items[0][i].complete = count;
        items[0][i].delegate = delegate_item;
        gpuring_queue_add(queue, &items[0][i], GPURING_PHASE_QUEUED);
    }
    gpuring_queue_delegate(queue, &finished);
    assert_true(gpuring_list_empty(&finished)); /* it completes elsewhere */
    gpuring_queue_decide(queue, &items[0][1]);
    assert_true(gpuring_queue_undecided(queue));
    gpuring_queue_finish(queue, 0, &finished);
    refuses = -1;
    gpuring_queue_delegate(queue, &finished);
    gpuring_queue_finish(queue, -2, &finished); /* refused */
    assert_false(gpuring_queue_undecided(queue));
    assert_true(gpuring_queue_empty(queue));
    gpuring_queue_complete(&finished);
    assert_int_equal(completed, 3);
    assert_int_equal(delegated, 2);
}

/* ---- The order of persistent calls ---- */

/* Start the persistent call with this number, or make another call (0). */
static struct gpuring_item *start(int rank, uint32_t number)
{
    struct gpuring_item *item = items[rank];

    while (item->module != NULL) { /* used */
        item++;
    }
    item->module = (void *) &queues[rank];
    item->persistent = number;
    gpuring_queue_add(&queues[rank], item, GPURING_PHASE_QUEUED);
    return item;
}

/* Gather the calls that all ranks have started, and apply the result. */
static void gather(void)
{
    static uint32_t words[RANKS][MOST];
    const uint32_t *reports[RANKS];

    for (int r = 0; r < RANKS; r++) {
        assert_true(gpuring_persistent_words(&queues[r]) <= MOST);
        gpuring_persistent_report(&queues[r], words[r]);
        reports[r] = words[r];
    }
    for (int r = 0; r < RANKS; r++) {
        gpuring_persistent_order(&queues[r], reports, RANKS, r);
    }
}

/* The next item is known on all ranks: a persistent call with this number, or another one (0). */
static void finish_everywhere(uint32_t number)
{
    struct gpuring_list finished;

    gpuring_list_init(&finished);
    for (int r = 0; r < RANKS; r++) {
        assert_true(gpuring_persistent_ordered(&queues[r]));
        assert_int_equal(gpuring_queue_next(&queues[r])->persistent, number);
        gpuring_queue_finish(&queues[r], 0, &finished);
    }
    gpuring_queue_complete(&finished);
}

static void make_everywhere(uint32_t calls)
{
    for (int r = 0; r < RANKS; r++) {
        for (uint32_t i = 1; i <= calls; i++) {
            assert_int_equal(gpuring_persistent_make(&queues[r]), i);
        }
        assert_true(gpuring_persistent_exist(&queues[r]));
    }
}

TEST_WITH(queues_setup, queues_teardown, persistent_calls_run_when_all_ranks_have_started_them)
{
    make_everywhere(2);
    start(0, 1), start(0, 2), start(0, 0);
    start(1, 2), start(1, 0);
    start(2, 2), start(2, 1);
    gather(); /* all have 2; rank 1 lacks 1, rank 2 the other call */
    finish_everywhere(2);
    for (int r = 0; r < RANKS; r++) {
        assert_false(gpuring_persistent_ordered(&queues[r]));
    }
    start(1, 1), start(2, 0);
    gather();
    finish_everywhere(1);
    finish_everywhere(0);
    for (int r = 0; r < RANKS; r++) {
        assert_true(gpuring_queue_empty(&queues[r]));
    }
}

TEST_WITH(queues_setup, queues_teardown, nothing_in_common_waits_for_the_next_gathering)
{
    make_everywhere(2);
    start(0, 1), start(1, 2), start(2, 1);
    gather();
    for (int r = 0; r < RANKS; r++) {
        assert_false(gpuring_persistent_ordered(&queues[r]));
        assert_null(gpuring_queue_next(&queues[r]));
    }
    start(0, 2), start(1, 1), start(2, 2);
    gather();
    finish_everywhere(1);
    finish_everywhere(2);
}

/* Rank 1 has host buffers in a call of which the others await the votes: it has no such item. */
TEST_WITH(queues_setup, queues_teardown, what_a_vote_may_delegate_is_not_reported)
{
    struct gpuring_list finished;

    gpuring_list_init(&finished);
    make_everywhere(1);
    for (int r = 0; r < RANKS; r++) {
        if (r != 1) {
            start(r, 0)->pending.asks = GPURING_ASKS_PAGES;
        }
        start(r, 1);
    }
    gather();
    finish_everywhere(1);
    for (int r = 0; r < RANKS; r++) {
        if (r != 1) {
            assert_false(gpuring_persistent_ordered(&queues[r]));
            gpuring_queue_finish(&queues[r], 0, &finished); /* is delegated */
        }
    }
}

/* If there are more calls than a block has room for, the next gathering has the others. */
TEST_WITH(queues_setup, queues_teardown, many_calls_need_a_second_gathering)
{
    const uint32_t calls = queues[0].room + 2;

    make_everywhere(calls);
    for (uint32_t i = 1; i <= calls; i++) {
        for (int r = 0; r < RANKS; r++) {
            start(r, r == 1 ? calls + 1 - i : i);
        }
    }
    gather();
    for (int r = 0; r < RANKS; r++) {
        assert_false(gpuring_persistent_ordered(&queues[r]));
        assert_int_equal(queues[r].room, calls);
    }
    gather();
    for (uint32_t i = 1; i <= calls; i++) {
        finish_everywhere(i);
    }
}

TEST_WITH(queues_setup, queues_teardown, gatherings_end_when_all_are_freed)
{
    make_everywhere(1);
    for (int r = 0; r < RANKS; r++) {
        start(r, 0);
        gpuring_persistent_free(&queues[r]);
        assert_false(gpuring_persistent_ordered(&queues[r]));
    }
    gather();
    finish_everywhere(0);
    for (int r = 0; r < RANKS; r++) {
        assert_false(gpuring_persistent_exist(&queues[r]));
        start(r, 0);
    }
    finish_everywhere(0); /* without a gathering */
}

TEST_WITH(queues_setup, queues_teardown, a_failure_puts_all_in_line)
{
    struct gpuring_list finished;

    gpuring_list_init(&finished);
    make_everywhere(2);
    start(0, 2), start(0, 0), start(0, 1);
    for (int i = 0; i < 3; i++) {
        gpuring_persistent_order_all(&queues[0]);
        assert_true(gpuring_persistent_ordered(&queues[0]));
        gpuring_queue_finish(&queues[0], -1, &finished);
    }
    assert_true(gpuring_queue_empty(&queues[0]));
}
