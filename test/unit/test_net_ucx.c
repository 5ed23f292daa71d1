/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The net `ucx` between processes: a parent that receives and a forked child that sends (and the
 * reverse for credits), over each kind of transport that UCX has on every machine; and a peer that
 * dies. UCX must not be started before the fork, so the parent of all only forks.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "mca/coll_gpuring/util/status.h"
#include "test/unit/net_lane.h"

#define NSLOTS 4

struct side {
    struct gpuring_net *net;
    struct gpuring_proxy *proxy;
    struct lane_end end;
    int socket; /* to the other process */
};

extern char **environ;

static bool check(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "# failed: %s\n", what);
    }
    return good;
}

static int exchange(int fd, const void *mine, size_t bytes, void *theirs, size_t *their_bytes)
{
    ssize_t got;

    if (send(fd, mine, bytes, 0) != (ssize_t) bytes) {
        return -1;
    }
    got = recv(fd, theirs, *their_bytes, 0);
    *their_bytes = (size_t) (got > 0 ? got : 0);
    return got > 0 ? 0 : -1;
}

static int side_open(struct side *side, const char *host, enum gpuring_net_direction direction,
                     uint64_t slot_bytes, int fd)
{
    static uint8_t process[16384], peer_process[16384];
    uint8_t handle[GPURING_NET_HANDLE_BYTES], peer_handle[GPURING_NET_HANDLE_BYTES];
    const struct gpuring_net_config config = {.local_host = host};
    const struct gpuring_proxy_config waits = {
        .spin_us = -1, .yield_us = -1};
    size_t bytes = sizeof handle, peer_bytes = sizeof peer_handle;
    size_t process_bytes = sizeof process, peer_process_bytes = sizeof peer_process;
    int status;

    memset(side, 0, sizeof *side);
    side->socket = fd;
    status = gpuring_net_ucx.open(&config, &side->net);
    status = status ? status : gpuring_proxy_create(&waits, &side->proxy);
    status = status ? status : gpuring_proxy_add_net(side->proxy, &gpuring_net_ucx, side->net);
    status = status ? status
                    : lane_end_create(&side->end, &gpuring_net_ucx, side->net, 0, side->proxy,
                                      direction, NSLOTS, slot_bytes);
    status = status ? status : gpuring_net_ucx.process_handle(side->net, process, &process_bytes);
    status = status ? status : gpuring_net_ucx.link_handle(side->end.link, handle, &bytes);
    if (status != GPURING_OK ||
        exchange(fd, process, process_bytes, peer_process, &peer_process_bytes) != 0 ||
        exchange(fd, handle, bytes, peer_handle, &peer_bytes) != 0) {
        return status != GPURING_OK ? status : GPURING_ERR_PEER;
    }
    return lane_end_connect(&side->end, peer_process, peer_process_bytes, peer_handle, peer_bytes,
                            direction == GPURING_NET_SEND ? "rank 1 on receiver"
                                                          : "rank 0 on sender");
}

/* A barrier that keeps both processes until both are done, as MPI_Finalize does. */
static void meet(const struct side *side)
{
    char byte = 0;
    size_t bytes = 1;

    exchange(side->socket, &byte, 1, &byte, &bytes);
}

/* together: the peer lives and closes too; a net that closes is an error for links that are open.
 */
static int side_close(struct side *side, bool together)
{
    int status = lane_end_destroy(&side->end, 10);

    if (together) {
        meet(side);
    }
    if (gpuring_proxy_destroy(side->proxy, 5) != GPURING_OK) {
        status = status ? status : GPURING_ERR_TIMEOUT;
    }
    gpuring_net_ucx.close(side->net);
    return status;
}

static int transfer(struct side *side, int rounds)
{
    int status = GPURING_OK;

    gpuring_proxy_begin(side->proxy);
    for (int i = 0; i < rounds && status == GPURING_OK; i++) {
        for (int p = 0; p < GPURING_PROTOCOL_COUNT && status == GPURING_OK; p++) {
            enum gpuring_protocol protocol = (enum gpuring_protocol) p;

            status = side->end.direction == GPURING_NET_SEND ? lane_send(&side->end, protocol, 3)
                                                             : lane_recv(&side->end, protocol, 3);
        }
    }
    gpuring_proxy_end(side->proxy);
    return status;
}

/* Fork a sender and a receiver that run `body`; true if both end with 0. */
typedef bool (*side_fn)(int fd, bool sender, uint64_t slot_bytes);

static bool run_pair(side_fn body, uint64_t slot_bytes)
{
    int fds[2], status;
    pid_t child[2];
    bool good = true;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) != 0) {
        return false;
    }
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            close(fds[1 - i]);
            alarm(2 * LANE_DEADLINE_SECONDS);
            _exit(body(fds[i], i == 0, slot_bytes) ? 0 : 1);
        }
    }
    close(fds[0]);
    close(fds[1]);
    for (int i = 0; i < 2; i++) {
        good = child[i] > 0 && waitpid(child[i], &status, 0) == child[i] && WIFEXITED(status) &&
               WEXITSTATUS(status) == 0 && good;
    }
    return good;
}

static bool transfer_side(int fd, bool sender, uint64_t slot_bytes)
{
    struct side side;
    bool good =
        check(side_open(&side, sender ? "sender" : "receiver",
                        sender ? GPURING_NET_SEND : GPURING_NET_RECV, slot_bytes, fd) == GPURING_OK,
              "wire-up");

    good = good && check(transfer(&side, 40) == GPURING_OK, "transfer");
    good = good && check(transfer(&side, 10) == GPURING_OK, "transfer again");
    return check(side_close(&side, true) == GPURING_OK, "close") && good;
}

/* What UCX chooses, and TCP alone; slots from inline to rendezvous. */
static void test_transfer(void **state)
{
    static const char *const transports[] = {"all", "tcp"};
    static const uint64_t slot_bytes[] = {128, 8192, 65536, 1 << 20};

    (void) state;
    for (size_t t = 0; t < sizeof transports / sizeof *transports; t++) {
        setenv("GPURING_UCX_TLS", transports[t], 1);
        for (size_t i = 0; i < sizeof slot_bytes / sizeof *slot_bytes; i++) {
            if (!run_pair(transfer_side, slot_bytes[i])) {
                fail_msg("transports %s, slots of %llu bytes", transports[t],
                         (unsigned long long) slot_bytes[i]);
            }
        }
    }
    unsetenv("GPURING_UCX_TLS");
}

static bool killed_side(int fd, bool sender, uint64_t slot_bytes)
{
    struct side side;
    const char *text;
    int status;

    if (!check(side_open(&side, sender ? "sender" : "receiver",
                         sender ? GPURING_NET_SEND : GPURING_NET_RECV, slot_bytes,
                         fd) == GPURING_OK,
               "wire-up") ||
        !check(transfer(&side, 5) == GPURING_OK, "transfer")) {
        return false;
    }
    meet(&side);
    if (sender) {
        _exit(0); /* as a killed process: nothing is closed in order */
    }
    status = transfer(&side, 1);
    text = gpuring_proxy_conn_error(side.end.conn);
    if (!check(status == GPURING_ERR_PEER || status == GPURING_ERR_NET, "an error is reported") ||
        !check(strstr(text, "from receiver to rank 0 on sender failed") != NULL, text) ||
        !check(strstr(text, "the peer process has ended") != NULL, text)) {
        return false;
    }
    return check(side_close(&side, false) == status, "close");
}

static void test_killed_peer(void **state)
{
    static const char *const transports[] = {"all", "tcp"};

    (void) state;
    for (size_t t = 0; t < sizeof transports / sizeof *transports; t++) {
        setenv("GPURING_UCX_TLS", transports[t], 1);
        /* Some transports have no connection that breaks: UCX looks after the peer now and then. */
        setenv("GPURING_UCX_KEEPALIVE_INTERVAL", "0.2s", 1);
        if (!run_pair(killed_side, 8192)) {
            fail_msg("transports %s", transports[t]);
        }
    }
    unsetenv("GPURING_UCX_TLS");
    unsetenv("GPURING_UCX_KEEPALIVE_INTERVAL");
}

/* In the child: UCX must not be started in the parent of other tests. */
static bool environment_side(int fd, bool sender, uint64_t slot_bytes)
{
    const struct gpuring_net_config config = {.local_host = "here"};
    const struct gpuring_net_device *devices;
    struct gpuring_net *net;
    size_t before = 0, after = 0;
    int count = 0;
    bool good;

    (void) fd;
    (void) sender;
    (void) slot_bytes;
    for (char **at = environ; *at != NULL; at++) {
        before += strlen(*at);
    }
    good = check(gpuring_net_ucx.open(&config, &net) == GPURING_OK, "open") &&
           check(gpuring_net_ucx.devices(net, &devices, &count) == GPURING_OK, "devices") &&
           check(count > 0 && devices[0].name[0] != '\0' && devices[0].speed > 0, "a device");
    for (char **at = environ; *at != NULL; at++) {
        after += strlen(*at);
    }
    if (good) {
        gpuring_net_ucx.close(net);
    }
    return good && check(before == after, "environment unchanged");
}

static void test_open_close(void **state)
{
    (void) state;
    assert_true(run_pair(environment_side, 0));
}

static bool mismatch_side(int fd, bool sender, uint64_t slot_bytes)
{
    struct side side;
    int status = side_open(&side, sender ? "sender" : "receiver",
                           sender ? GPURING_NET_SEND : GPURING_NET_RECV,
                           sender ? slot_bytes : slot_bytes * 2, fd);

    side_close(&side, true);
    return check(status == GPURING_ERR_PEER, "ends of different size are refused");
}

static void test_mismatch(void **state)
{
    (void) state;
    assert_true(run_pair(mismatch_side, 4096));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_close),
        cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_transfer),
        cmocka_unit_test(test_killed_peer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
