/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Test decisions about calls, and the queue of a communicator. */
#include "test/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/serve/decide.h"
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
        .left = strchr(flags, 't') != NULL ? GPURING_REASON_TUNED : GPURING_REASON_NONE,
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

static struct gpuring_queue queue;
static struct gpuring_item items[4];
static int completed;

static void count(struct gpuring_item *item)
{
    assert_int_equal(item->phase, GPURING_PHASE_DONE);
    assert_int_equal(item->status, -completed);
    completed++;
}

static int queue_setup(void **state)
{
    memset(items, 0, sizeof items);
    completed = 0;
    gpuring_queue_init(&queue);
    return 0;
}

static int queue_teardown(void **state)
{
    gpuring_queue_fini(&queue);
    return 0;
}

TEST_WITH(queue_setup, queue_teardown, items_end_in_the_order_of_the_calls)
{
    struct gpuring_list finished;

    gpuring_list_init(&finished);
    assert_true(gpuring_queue_empty(&queue));
    assert_null(gpuring_queue_next(&queue));
    for (int i = 0; i < 3; i++) {
        items[i].complete = count;
        gpuring_queue_add(&queue, &items[i], GPURING_PHASE_QUEUED);
        assert_int_equal(items[i].phase, GPURING_PHASE_QUEUED);
    }
    for (int i = 0; i < 3; i++) {
        assert_false(gpuring_queue_empty(&queue));
        assert_ptr_equal(gpuring_queue_next(&queue), &items[i]);
        gpuring_queue_finish(&queue, -i, &finished);
    }
    assert_true(gpuring_queue_empty(&queue));
    assert_int_equal(completed, 0);
    gpuring_queue_complete(&finished);
    assert_int_equal(completed, 3);
    assert_int_equal(queue.finished, 3);
}

/* ---- Calls that a vote may delegate ---- */

static int delegated, refuses;

static int delegate_item(struct gpuring_item *item)
{
    assert_false(gpuring_list_linked(&item->node));
    delegated++;
    return refuses;
}

TEST_WITH(queue_setup, queue_teardown, undecided_calls_are_delegated_in_their_turn)
{
    struct gpuring_list finished;

    delegated = refuses = 0;
    gpuring_list_init(&finished);
    for (int i = 0; i < 4; i++) {
        items[i].complete = count;
        items[i].delegate = delegate_item;
        gpuring_queue_add(&queue, &items[i], GPURING_PHASE_QUEUED);
    }
    gpuring_queue_delegate(&queue, &finished);
    assert_true(gpuring_list_empty(&finished)); /* it completes elsewhere */
    gpuring_queue_decide(&queue, &items[1]);
    assert_true(gpuring_queue_undecided(&queue));
    gpuring_queue_finish(&queue, 0, &finished);
    refuses = -1;
    gpuring_queue_delegate(&queue, &finished);
    gpuring_queue_finish(&queue, -2, &finished); /* refused */
    assert_false(gpuring_queue_undecided(&queue));
    assert_true(gpuring_queue_empty(&queue));
    gpuring_queue_complete(&finished);
    assert_int_equal(completed, 3);
    assert_int_equal(delegated, 2);
}
