/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The progress thread: lists of cores, the choice, a real thread, and the times of its waits. */
#include "test/unit/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mca/coll_gpuring/net/proxy/proxy_internal.h"

static cpu_set_t set_of(const char *list)
{
    cpu_set_t cores;

    CPU_ZERO(&cores);
    assert_true(*list == '\0' || gpuring_cores_parse(list, &cores));
    return cores;
}

TEST(test_parse)
{
    static const struct {
        const char *text, *same;
    } good[] = {{"0", "0"},           {"3\n", "3"}, {"0,4-7", "0,4-7"},  {"7,1", "1,7"},
                {"1,2,3", "1-3"},     {"5-5", "5"}, {"0-3,2-6", "0-6"},  {"1023", "1023"},
                {"0-1023", "0-1023"}, {"08", "8"},  {"2,0,1,9", "0-2,9"}};
    static const char *const wrong[] = {
        "",    "x",  "1,",   ",1",     "1-",    "3-1", "0,2-1", "-1",
        "1 2", " 1", "1024", "0-1024", "0-7:2", "all", "1\n2",  "99999999999999999999"};
    char text[64];
    cpu_set_t cores;

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(gpuring_cores_parse(good[i].text, &cores));
        gpuring_cores_text(&cores, text, sizeof text);
        assert_string_equal(text, good[i].same);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (gpuring_cores_parse(wrong[i], &cores)) {
            fail_msg("\"%s\" was taken", wrong[i]);
        }
    }
    assert_true(gpuring_cores_wish_valid(NULL));
    assert_true(gpuring_cores_wish_valid(""));
    assert_true(gpuring_cores_wish_valid("auto"));
    assert_true(gpuring_cores_wish_valid("none"));
    assert_true(gpuring_cores_wish_valid("1-2"));
    assert_false(gpuring_cores_wish_valid("automatic"));
}

TEST(test_text_room)
{
    cpu_set_t cores = set_of("0,2,4,6,8,10-20");
    char text[8];

    gpuring_cores_text(&cores, text, sizeof text);
    assert_string_equal(text, "0,2,4,6"); /* cut, never beyond the room */
}

/* wish, allowed, taken, near -> cores; alone; refused */
TEST(test_choice)
{
    static const struct {
        const char *wish, *allowed, *taken, *near, *cores;
        bool alone, refused;
    } cases[] = {
        /* Room near the device, room elsewhere, no room. */
        {"auto", "0-15", "0,8", "0-7", "1-7", true, false},
        {"auto", "0-15", "0-7", "0-7", "8-15", true, false},
        {"auto", "0-15", "0-15", "0-7", "", false, false},
        {"auto", "0-15", "0-3", "", "4-15", true, false},
        {NULL, "0-3", "0-1", "", "2-3", true, false},
        {"", "0-3", "0-1", "", "2-3", true, false},
        /* A container grants less than the machine has. */
        {"auto", "0-1", "0-1", "4-7", "", false, false},
        {"auto", "0-5", "0-1", "4-7", "4-5", true, false},
        {"none", "0-15", "0", "0-7", "", false, false},
        {"3", "0-15", "0", "0-7", "3", true, false},
        {"0", "0-15", "0", "0-7", "0", false, false},
        {"0,3", "0-15", "0", "", "0,3", false, false},
        {"3,99", "0-15", "0", "", "3", true, false},
        {"99", "0-15", "0", "", "", false, true},
        {"nonsense", "0-15", "0", "", "1-15", true, false},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct gpuring_cores_facts facts = {.wish = cases[i].wish,
                                                  .allowed = set_of(cases[i].allowed),
                                                  .taken = set_of(cases[i].taken),
                                                  .near = set_of(cases[i].near)};
        struct gpuring_cores_choice choice;
        char text[64];

        gpuring_cores_choose(&facts, &choice);
        gpuring_cores_text(&choice.cores, text, sizeof text);
        assert_string_equal(text, cases[i].cores);
        assert_int_equal(choice.alone, cases[i].alone);
        assert_int_equal(choice.refused, cases[i].refused);
        assert_non_null(choice.why);
    }
}

TEST(test_near)
{
    char root[] = "/tmp/gpuring-cores.XXXXXX", path[128], text[64];
    cpu_set_t cores;
    FILE *file;

    assert_non_null(mkdtemp(root));
    snprintf(path, sizeof path, "mkdir -p %s/bus/pci/devices/0000:3b:00.0", root);
    assert_int_equal(system(path), 0);
    snprintf(path, sizeof path, "%s/bus/pci/devices/0000:3b:00.0/local_cpulist", root);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs("8-15,24-31\n", file);
    fclose(file);
    gpuring_cores_near(root, "0000:3b:00.0", &cores);
    gpuring_cores_text(&cores, text, sizeof text);
    assert_string_equal(text, "8-15,24-31");
    gpuring_cores_near(root, "0000:3c:00.0", &cores);
    assert_int_equal(CPU_COUNT(&cores), 0);
    gpuring_cores_near(root, "", &cores);
    assert_int_equal(CPU_COUNT(&cores), 0);
    snprintf(path, sizeof path, "rm -r %s", root);
    assert_int_equal(system(path), 0);
}

struct probe {
    struct gpuring_proxy_config config;
    bool alone;
    cpu_set_t cores;
};

static void *probe_main(void *argument)
{
    struct probe *probe = argument;

    probe->alone = gpuring_proxy_thread_setup(&probe->config);
    assert_int_equal(sched_getaffinity(0, sizeof probe->cores, &probe->cores), 0);
    return NULL;
}

static void probe_run(struct probe *probe)
{
    pthread_t thread;

    assert_int_equal(gpuring_proxy_thread_start(&thread, probe_main, probe), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* A real thread is bound as requested, or runs where the process may run. The caller is never
 * moved. */
TEST(test_thread)
{
    cpu_set_t own, after;
    struct probe probe;
    char first[16], all[1024];
    int core = 0;

    assert_int_equal(sched_getaffinity(0, sizeof own, &own), 0);
    while (!CPU_ISSET(core, &own)) {
        core++;
    }
    snprintf(first, sizeof first, "%d", core);

    probe = (struct probe){.config = {.cores = first}};
    probe_run(&probe);
    assert_int_equal(CPU_COUNT(&probe.cores), 1);
    assert_true(CPU_ISSET(core, &probe.cores));
    assert_true(probe.alone);

    probe = (struct probe){.config = {.cores = first, .taken = own}};
    probe_run(&probe);
    assert_false(probe.alone);

    gpuring_cores_text(&own, all, sizeof all);
    for (int i = 0; i < 3; i++) {
        static const char *const wishes[] = {NULL, "none", "1023"};

        if (i == 2 && CPU_ISSET(1023, &own)) {
            continue;
        }
        probe = (struct probe){.config = {.cores = wishes[i], .taken = own}};
        probe_run(&probe);
        assert_true(CPU_EQUAL(&probe.cores, &own));
        assert_false(probe.alone);
    }

    /* Ranks everywhere: no room. */
    probe = (struct probe){.config = {.cores = "auto"}};
    memset(&probe.config.taken, 0xff, sizeof probe.config.taken);
    probe_run(&probe);
    assert_true(CPU_EQUAL(&probe.cores, &own));
    assert_false(probe.alone);

    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&own, &after));
}

/* If no other thread uses its core, the thread polls for longer before it yields. */
TEST(test_spin)
{
    const struct gpuring_proxy_config usual = {.spin_us = -1, .yield_us = -1};
    const struct gpuring_proxy_config given = {.spin_us = 7, .yield_us = 5};
    struct gpuring_proxy_wait shared, alone, asked;

    gpuring_proxy_wait_init(&shared, &usual, false);
    gpuring_proxy_wait_init(&alone, &usual, true);
    gpuring_proxy_wait_init(&asked, &given, true);
    assert_true(alone.spin_ns > shared.spin_ns);
    assert_int_equal(asked.spin_ns, 7000);
    assert_int_equal(asked.yield_ns, 12000);
}

int __wrap_sched_yield(void);

static unsigned yields, yield_us; /* number of yields, and how long they take */

int __wrap_sched_yield(void)
{
    yields++;
    return usleep(yield_us);
}

/* After a yield that has lost the core for long, the thread naps instead, also after the next
 * event, and for twice as long after another such yield. */
TEST(test_crowded)
{
    const struct gpuring_proxy_config config = {.spin_us = 0, .yield_us = 100000000};
    struct gpuring_proxy_bell bell = {.fd = -1};
    struct gpuring_proxy_wait wait;
    uint64_t first;

    gpuring_proxy_wait_init(&wait, &config, false);
    for (unsigned i = 0; i < 3; i++) {
        wait.crowded_until = 0; /* this process may have lost its core, too */
        yield_us = i < 2 ? 0 : 2000;
        gpuring_proxy_wait_step(&wait, &bell, NULL, true, 0);
        assert_int_equal(yields, i + 1);
    }
    assert_true(wait.crowded_until > 0);
    for (int event = 0; event < 2; event++) {
        wait.since = wait.nap_ns = 0;
        gpuring_proxy_wait_step(&wait, &bell, NULL, true, 0);
        assert_true(wait.nap_ns > 0);
        gpuring_proxy_wait_step(&wait, &bell, NULL, true, 0);
    }
    assert_int_equal(yields, 3);
    first = wait.crowded_ns;
    wait.crowded_until = 0;
    gpuring_proxy_wait_step(&wait, &bell, NULL, true, 0);
    assert_int_equal(yields, 4);
    assert_int_equal(wait.crowded_ns, 2 * first);
}

/* The longer nothing happens, the longer are the naps, so that an idle thread wakes at most 200
 * times per second. A new operation ends a nap. */
TEST(test_naps)
{
    const uint64_t ms = 1000000;
    const struct gpuring_proxy_nap nap = {.nfds = 0};
    struct gpuring_proxy_bell bell = {.fd = eventfd(0, EFD_NONBLOCK), .begun = 1};
    struct gpuring_proxy_wait wait = {.since = 1, .nap_ns = 5 * ms};

    assert_int_equal(gpuring_proxy_longest_nap(0, true, true), ms / 5);
    assert_int_equal(gpuring_proxy_longest_nap(10 * ms, true, true), ms / 5);
    assert_int_equal(gpuring_proxy_longest_nap(100 * ms, true, true), 2 * ms);
    assert_int_equal(gpuring_proxy_longest_nap(250 * ms, true, false), 5 * ms);
    assert_int_equal(gpuring_proxy_longest_nap(3600000 * ms, true, true), 5 * ms);
    assert_true(gpuring_proxy_longest_nap(0, false, true) > 5 * ms);
    assert_int_equal(gpuring_proxy_longest_nap(0, false, false), ms);
    gpuring_proxy_wait_step(&wait, &bell, &nap, true, 1);
    assert_true(wait.since != 0 && wait.nap_ns == 10 * ms); /* the next nap is longer */
    gpuring_proxy_bell_ring(&bell);
    gpuring_proxy_wait_step(&wait, &bell, &nap, true, 1);
    assert_true(wait.since == 0 && wait.nap_ns == 0);
    close(bell.fd);
}
