/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Tasks that opal_progress advances (progress/task.h), and how waiting callers treat their core
 * (util/backoff.h). The test is opal_progress. */
#include "test/unit/unit.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "mca/coll_gpuring/progress/task.h"
#include "mca/coll_gpuring/util/backoff.h"

/* Replace two functions of libc, to count the calls. */
static unsigned yields, naps;

int sched_yield(void)
{
    __atomic_fetch_add(&yields, 1, __ATOMIC_RELAXED);
    return (int) syscall(SYS_sched_yield);
}

int nanosleep(const struct timespec *time, struct timespec *rest)
{
    __atomic_fetch_add(&naps, 1, __ATOMIC_RELAXED);
    return (int) syscall(SYS_nanosleep, time, rest);
}

static int (*callback)(void);
static int enrolled, enroll_fails;

static int enroll(int (*function)(void))
{
    if (enroll_fails > 0) {
        enroll_fails--;
        return -1;
    }
    callback = function;
    enrolled++;
    return 0;
}

static int withdraw(int (*function)(void))
{
    assert_true(function == callback);
    callback = NULL;
    enrolled--;
    return 0;
}

static int open_tasks(void **state)
{
    enroll_fails = 0;
    gpuring_tasks_open(enroll, withdraw);
    return 0;
}

static int close_tasks(void **state)
{
    gpuring_tasks_close();
    assert_int_equal(enrolled, 0);
    return 0;
}

/* A task that ends after a number of steps. */
struct counted {
    struct gpuring_task task;
    int steps; /* that remain */
    int advanced, completed;
    int restarts;             /* that `complete` still makes */
    bool nested;              /* its functions call the callback */
    struct counted *other;    /* started by `advance` */
    int place;                /* of the last step, among the steps of all tasks */
    struct gpuring_list item; /* of a queue */
};

static int places;

static bool advance_counted(struct gpuring_task *task, struct gpuring_list *items)
{
    struct counted *self = GPURING_LIST_ENTRY(task, struct counted, task);

    self->advanced++;
    self->place = places++;
    if (self->nested) {
        assert_int_equal(callback(), 0);
    }
    if (self->other != NULL) {
        assert_true(gpuring_task_start(&self->other->task));
        self->other = NULL;
    }
    if (--self->steps > 0) {
        return false;
    }
    if (task->kind == GPURING_TASK_QUEUE) {
        gpuring_list_append(items, &self->item);
    }
    return true;
}

static void complete_counted(struct gpuring_task *task, struct gpuring_list *items)
{
    struct counted *self = GPURING_LIST_ENTRY(task, struct counted, task);

    if (task->kind == GPURING_TASK_QUEUE) {
        assert_ptr_equal(items->next, &self->item);
        gpuring_list_remove(&self->item);
    }
    assert_true(gpuring_list_empty(items));
    self->completed++;
    if (self->restarts > 0) {
        self->restarts--;
        assert_true(gpuring_task_start(task));
    }
    if (self->nested) {
        callback();
    }
}

static struct counted counted_of(enum gpuring_task_kind kind, int steps)
{
    return (struct counted){
        .task = {.kind = kind, .advance = advance_counted, .complete = complete_counted},
        .steps = steps};
}

TEST_WITH(open_tasks, close_tasks, nothing_is_registered_before_the_first_task)
{
    struct counted one = counted_of(GPURING_TASK_REQUEST, 1);

    assert_int_equal(enrolled, 0);
    enroll_fails = 1;
    assert_true(gpuring_task_start(&one.task));
    assert_int_equal(enrolled, 0);
    gpuring_task_stop(&one.task);
    assert_true(gpuring_task_start(&one.task));
    assert_int_equal(enrolled, 1);
    assert_int_equal(callback(), 1);
    assert_int_equal(callback(), 0);
    assert_int_equal(one.advanced, 1);
    assert_int_equal(one.completed, 1);
    assert_true(gpuring_task_start(&one.task));
    assert_int_equal(enrolled, 1);
    assert_int_equal(callback(), 1);
}

TEST_WITH(open_tasks, close_tasks, each_call_advances_all_requests_and_one_queue)
{
    struct counted requests[3], queues[3];

    for (int i = 0; i < 3; i++) {
        requests[i] = counted_of(GPURING_TASK_REQUEST, i == 1 ? 1 : 3);
        queues[i] = counted_of(GPURING_TASK_QUEUE, 2);
        assert_true(gpuring_task_start(&requests[i].task));
        assert_true(gpuring_task_start(&queues[i].task));
        assert_false(gpuring_task_start(&queues[i].task));
    }
    assert_int_equal(callback(), 1); /* requests[1] ends */
    assert_true(requests[0].place < requests[1].place && requests[1].place < requests[2].place);
    assert_int_equal(callback(), 0);
    assert_true(requests[0].place < requests[2].place);
    assert_int_equal(callback(), 2); /* the other requests */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(queues[i].advanced, 1);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(callback(), 1);
        assert_int_equal(queues[i].completed, 1);
    }
    assert_int_equal(callback(), 0);
}

TEST_WITH(open_tasks, close_tasks, a_task_may_start_tasks_and_progress)
{
    for (int kind = 0; kind < GPURING_TASK_KINDS; kind++) {
        struct counted first = counted_of((enum gpuring_task_kind) kind, 2);
        struct counted second = counted_of(GPURING_TASK_REQUEST, 2);

        (void) state;
        first.nested = kind == GPURING_TASK_REQUEST; /* a queue's step may advance requests */
        first.other = &second;
        first.restarts = 1;
        assert_true(gpuring_task_start(&first.task));
        for (int i = 0; i < 9; i++) {
            callback();
        }
        assert_int_equal(first.completed, 2);
        assert_int_equal(first.advanced, 3);
        assert_int_equal(second.completed, 1);
        assert_int_equal(second.advanced, 2);
    }
}

TEST_WITH(open_tasks, close_tasks, a_stopped_task_does_not_complete)
{
    for (int kind = 0; kind < GPURING_TASK_KINDS; kind++) {
        struct counted one = counted_of((enum gpuring_task_kind) kind, 2);

        (void) state;
        gpuring_task_stop(&one.task); /* idle */
        assert_true(gpuring_task_start(&one.task));
        callback();
        gpuring_task_stop(&one.task);
        callback();
        assert_int_equal(one.advanced, 1);
        assert_int_equal(one.completed, 0);
    }
}

/* ---- Threads ---- */

#define THREADS 4
#define ROUNDS  200

static int errors; /* atomic; cmocka's assertions work in the first thread only */

static void expect(bool good)
{
    if (!good) {
        __atomic_add_fetch(&errors, 1, __ATOMIC_RELAXED);
    }
}

/* A task that several threads could advance. */
struct shared {
    struct gpuring_task task;
    int *inside; /* number of threads that advance requests, or this queue; atomic */
    int steps;   /* not atomic: the thread sanitizer notices if two threads advance the task */
    bool endless, stopped;
    int done; /* atomic */
};

static int inside_requests, inside_queue[2];

static bool advance_shared(struct gpuring_task *task, struct gpuring_list *items)
{
    struct shared *self = GPURING_LIST_ENTRY(task, struct shared, task);

    (void) items;
    expect(__atomic_add_fetch(self->inside, 1, __ATOMIC_ACQ_REL) == 1);
    expect(!self->stopped);
    sched_yield();
    __atomic_sub_fetch(self->inside, 1, __ATOMIC_ACQ_REL);
    return ++self->steps % 3 == 0 && !self->endless;
}

static void complete_shared(struct gpuring_task *task, struct gpuring_list *items)
{
    struct shared *self = GPURING_LIST_ENTRY(task, struct shared, task);

    (void) items;
    __atomic_add_fetch(&self->done, 1, __ATOMIC_RELEASE);
}

static struct shared shared_of(enum gpuring_task_kind kind, int *inside)
{
    return (struct shared){
        .task = {.kind = kind, .advance = advance_shared, .complete = complete_shared},
        .inside = inside};
}

/* Start a request that ends, one that has to be stopped, and a queue that other threads start. */
static void *start_and_wait(void *argument)
{
    struct shared *queue = argument;
    struct shared ends = shared_of(GPURING_TASK_REQUEST, &inside_requests), endless = ends;

    endless.endless = true;
    for (int round = 0; round < ROUNDS; round++) {
        endless.stopped = false;
        (void) gpuring_task_start(&queue->task);
        expect(gpuring_task_start(&ends.task));
        expect(gpuring_task_start(&endless.task));
        while (__atomic_load_n(&ends.done, __ATOMIC_ACQUIRE) == round) {
            if (callback() == 0) {
                sched_yield();
            }
        }
        gpuring_task_stop(&endless.task);
        endless.stopped = true;
    }
    return NULL;
}

TEST_WITH(open_tasks, close_tasks, threads_share_requests_and_queues)
{
    struct shared queues[2];
    pthread_t threads[THREADS];
    struct counted first = counted_of(GPURING_TASK_REQUEST, 1);

    assert_true(gpuring_task_start(&first.task)); /* registers the callback */
    for (int i = 0; i < 2; i++) {
        queues[i] = shared_of(GPURING_TASK_QUEUE, &inside_queue[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, start_and_wait, &queues[i % 2]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(errors, 0);
    assert_int_equal(first.completed, 1);
    for (int i = 0; i < 2; i++) {
        gpuring_task_stop(&queues[i].task);
        assert_true(queues[i].done > 0);
    }
}

/* A queue whose step waits for the step of the other queue. */
struct meeting {
    struct gpuring_task task;
    int *arrived; /* atomic */
    bool met;
};

static bool advance_meeting(struct gpuring_task *task, struct gpuring_list *items)
{
    struct meeting *self = GPURING_LIST_ENTRY(task, struct meeting, task);

    (void) items;
    __atomic_add_fetch(self->arrived, 1, __ATOMIC_RELEASE);
    for (int ms = 0; ms < 60000 && !self->met; ms++) {
        self->met = __atomic_load_n(self->arrived, __ATOMIC_ACQUIRE) == 2;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return true;
}

static void complete_meeting(struct gpuring_task *task, struct gpuring_list *items)
{
    (void) task;
    (void) items;
}

static void *progress_until_ended(void *argument)
{
    while (callback() == 0) {
        sched_yield();
    }
    return argument;
}

TEST_WITH(open_tasks, close_tasks, two_threads_advance_two_queues)
{
    int arrived = 0;
    struct meeting queues[2];
    pthread_t thread;

    for (int i = 0; i < 2; i++) {
        queues[i] = (struct meeting){.task = {.kind = GPURING_TASK_QUEUE,
                                              .advance = advance_meeting,
                                              .complete = complete_meeting},
                                     .arrived = &arrived};
        assert_true(gpuring_task_start(&queues[i].task));
    }
    assert_int_equal(pthread_create(&thread, NULL, progress_until_ended, NULL), 0);
    progress_until_ended(NULL);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(queues[0].met && queues[1].met);
}

#define PROGRESS_WITHOUT_NAP 100 /* looks, far less than the time until naps */

/* Check in vain until the first nap. Return the number of checks. */
static unsigned look_until_nap(struct gpuring_backoff *pause, bool crowded)
{
    unsigned looks = 0;

    naps = yields = 0;
    while (naps == 0) {
        gpuring_backoff(pause, 1, crowded);
        looks++;
    }
    return looks;
}

/* Such a yield would give another process of the core a whole time slice. */
TEST(a_caller_with_its_own_core_never_yields)
{
    struct gpuring_backoff pause = {.looks = 0};

    assert_true(look_until_nap(&pause, false) > PROGRESS_WITHOUT_NAP);
    assert_int_equal(yields, 0);
}

TEST(a_caller_that_shares_its_core_yields_until_it_naps)
{
    struct gpuring_backoff pause = {.looks = 0};
    unsigned looks = look_until_nap(&pause, true);

    assert_int_equal(yields, looks - 1);
}

TEST(progress_ends_naps)
{
    struct gpuring_backoff pause = {.looks = 0};

    (void) look_until_nap(&pause, false);
    naps = 0;
    for (uint64_t progress = 2; progress < PROGRESS_WITHOUT_NAP; progress++) {
        gpuring_backoff(&pause, progress, false);
    }
    assert_int_equal(naps, 0);
}
