/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Test tuning files: their meaning, reports of errors, and the precedence of rules. */
#include "test/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mca/coll_gpuring/engine/tuning.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/util/status.h"
#include "test/unit/selection.h"

#define HEAD GPURING_TUNING_VERSION_LINE "\n"

static struct gpuring_tuning parse(const char *text)
{
    struct gpuring_tuning tuning;
    char error[320] = "";
    int status = gpuring_tuning_parse(text, strlen(text), &tuning, error, sizeof error);

    if (status != GPURING_OK) {
        fail_msg("%s", error);
    }
    return tuning;
}

/* The ranges for a shape as text. */
static const char *ranges(const char *text, enum gpuring_tuning_memory memory, uint64_t nodes,
                          uint64_t ranks)
{
    struct gpuring_tuning tuning = parse(text);
    struct gpuring_tuning tuned;
    static char result[1024];

    assert_int_equal(gpuring_tuning_match(&tuning, memory, nodes, ranks, &tuned), GPURING_OK);
    strcpy(result, "none");
    if (tuned.count > 0) {
        gpuring_tuning_summary(&tuned, result, sizeof result);
    }
    gpuring_tuning_clear(&tuned);
    gpuring_tuning_clear(&tuning);
    return result;
}

TEST(the_first_rule_that_matches_counts)
{
    static const char text[] =
        "# measured on a Tuesday\n\n" HEAD
        "allreduce memory=host nodes=2 ranks=2 bytes=0-4095 previous\n"
        "bcast memory=host nodes=2 ranks=2 bytes=0- direct\n"
        "  allreduce\tmemory=host nodes=2 ranks=2 bytes=8192- ring simple # blanks\r\n"
        "allreduce memory=host nodes=2 ranks=2 bytes=4000-9000 tree\n"
        "allreduce memory=cuda nodes=* ranks=4-8 bytes=64 auto ll\n"
        "allreduce memory=* nodes=3- ranks=* bytes=* two-shot ll128";

    assert_string_equal(ranges(text, GPURING_TUNING_HOST, 2, 2),
                        "allreduce 0-4095 previous, bcast * direct, allreduce 8192- ring simple, "
                        "allreduce 4000-9000 tree");
    assert_string_equal(ranges(text, GPURING_TUNING_CUDA, 2, 2), "none");
    assert_string_equal(ranges(text, GPURING_TUNING_HOST, 2, 3), "none");
    assert_string_equal(ranges(text, GPURING_TUNING_HOST, 1, 2), "none");
    assert_string_equal(ranges(text, GPURING_TUNING_CUDA, 1, 8), "allreduce 64 auto ll");
    assert_string_equal(ranges(text, GPURING_TUNING_CUDA, 1, 9), "none");
    assert_string_equal(ranges(text, GPURING_TUNING_HOST, 1000000, 1000000),
                        "allreduce * two-shot ll128");
    assert_string_equal(ranges(text, GPURING_TUNING_CUDA, 3, 4),
                        "allreduce 64 auto ll, allreduce * two-shot ll128");
    assert_string_equal(ranges(HEAD, GPURING_TUNING_HOST, 1, 2), "none");
}

/* Compare every size with a search through the rules, with rules that overlap at random. */
TEST(the_first_rule_counts_at_every_size)
{
    struct gpuring_tuning_rule rules[40];
    struct gpuring_tuning tuning = {.rules = rules};

    srand(7);
    for (int round = 0; round < 200; round++) {
        struct gpuring_tuning tuned;

        tuning.count = (uint32_t) (rand() % 40 + 1);
        for (uint32_t i = 0; i < tuning.count; i++) {
            uint64_t first = (uint64_t) (rand() % 100);

            rules[i] = (struct gpuring_tuning_rule){
                .collective = rand() % 2,
                .memories = (uint32_t) (rand() % 3 + 1),
                .nodes = {0, UINT64_MAX},
                .ranks = {(uint64_t) (rand() % 3), UINT64_MAX},
                .bytes = {first, rand() % 5 == 0 ? UINT64_MAX : first + (uint64_t) (rand() % 30)},
                .algorithm = rand() % (GPURING_PARAM_ALGORITHM_PREVIOUS + 1),
            };
        }
        assert_int_equal(gpuring_tuning_match(&tuning, GPURING_TUNING_HOST, 1, 1, &tuned), 0);
        for (uint64_t bytes = 0; bytes < 140; bytes++) {
            int collective = (int) (bytes % 2);
            int expected = GPURING_PARAM_ALGORITHM_AUTO;

            for (uint32_t i = tuning.count; i-- > 0;) {
                if (rules[i].collective == collective && (rules[i].memories & 1) != 0 &&
                    rules[i].ranks.first <= 1 && rules[i].bytes.first <= bytes &&
                    bytes <= rules[i].bytes.last) {
                    expected = rules[i].algorithm;
                }
            }
            assert_int_equal(gpuring_tuning_at(&tuned, collective, bytes)->algorithm, expected);
        }
        gpuring_tuning_clear(&tuned);
    }
}

TEST(rules_are_written_as_they_are_read)
{
    static const char *const lines[] = {
        "allreduce memory=host nodes=2 ranks=2 bytes=0-4095 previous",
        "allreduce memory=cuda nodes=1-4 ranks=8- bytes=65536- ring simple",
        "allreduce memory=* nodes=* ranks=* bytes=17 auto ll128",
        "allreduce memory=host nodes=1 ranks=64 bytes=* direct",
        "reduce_scatter memory=host nodes=1 ranks=64 bytes=* ring",
    };

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct gpuring_tuning_rule rule;
        char error[256], text[256];

        assert_int_equal(gpuring_tuning_line(lines[i], strlen(lines[i]), &rule, error, 256), 1);
        assert_true(gpuring_tuning_text(&rule, text, sizeof text) < 256);
        assert_string_equal(text, lines[i]);
    }
}

static uint64_t fingerprint(const char *text)
{
    struct gpuring_tuning tuning = parse(text);
    uint64_t found = gpuring_tuning_fingerprint(&tuning);

    gpuring_tuning_clear(&tuning);
    return found;
}

TEST(fingerprints_are_those_of_the_rules)
{
    static const char rule[] = "allreduce memory=host nodes=2 ranks=2 bytes=0-4095 previous";
    static const char *const others[] = {
        "reduce memory=host nodes=2 ranks=2 bytes=0-4095 previous",
        "allreduce memory=cuda nodes=2 ranks=2 bytes=0-4095 previous",
        "allreduce memory=host nodes=1 ranks=2 bytes=0-4095 previous",
        "allreduce memory=host nodes=2 ranks=2- bytes=0-4095 previous",
        "allreduce memory=host nodes=2 ranks=2 bytes=1-4095 previous",
        "allreduce memory=host nodes=2 ranks=2 bytes=0-4096 previous",
        "allreduce memory=host nodes=2 ranks=2 bytes=0-4095 ring",
        "allreduce memory=host nodes=2 ranks=2 bytes=0-4095 ring ll",
        "",
    };
    char text[256], same[256];
    uint64_t mine;

    snprintf(text, sizeof text, HEAD "%s\n", rule);
    snprintf(same, sizeof same, "# other words\n" HEAD "\n   %s   # and more\n\n", rule);
    mine = fingerprint(text);
    assert_true(mine == fingerprint(same));
    assert_true(mine > GPURING_TUNING_BROKEN && fingerprint(HEAD) > GPURING_TUNING_BROKEN);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(text, sizeof text, HEAD "%s\n", others[i]);
        assert_true(mine != fingerprint(text));
    }
}

/* Each message names the line and the word, and lists the valid words. */
TEST(what_is_wrong_is_told)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "line 1: [bad-version]"},
        {"# nothing\n\n", "[bad-version]"},
        {"allreduce memory=host nodes=1 ranks=2 bytes=* ring\n",
         "line 1: [bad-version] 'allreduce'"},
        {"gpuring-tuning 2\n", "line 1: [bad-version] '2'"},
        {"gpuring-tuning\n", "line 1: [bad-version] 'gpuring-tuning'"},
        {HEAD "barrier memory=host nodes=1 ranks=2 bytes=* ring",
         "line 2: [bad-collective] 'barrier' is unknown; known are allreduce, bcast, reduce, scan, "
         "exscan, allgather, reduce_scatter, alltoall, gather, scatter"},
        {HEAD "allgatherv memory=host nodes=1 ranks=2 bytes=* ring", "[bad-collective]"},
        {HEAD "memory=host nodes=1 ranks=2 bytes=* ring", "[bad-collective] 'memory=host'"},
        {HEAD "\nallreduce memory=gpu nodes=1 ranks=2 bytes=* ring", "line 3: [bad-memory] 'gpu'"},
        {HEAD "allreduce memory=host nodes=one ranks=2 bytes=* ring",
         "line 2: [bad-range] 'nodes=one'"},
        {HEAD "allreduce memory=host nodes=1 ranks=4-2 bytes=* ring", "[bad-range] 'ranks=4-2'"},
        {HEAD "allreduce memory=host nodes=1 ranks=2 bytes=4K- ring", "[bad-range] 'bytes=4K-'"},
        {HEAD "allreduce memory=host nodes=1 ranks=2 bytes=-4 ring", "[bad-range] 'bytes=-4'"},
        {HEAD "allreduce memory=host nodes=1 ranks=2 bytes=1-2-3 ring",
         "[bad-range] 'bytes=1-2-3'"},
        {HEAD "allreduce memory=host nodes=1 ranks=2 bytes= ring", "[bad-range] 'bytes='"},
        {HEAD "allreduce memory=host nodes=1 ranks=2 bytes=99999999999999999999 ring",
         "[bad-range]"},
        {HEAD "allreduce memory=host nodes=1 nodes=2 bytes=* ring",
         "[bad-condition] 'nodes=2' is not ranks="},
        {HEAD "allreduce memory=host nodes=1 cores=2 bytes=* ring",
         "[bad-condition] 'cores=2' is not ranks="},
        {HEAD "allreduce memory=host nodes=1 ranks=2 ring", "[bad-condition] 'ring' is not bytes="},
        {HEAD "allreduce ring", "[bad-condition] 'ring' is not memory="},
        {HEAD "allreduce memory=host nodes=1 ranks=2 bytes=*", "[no-algorithm]"},
        {HEAD "allreduce memory=host nodes=1 ranks=2 bytes=* star", "[bad-algorithm] 'star'"},
        {HEAD "allreduce memory=host nodes=1 ranks=2 bytes=* ring fast", "[bad-protocol] 'fast'"},
        {HEAD "allreduce memory=host nodes=1 ranks=2 bytes=* previous ll", "[extra-word] 'll'"},
        {HEAD "allreduce memory=host nodes=1 ranks=2 bytes=* ring ll ll", "[extra-word] 'll'"},
        {HEAD "allreduce memory=host nodes=1 ranks=2 bytes=* ring\x01", "[not-text] byte 0x01"},
        {HEAD "allreduce memory=host nodes=1 ranks=2 bytes=* r\xc3\xacng", "[not-text] byte 0xc3"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gpuring_tuning tuning;
        char error[320] = "";

        assert_int_equal(gpuring_tuning_parse(cases[i].text, strlen(cases[i].text), &tuning, error,
                                              sizeof error),
                         GPURING_ERR_ARG);
        if (strstr(error, cases[i].message) == NULL || strncmp(error, "line ", 5) != 0) {
            fail_msg("'%s' should be reported as \"%s\", not \"%s\"", cases[i].message,
                     cases[i].text, error);
        }
        assert_null(tuning.rules);
    }
}

TEST(files_have_limits)
{
    static const char rule[] = "allreduce memory=host nodes=1 ranks=2 bytes=7 ring\n";
    size_t room = sizeof HEAD + (GPURING_TUNING_MAX_RULES + 1) * (sizeof rule - 1);
    char *text = malloc(room), *at = text, error[320];
    struct gpuring_tuning tuning;

    assert_non_null(text);
    at += sprintf(at, "%s", HEAD);
    for (int i = 0; i < GPURING_TUNING_MAX_RULES; i++) {
        at += sprintf(at, "%s", rule);
    }
    tuning = parse(text);
    assert_int_equal(tuning.count, GPURING_TUNING_MAX_RULES);
    gpuring_tuning_clear(&tuning);
    sprintf(at, "%s", rule);
    assert_int_equal(gpuring_tuning_parse(text, strlen(text), &tuning, error, sizeof error),
                     GPURING_ERR_ARG);
    assert_non_null(strstr(error, "line 1026: [too-many-rules]"));
    memset(text, 'x', 2000);
    text[2000] = '\0';
    assert_int_equal(gpuring_tuning_parse(text, 2000, &tuning, error, sizeof error),
                     GPURING_ERR_ARG);
    assert_non_null(strstr(error, "[line-length]"));
    free(text);
}

/* Any bytes result in rules that can be used, or in a message. The sanitizers detect other
 * errors. */
static void try_bytes(const char *bytes, size_t length)
{
    char *copy = malloc(length + (length == 0)), error[320] = "";
    struct gpuring_tuning tuning;
    struct gpuring_tuning tuned;

    assert_non_null(copy);
    memcpy(copy, bytes, length); /* exact room: reading beyond is noticed */
    if (gpuring_tuning_parse(copy, length, &tuning, error, sizeof error) == GPURING_OK) {
        assert_int_equal(gpuring_tuning_match(&tuning, GPURING_TUNING_HOST, 2, 2, &tuned), 0);
        gpuring_tuning_clear(&tuned);
        gpuring_tuning_clear(&tuning);
    } else {
        assert_true(error[0] != '\0');
    }
    free(copy);
}

TEST(any_bytes_are_read_or_refused)
{
    static const char good[] = HEAD "allreduce memory=host nodes=2 ranks=2- bytes=0-4095 previous\n"
                                    "allreduce memory=* nodes=2 ranks=* bytes=4096- ring ll # x\n";
    static const char alphabet[] = " \t\n#=-*0129allreducememoryhostnodesranksbytesprevious\0\xff";
    char bytes[sizeof good];

    srand(11);
    for (size_t length = 0; length < sizeof good; length++) {
        try_bytes(good, length);
    }
    for (int i = 0; i < 20000; i++) {
        memcpy(bytes, good, sizeof good);
        for (int n = rand() % 4; n >= 0; n--) {
            bytes[(size_t) rand() % (sizeof good - 1)] =
                alphabet[(size_t) rand() % (sizeof alphabet - 1)];
        }
        try_bytes(bytes, sizeof good - 1);
    }
    for (int i = 0; i < 5000; i++) {
        for (size_t n = 0; n < sizeof bytes; n++) {
            bytes[n] = (char) (i % 2 ? alphabet[(size_t) rand() % (sizeof alphabet - 1)] : rand());
        }
        try_bytes(bytes, (size_t) rand() % sizeof bytes);
    }
}

TEST(files_are_named_in_messages)
{
    char path[] = "/tmp/gpuring-tuning.XXXXXX", error[512], expected[128];
    struct gpuring_tuning tuning;
    int descriptor = mkstemp(path);

    assert_true(descriptor >= 0);
    assert_int_equal(write(descriptor, HEAD "some\n", sizeof HEAD + 4), sizeof HEAD + 4);
    assert_int_equal(gpuring_tuning_read(path, &tuning, error, sizeof error), GPURING_ERR_ARG);
    snprintf(expected, sizeof expected, "%s, line 2: [bad-collective] 'some'", path);
    assert_non_null(strstr(error, expected));
    assert_int_equal(lseek(descriptor, 0, SEEK_SET), 0);
    assert_int_equal(write(descriptor, HEAD "#    \n", sizeof HEAD + 5), sizeof HEAD + 5);
    assert_int_equal(gpuring_tuning_read(path, &tuning, error, sizeof error), GPURING_OK);
    gpuring_tuning_clear(&tuning);
    assert_int_equal(ftruncate(descriptor, GPURING_TUNING_MAX_FILE + 1), 0);
    assert_int_equal(gpuring_tuning_read(path, &tuning, error, sizeof error), GPURING_ERR_IO);
    assert_non_null(strstr(error, "[too-long]"));
    close(descriptor);
    unlink(path);
    assert_int_equal(gpuring_tuning_read(path, &tuning, error, sizeof error), GPURING_ERR_IO);
    assert_non_null(strstr(error, "No such file"));
    assert_int_equal(gpuring_tuning_read("/tmp", &tuning, error, sizeof error), GPURING_ERR_IO);
    assert_non_null(strstr(error, "/tmp: [not-a-file]"));
    assert_int_equal(mkfifo(path, 0600), 0); /* it has no writer: the open must not wait */
    assert_int_equal(gpuring_tuning_read(path, &tuning, error, sizeof error), GPURING_ERR_IO);
    assert_non_null(strstr(error, "[not-a-file]"));
    unlink(path);
}

/* ---- Precedence ---- */

static struct gpuring_select_config config_of(const struct gpuring_tuning *tuning)
{
    struct gpuring_select_config config = {
        .algorithm = -1,
        .protocol = -1,
        .nranks = 4,
        .nnodes = 1,
        .host = true,
        .plans = {[GPURING_COLLECTIVE_ALLREDUCE] = 1u << GPURING_ALGORITHM_RING |
                                                   1u << GPURING_ALGORITHM_TREE |
                                                   1u << GPURING_ALGORITHM_DIRECT,
                  [GPURING_COLLECTIVE_BCAST] = 1u << GPURING_ALGORITHM_RING,
                  [GPURING_COLLECTIVE_ALLGATHER] =
                      1u << GPURING_ALGORITHM_RING | 1u << GPURING_ALGORITHM_DIRECT},
        .slot_bytes = {[0 ... GPURING_ALGORITHM_COUNT - 1] = {131072, 16384, 16384}},
        .tuning = tuning,
        .model = {.known = true},
    };

    for (int i = 0; i < GPURING_MODEL_CHOICE_SIZES; i++) {
        config.model.entry[GPURING_COLLECTIVE_ALLREDUCE][i].algorithm = GPURING_ALGORITHM_TREE;
        config.model.entry[GPURING_COLLECTIVE_ALLGATHER][i].algorithm = GPURING_ALGORITHM_DIRECT;
    }
    return config;
}

static void expect(const struct gpuring_select_config *config, uint64_t bytes, bool left,
                   enum gpuring_algorithm algorithm, enum gpuring_protocol protocol)
{
    struct gpuring_selection choice;

    gpuring_select(config, GPURING_COLLECTIVE_ALLREDUCE, bytes, 1, &choice);
    assert_int_equal(choice.delegated != GPURING_REASON_NONE, left);
    assert_int_equal(choice.algorithm, algorithm);
    assert_int_equal(choice.protocol, protocol);
}

TEST(what_was_asked_for_goes_before_the_file_and_that_before_the_model)
{
    struct gpuring_tuning tuning =
        parse(HEAD "allreduce memory=host nodes=1 ranks=4 bytes=0-99 previous\n"
                   "allreduce memory=host nodes=1 ranks=4 bytes=100-199 ring ll128\n"
                   "allreduce memory=host nodes=1 ranks=4 bytes=200-299 two-shot ll\n");
    struct gpuring_tuning tuned;
    struct gpuring_select_config config;

    assert_int_equal(gpuring_tuning_match(&tuning, GPURING_TUNING_HOST, 1, 4, &tuned), 0);
    config = config_of(&tuned);
    expect(&config, 10, true, GPURING_ALGORITHM_TREE, GPURING_PROTOCOL_LL);
    expect(&config, 99, true, GPURING_ALGORITHM_TREE, GPURING_PROTOCOL_LL);
    expect(&config, 100, false, GPURING_ALGORITHM_RING, GPURING_PROTOCOL_LL128);
    /* two-shot is not offered here: the model's */
    expect(&config, 299, false, GPURING_ALGORITHM_TREE, GPURING_PROTOCOL_LL);
    expect(&config, 100000, false, GPURING_ALGORITHM_TREE, GPURING_PROTOCOL_SIMPLE);

    config.algorithm = GPURING_ALGORITHM_DIRECT;
    expect(&config, 10, false, GPURING_ALGORITHM_DIRECT, GPURING_PROTOCOL_LL);
    expect(&config, 100, false, GPURING_ALGORITHM_DIRECT, GPURING_PROTOCOL_LL128);
    config.algorithm = GPURING_ALGORITHM_TWO_SHOT; /* not offered, as if it were not selected */
    expect(&config, 10, true, GPURING_ALGORITHM_TREE, GPURING_PROTOCOL_LL);
    config.algorithm = -1;
    config.protocol = GPURING_PROTOCOL_SIMPLE;
    expect(&config, 10, false, GPURING_ALGORITHM_TREE, GPURING_PROTOCOL_SIMPLE);
    expect(&config, 100, false, GPURING_ALGORITHM_RING, GPURING_PROTOCOL_SIMPLE);
    config.protocol = -1;

    /* previous is selected: all sizes are delegated, and calls that cannot be delegated get another
     * algorithm */
    config.algorithm = GPURING_SELECT_PREVIOUS;
    assert_int_equal(why_delegated(&config, GPURING_COLLECTIVE_ALLREDUCE, 10),
                     GPURING_REASON_PREVIOUS);
    expect(&config, 10, true, GPURING_ALGORITHM_TREE, GPURING_PROTOCOL_LL);
    expect(&config, 100000, true, GPURING_ALGORITHM_TREE, GPURING_PROTOCOL_SIMPLE);
    config.tuning = NULL;
    expect(&config, 100000, true, GPURING_ALGORITHM_TREE, GPURING_PROTOCOL_SIMPLE);
    config.algorithm = -1;
    expect(&config, 10, false, GPURING_ALGORITHM_TREE, GPURING_PROTOCOL_LL);
    gpuring_tuning_clear(&tuned);
    gpuring_tuning_clear(&tuning);
}

/* The size of a call with blocks is the sum over all ranks. If the ranks do not know the counts, it
 * is the largest size. */
TEST(each_collective_has_its_rules)
{
    struct gpuring_tuning tuning =
        parse(HEAD "allgather memory=host nodes=1 ranks=4 bytes=0-399 ring ll\n"
                   "allgather memory=host nodes=1 ranks=4 bytes=4000- previous\n"
                   "bcast memory=host nodes=1 ranks=4 bytes=100-199 ring\n");
    struct gpuring_tuning tuned;
    struct gpuring_select_config config;
    struct gpuring_selection choice;

    assert_int_equal(gpuring_tuning_match(&tuning, GPURING_TUNING_HOST, 1, 4, &tuned), 0);
    config = config_of(&tuned);
    gpuring_select(&config, GPURING_COLLECTIVE_ALLGATHER, 99, 1, &choice);
    assert_int_equal(choice.algorithm, GPURING_ALGORITHM_RING);
    assert_int_equal(choice.protocol, GPURING_PROTOCOL_LL);
    gpuring_select(&config, GPURING_COLLECTIVE_ALLGATHER, 100, 1, &choice);
    assert_int_equal(choice.algorithm, GPURING_ALGORITHM_DIRECT); /* the model's */
    assert_false(delegates(&config, GPURING_COLLECTIVE_ALLGATHER, 999));
    assert_int_equal(why_delegated(&config, GPURING_COLLECTIVE_ALLGATHER, 1000),
                     GPURING_REASON_TUNED);
    assert_true(delegates(&config, GPURING_COLLECTIVE_ALLGATHER, GPURING_COUNT_UNKNOWN));
    gpuring_select(&config, GPURING_COLLECTIVE_ALLGATHER, GPURING_COUNT_UNKNOWN, 1, &choice);
    assert_int_equal(choice.algorithm, GPURING_ALGORITHM_DIRECT);
    assert_int_equal(choice.protocol, GPURING_PROTOCOL_SIMPLE);
    config.algorithm = GPURING_ALGORITHM_RING;
    assert_false(delegates(&config, GPURING_COLLECTIVE_ALLGATHER, 1000));
    config.algorithm = -1;

    /* Small vectors that could use rings only are delegated, unless a rule specifies otherwise. */
    assert_int_equal(why_delegated(&config, GPURING_COLLECTIVE_BCAST, 99), GPURING_REASON_PASSES);
    assert_false(delegates(&config, GPURING_COLLECTIVE_BCAST, 100));
    assert_false(delegates(&config, GPURING_COLLECTIVE_BCAST, 1 << 20));
    /* No plan at all. */
    assert_int_equal(why_delegated(&config, GPURING_COLLECTIVE_SCAN, 1 << 20),
                     GPURING_REASON_RANKS);
    gpuring_tuning_clear(&tuned);
    gpuring_tuning_clear(&tuning);
}

/* Ranks that take turns on a GPU delegate calls that
 * take less time than their turns, unless an algorithm is selected. */
TEST(turns_are_for_large_vectors)
{
    const struct {
        enum gpuring_collective collective;
        int time_sliced_ranks;
        uint64_t most; /* bytes of a vector or block that are delegated; 0: none are */
    } cases[] = {
        {GPURING_COLLECTIVE_ALLREDUCE, 0, 0},
        {GPURING_COLLECTIVE_ALLREDUCE, 2, 4 << 20},
        {GPURING_COLLECTIVE_ALLREDUCE, 8, 28 << 20},
        {GPURING_COLLECTIVE_BCAST, 4, 12 << 20},
        {GPURING_COLLECTIVE_REDUCE, 4, 3 << 20},
        {GPURING_COLLECTIVE_SCAN, 2, 1 << 20},
        {GPURING_COLLECTIVE_ALLTOALL, 4, (12 << 20) / 8}, /* 8 ranks' blocks */
        {GPURING_COLLECTIVE_REDUCE_SCATTER, 2, (1 << 20) / 8},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum gpuring_collective collective = cases[i].collective;
        struct gpuring_select_config config = {.algorithm = -1,
                                               .protocol = -1,
                                               .nranks = 8,
                                               .nnodes = 1,
                                               .time_sliced_ranks = cases[i].time_sliced_ranks};

        config.plans[collective] = 1u << GPURING_ALGORITHM_DIRECT;
        assert_int_equal(why_delegated(&config, collective, cases[i].most),
                         cases[i].most > 0 ? GPURING_REASON_SHARED : GPURING_REASON_NONE);
        assert_false(delegates(&config, collective, cases[i].most + 1));
        assert_false(delegates(&config, collective, GPURING_COUNT_UNKNOWN));
        config.algorithm = GPURING_ALGORITHM_DIRECT;
        assert_false(delegates(&config, collective, cases[i].most));
        config.algorithm = -1;
        config.in_order = true;
        assert_int_equal(delegates(&config, collective, cases[i].most),
                         cases[i].most > 0 && !gpuring_collective_reduces(collective));
    }
}

/* On GPUs small calls with a root are staged, unless the user selects an algorithm for them. */
TEST(small_calls_with_a_root_are_staged)
{
    struct gpuring_tuning_rule rule = {.collective = GPURING_COLLECTIVE_BCAST,
                                       .bytes = {0, 99},
                                       .algorithm = GPURING_PARAM_ALGORITHM_DIRECT};
    struct gpuring_tuning tuning = {.rules = &rule, .count = 1};
    struct gpuring_select_config config = {
        .algorithm = -1, .protocol = -1, .nranks = 4, .nnodes = 1, .host = true};

    for (int i = 0; i < GPURING_COLLECTIVE_COUNT; i++) {
        config.plans[i] = 1u << GPURING_ALGORITHM_DIRECT | 1u << GPURING_ALGORITHM_RING;
    }
    assert_false(delegates(&config, GPURING_COLLECTIVE_BCAST, 8));
    config.host = false;
    assert_int_equal(why_delegated(&config, GPURING_COLLECTIVE_BCAST, 8191), GPURING_REASON_SMALL);
    assert_false(delegates(&config, GPURING_COLLECTIVE_BCAST, 8192));
    assert_true(delegates(&config, GPURING_COLLECTIVE_GATHER, 511)); /* of 4 ranks */
    assert_false(delegates(&config, GPURING_COLLECTIVE_SCATTER, 512));
    assert_false(delegates(&config, GPURING_COLLECTIVE_REDUCE, 8));
    assert_false(delegates(&config, GPURING_COLLECTIVE_ALLREDUCE, 8));
    config.agree_size = 100;
    assert_true(delegates(&config, GPURING_COLLECTIVE_BCAST, 99));
    assert_false(delegates(&config, GPURING_COLLECTIVE_BCAST, 100));
    config.agree_size = 0;
    config.tuning = &tuning;
    assert_false(delegates(&config, GPURING_COLLECTIVE_BCAST, 99));
    assert_true(delegates(&config, GPURING_COLLECTIVE_BCAST, 101));
    config.algorithm = GPURING_ALGORITHM_RING;
    assert_false(delegates(&config, GPURING_COLLECTIVE_BCAST, 101));
}
