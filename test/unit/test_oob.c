/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test the out-of-band layer with simulated messages: results of gatherings for many numbers of
 * ranks and in any order of events, failures that all ranks learn at the same time, and malformed
 * messages.
 */
#include "test/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/oob/oob.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define RANKS 33

/* ---- A world of ranks in one process ---- */

struct ompi_request_t { /* a message that was sent, or a posted receive */
    int from, to, tag;
    uint8_t *data; /* sent: a copy */
    size_t bytes;
    int delay; /* sent: looks until it is out */
    bool sent, taken, arrived;
    struct ompi_request_t *next;
};

struct ompi_communicator_t { /* a rank's view of it */
    int rank;
};

static struct ompi_communicator_t comms[RANKS];
static struct gpuring_oob oobs[RANKS];
static struct ompi_request_t *messages; /* in the order in which they were sent */
static unsigned random_state;
static int corrupt; /* counts down to the message that is changed; 0: none is */
static enum { ANOTHER_MESSAGE, ANOTHER_NUMBER, ANOTHER_SIZE, ANOTHER_VERSION } corruption;

static unsigned draw(unsigned limit)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 16) % limit;
}

static struct ompi_request_t *request_new(int from, int to, int tag, size_t bytes)
{
    struct ompi_request_t *request = calloc(1, sizeof *request);

    assert_non_null(request);
    *request = (struct ompi_request_t){.from = from, .to = to, .tag = tag, .bytes = bytes};
    return request;
}

static void damage(struct ompi_request_t *message)
{
    struct gpuring_oob_header *header = (struct gpuring_oob_header *) message->data;

    switch (corruption) {
    case ANOTHER_MESSAGE:
        message->bytes = 3;
        break;
    case ANOTHER_NUMBER:
        header->number++;
        break;
    case ANOTHER_SIZE:
        header->bytes -= 8;
        break;
    case ANOTHER_VERSION:
        header->version++;
        break;
    }
}

static int mock_start(struct ompi_communicator_t *comm, int tag, struct gpuring_message *wish)
{
    struct ompi_request_t *message, **last = &messages;

    wish->request = message = wish->sent ? request_new(comm->rank, wish->peer, tag, wish->bytes)
                                         : request_new(wish->peer, comm->rank, tag, wish->bytes);
    if (!wish->sent) {
        message->data = wish->data;
        return GPURING_OK;
    }
    message->data = malloc(wish->bytes + 1);
    assert_non_null(message->data);
    memcpy(message->data, wish->data, wish->bytes);
    message->delay = (int) draw(4);
    message->sent = true;
    if (corrupt > 0 && --corrupt == 0) {
        damage(message);
    }
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = message;
    return GPURING_OK;
}

static void unlink_message(struct ompi_request_t *message)
{
    struct ompi_request_t **link = &messages;

    while (*link != message) {
        link = &(*link)->next;
    }
    *link = message->next;
    free(message->data);
    free(message);
}

/* Return the first message of this pair and tag. A message exists until it was received and its
 * send is complete. */
static bool match(struct ompi_request_t *wish, size_t *bytes)
{
    for (struct ompi_request_t *m = messages; m != NULL; m = m->next) {
        if (m->taken || m->from != wish->from || m->to != wish->to || m->tag != wish->tag) {
            continue;
        }
        if (draw(3) == 0) {
            return false; /* not yet */
        }
        memcpy(wish->data, m->data, m->bytes < wish->bytes ? m->bytes : wish->bytes);
        *bytes = m->bytes > wish->bytes ? SIZE_MAX : m->bytes;
        m->taken = true;
        if (m->arrived) {
            unlink_message(m);
        }
        return true;
    }
    return false;
}

static int mock_finish(struct gpuring_message *message)
{
    struct ompi_request_t *r = message->request;

    if (r->sent) {
        if (r->delay-- > 0) {
            return GPURING_AGAIN;
        }
        r->arrived = true;
        if (r->taken) {
            unlink_message(r);
        }
    } else {
        if (!match(r, &message->bytes)) {
            return GPURING_AGAIN;
        }
        free(r);
    }
    message->request = NULL;
    return GPURING_OK;
}

static bool mock_cancel(struct gpuring_message *message)
{
    if (message->request != NULL && !message->request->sent) {
        free(message->request);
    }
    message->request = NULL;
    return true;
}

static int mock_lowest_tag(void)
{
    return -1000;
}

static const struct gpuring_message_ops mock = {.start = mock_start,
                                                .finish = mock_finish,
                                                .cancel = mock_cancel,
                                                .lowest_tag = mock_lowest_tag};

static void world_begin(int n, unsigned seed)
{
    random_state = seed;
    corrupt = 0;
    memset(oobs, 0, sizeof oobs);
    for (int r = 0; r < n; r++) {
        comms[r].rank = r;
        oobs[r].ops = &mock;
        oobs[r].comm = &comms[r];
        oobs[r].rank = r;
        oobs[r].nranks = n;
    }
}

static void world_end(int n)
{
    for (int r = 0; r < n; r++) {
        for (int i = 0; i < GPURING_OOB_MESSAGES; i++) {
            mock_cancel(&oobs[r].message[i]);
        }
        free(oobs[r].blocks);
    }
    while (messages != NULL) {
        unlink_message(messages);
    }
}

/* Advance the ranks in any order until all are complete. Return false if a rank lost contact. */
static bool run(int n)
{
    for (long turn = 0, idle = 0; idle < n; turn++) {
        int rank = (int) draw((unsigned) n), status;

        status = gpuring_oob_progress(&oobs[rank]);
        if (status < 0) {
            return false;
        }
        for (idle = 0; idle < n && !gpuring_oob_busy(&oobs[idle]); idle++) {
        }
        assert_true(turn < 1000000);
    }
    return true;
}

#define BLOCK 40

/* Start a gathering, to which each rank contributes different bytes. */
static void start(int rank)
{
    void *block = gpuring_oob_gather(&oobs[rank], BLOCK);

    if (block != NULL) {
        memset(block, rank + 1, BLOCK);
    }
}

static void expect_blocks(int n, int rank)
{
    struct gpuring_gathered gathered = gpuring_oob_take(&oobs[rank]);

    assert_int_equal(gathered.nranks, n);
    for (int r = 0; r < n; r++) {
        const uint8_t *block = gpuring_gathered_block(&gathered, r);

        for (int i = 0; i < BLOCK; i++) {
            assert_int_equal(block[i], r + 1);
        }
    }
    gpuring_gathered_clear(&gathered);
}

TEST(gatherings_bring_all_blocks)
{
    for (int n = 1; n <= RANKS; n++) {
        world_begin(n, (unsigned) n);
        for (int again = 0; again < 3; again++) {
            for (int r = 0; r < n; r++) {
                start(r);
            }
            assert_true(run(n));
            for (int r = 0; r < n; r++) {
                assert_int_equal(gpuring_oob_awaits(&oobs[r]), -1);
                expect_blocks(n, r);
            }
        }
        world_end(n);
    }
}

TEST(agreements_bring_all_bits)
{
    for (int n = 1; n <= RANKS; n++) {
        world_begin(n, (unsigned) n);
        for (int r = 0; r < n; r++) {
            gpuring_oob_agree(&oobs[r], UINT64_C(1) << r);
        }
        assert_true(run(n));
        for (int r = 0; r < n; r++) {
            assert_true(oobs[r].word == (UINT64_C(1) << n) - 1);
        }
        world_end(n);
    }
}

/* If a rank fails before a gathering, all ranks know this at its end. Of two failures, they learn
 * that of the lower rank, and what the marks of both have in common. */
TEST(failures_reach_all)
{
    for (int n = 2; n <= RANKS; n++) {
        for (int bad = 0; bad < n; bad++) {
            world_begin(n, (unsigned) (n * RANKS + bad));
            oobs[n - 1].mark = 12;
            oobs[bad].mark = 7;
            gpuring_oob_fail(&oobs[bad], GPURING_ERR_IO);
            gpuring_oob_fail(&oobs[bad], GPURING_ERR_DATA); /* the first one counts */
            gpuring_oob_fail(&oobs[n - 1], GPURING_ERR_NOMEM);
            for (int r = 0; r < n; r++) {
                assert_int_equal(gpuring_oob_failure(&oobs[r]).status, 0);
                start(r);
            }
            assert_true(run(n));
            for (int r = 0; r < n; r++) {
                struct gpuring_gathered gathered = gpuring_oob_take(&oobs[r]);
                struct gpuring_failure failure = gpuring_oob_failure(&oobs[r]);

                assert_int_equal(gathered.nranks, 0);
                assert_int_equal(failure.status, GPURING_ERR_IO);
                assert_int_equal(failure.rank, bad);
                assert_int_equal(failure.mark, bad == n - 1 ? 7 : 7 & 12);
                start(r);
            }
            assert_true(run(n)); /* as if nothing had been */
            for (int r = 0; r < n; r++) {
                expect_blocks(n, r);
            }
            world_end(n);
        }
    }
}

/* If a rank fails during a gathering, some ranks learn this earlier, but all act on it after the
 * next gathering. */
TEST(late_failures_count_from_the_next)
{
    int heard = 0, unheard = 0;

    for (int n = 2; n <= RANKS; n++) {
        for (unsigned seed = 0; seed < 20; seed++) {
            int bad = (int) (seed % (unsigned) n);

            world_begin(n, seed);
            for (int r = 0; r < n; r++) {
                start(r);
            }
            for (unsigned turn = 0; turn < seed * 4; turn++) {
                assert_true(gpuring_oob_progress(&oobs[draw((unsigned) n)]) >= 0);
            }
            assert_true(gpuring_oob_progress(&oobs[bad]) >= 0); /* its first message is out */
            gpuring_oob_fail(&oobs[bad], GPURING_ERR_NOMEM);
            assert_true(run(n));
            for (int r = 0; r < n; r++) {
                assert_int_equal(gpuring_oob_failure(&oobs[r]).status, 0);
                heard += r != bad && gpuring_oob_troubled(&oobs[r]);
                unheard += !gpuring_oob_troubled(&oobs[r]);
                gpuring_oob_agree(&oobs[r], 0);
            }
            assert_true(run(n));
            for (int r = 0; r < n; r++) {
                assert_int_equal(gpuring_oob_failure(&oobs[r]).status, GPURING_ERR_NOMEM);
            }
            world_end(n);
        }
    }
    assert_true(heard > 0 && unheard > 0);
}

/* Whichever header is malformed, a rank refuses it. */
TEST(malformed_messages_are_refused)
{
    gpuring_log_set(NULL, (enum gpuring_log_level) - 1); /* the refusals are expected */
    for (int kind = ANOTHER_MESSAGE; kind <= ANOTHER_SIZE; kind++) {
        for (int at = 1; at <= 12; at += 2) { /* headers are the odd ones */
            world_begin(5, (unsigned) at);
            for (int r = 0; r < 5; r++) {
                start(r);
            }
            corrupt = at;
            corruption = (__typeof__(corruption)) kind;
            assert_false(run(5));
            world_end(5);
        }
    }
}

/* If a rank has another version, all ranks know this after the next gathering, and no rank uses its
 * blocks. */
TEST(other_versions_are_a_disagreement)
{
    gpuring_log_set(NULL, (enum gpuring_log_level) - 1);
    for (int at = 1; at <= 12; at += 2) {
        world_begin(5, (unsigned) at);
        for (int r = 0; r < 5; r++) {
            start(r);
        }
        corrupt = at;
        corruption = ANOTHER_VERSION;
        assert_true(run(5));
        for (int r = 0; r < 5; r++) {
            gpuring_oob_agree(&oobs[r], 0);
        }
        assert_true(run(5));
        for (int r = 0; r < 5; r++) {
            assert_int_equal(gpuring_oob_failure(&oobs[r]).status, GPURING_ERR_DISAGREE);
        }
        world_end(5);
    }
}

/* If one rank makes an agreement while others make a gathering, no rank considers it complete, even
 * without a failure. */
TEST(kinds_do_not_mix)
{
    gpuring_log_set(NULL, (enum gpuring_log_level) - 1);
    world_begin(2, 1);
    start(1);
    gpuring_oob_agree(&oobs[0], 1);
    assert_false(run(2));
    world_end(2);
}

/* ---- Connect infos ---- */

TEST(connect_infos_reach_their_ranks)
{
    int left = 3;

    world_begin(3, 5);
    for (int r = 0; r < 3; r++) {
        for (int other = 0; other < 3; other++) {
            char text[32];

            if (other != r) {
                snprintf(text, sizeof text, "%d writes to %d", r, other);
                assert_int_equal(gpuring_connect_infos_add(&oobs[r], other, NULL, 32), 0);
                assert_int_equal(gpuring_connect_infos_add(&oobs[r], other, text, strlen(text) + 1),
                                 0);
            }
        }
    }
    for (int turn = 0; left > 0; turn++) {
        left = 0;
        for (int r = 0; r < 3; r++) {
            int status = gpuring_connect_infos_progress(&oobs[r]);

            assert_true(status >= 0);
            assert_int_equal(status == GPURING_AGAIN, gpuring_oob_awaits(&oobs[r]) >= 0);
            left += status == GPURING_AGAIN;
        }
        assert_true(turn < 1000);
    }
    for (int r = 0; r < 3; r++) {
        for (int i = 0; i < 4; i += 2) {
            char text[32];

            snprintf(text, sizeof text, "%d writes to %d", oobs[r].connect_info[i].peer, r);
            assert_string_equal((char *) oobs[r].connect_info[i].data, text);
            assert_int_equal(oobs[r].connect_info[i].bytes, strlen(text) + 1);
        }
        gpuring_connect_infos_free(&oobs[r]);
    }
    world_end(3);
}

TEST(long_connect_infos_are_refused)
{
    gpuring_log_set(NULL, (enum gpuring_log_level) - 1);
    world_begin(2, 5);
    assert_int_equal(gpuring_connect_infos_add(&oobs[0], 1, "sixteen letters", 16), 0);
    assert_int_equal(gpuring_connect_infos_add(&oobs[1], 0, NULL, 8), 0);
    while (gpuring_connect_infos_progress(&oobs[0]) == GPURING_AGAIN) {
    }
    while (gpuring_connect_infos_progress(&oobs[1]) == GPURING_AGAIN) {
    }
    assert_int_equal(gpuring_connect_infos_progress(&oobs[1]), GPURING_ERR_PEER);
    gpuring_connect_infos_free(&oobs[0]);
    gpuring_connect_infos_free(&oobs[1]);
    world_end(2);
}
