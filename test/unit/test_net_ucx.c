/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test the net `ucx` between two processes, one that receives and sends credits and one that does
 * the reverse, over each kind of transport that UCX has on every machine, and with a peer that
 * dies. UCX must not be started before the fork, so the parent of all processes only forks.
 */
#include "test/unit/unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mca/coll_gpuring/net/ucx/ucx_internal.h"
#include "mca/coll_gpuring/util/log.h"
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

static struct gpuring_gate gate = GPURING_GATE_INIT; /* of each process by itself */

/* Create an end, and connect it with that of the other process. */
static int end_open(const struct side *side, struct lane_end *end, bool sender, uint64_t slot_bytes)
{
    static uint8_t process[16384], peer_process[16384];
    uint8_t handle[GPURING_NET_HANDLE_BYTES], peer_handle[GPURING_NET_HANDLE_BYTES];
    size_t peer_bytes = sizeof peer_handle;
    size_t process_bytes = sizeof process, peer_process_bytes = sizeof peer_process;
    int status = lane_end_create(end, &gpuring_net_ucx, side->net, 0, side->proxy,
                                 sender ? GPURING_NET_SEND : GPURING_NET_RECV, NSLOTS, slot_bytes);

    status = status ? status : gpuring_net_ucx.process_handle(side->net, process, &process_bytes);
    if (status != GPURING_OK ||
        exchange(side->socket, process, process_bytes, peer_process, &peer_process_bytes) != 0 ||
        exchange(side->socket, handle, gpuring_net_ucx.link_handle(end->link, handle), peer_handle,
                 &peer_bytes) != 0) {
        return status != GPURING_OK ? status : GPURING_ERR_PEER;
    }
    status = lane_end_connect(end, peer_process, peer_process_bytes, peer_handle, peer_bytes,
                              sender ? "rank 1 on receiver" : "rank 0 on sender");
    /* The peer identifies its endpoint with this address, so the address must not change with
     * endpoints.
     */
    memcpy(peer_process, process, process_bytes);
    peer_process_bytes = sizeof process;
    return status ? status
           : gpuring_net_ucx.process_handle(side->net, process, &peer_process_bytes) !=
                       GPURING_OK ||
                   peer_process_bytes != process_bytes ||
                   memcmp(process, peer_process, process_bytes) != 0
               ? GPURING_ERR_DATA
               : GPURING_OK;
}

static int side_open(struct side *side, bool sender, uint64_t slot_bytes, int fd)
{
    const struct gpuring_net_config config = {.gate = &gate,
                                              .local_host = sender ? "sender" : "receiver"};
    const struct gpuring_proxy_config waits = {.gate = &gate, .spin_us = -1, .yield_us = -1};
    int status;

    memset(side, 0, sizeof *side);
    side->socket = fd;
    status = gpuring_net_ucx.open(&config, &side->net);
    status = status ? status : gpuring_proxy_create(&waits, &side->proxy);
    if (status == GPURING_OK) {
        gpuring_proxy_add_net(side->proxy, side->net);
    }
    return status ? status : end_open(side, &side->end, sender, slot_bytes);
}

/* Wait until both processes are done, as MPI_Finalize does. */
static void meet(const struct side *side)
{
    char byte = 0;
    size_t bytes = 1;

    exchange(side->socket, &byte, 1, &byte, &bytes);
}

/* together: wait until the peer also closes, because a closed net is an error for links that are
 * open.
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

    gpuring_proxy_begin(&side->end.group, false);
    for (int i = 0; i < rounds && status == GPURING_OK; i++) {
        for (int p = 0; p < GPURING_PROTOCOL_COUNT && status == GPURING_OK; p++) {
            enum gpuring_protocol protocol = (enum gpuring_protocol) p;

            status = side->end.direction == GPURING_NET_SEND ? lane_send(&side->end, protocol, 3)
                                                             : lane_recv(&side->end, protocol, 3);
        }
    }
    gpuring_proxy_end(&side->end.group, false);
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
    bool good = check(side_open(&side, sender, slot_bytes, fd) == GPURING_OK, "wire-up");

    good = good && check(transfer(&side, 40) == GPURING_OK, "transfer");
    good = good && check(transfer(&side, 10) == GPURING_OK, "transfer again");
    return check(side_close(&side, true) == GPURING_OK, "close") && good;
}

/* UCX's own choice of transports, and TCP alone, with slots from inline to rendezvous. */
TEST(test_transfer)
{
    static const char *const transports[] = {"all", "tcp"};
    static const uint64_t slot_bytes[] = {128, 8192, 65536, 1 << 20};

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

/* Use one connection over all devices. */
TEST(test_rails)
{
    setenv("GPURING_UCX_TLS", "tcp", 1);
    setenv("GPURING_UCX_MAX_EAGER_RAILS", "4", 1); /* LANES in later versions */
    setenv("GPURING_UCX_MAX_EAGER_LANES", "4", 1);
    assert_true(run_pair(transfer_side, 1 << 20));
    unsetenv("GPURING_UCX_MAX_EAGER_RAILS");
    unsetenv("GPURING_UCX_MAX_EAGER_LANES");
    unsetenv("GPURING_UCX_TLS");
}

/* In the child processes, these functions replace functions of UCX to simulate its reports and
 * refusals. */
static ucs_status_t refuse_endpoint(ucp_worker_h worker, const ucp_ep_params_t *params,
                                    ucp_ep_h *ep)
{
    (void) worker;
    (void) params;
    (void) ep;
    return UCS_ERR_UNREACHABLE;
}

static ucs_status_t refuse_worker(ucp_context_h context, const ucp_worker_params_t *params,
                                  ucp_worker_h *worker)
{
    (void) context;
    (void) params;
    (void) worker;
    return UCS_ERR_NO_MEMORY;
}

static ucs_status_t know_cuda(ucp_context_h context, ucp_context_attr_t *attr)
{
    (void) context;
    attr->memory_types = UINT64_C(1) << UCS_MEMORY_TYPE_HOST | UINT64_C(1) << UCS_MEMORY_TYPE_CUDA;
    return UCS_OK;
}

static ucs_status_t know_no_cuda(ucp_context_h context, ucp_context_attr_t *attr)
{
    (void) context;
    attr->memory_types = UINT64_C(1) << UCS_MEMORY_TYPE_HOST;
    return UCS_OK;
}

static char said[2048];

static void note(enum gpuring_log_level level, const char *text)
{
    (void) level;
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", text);
}

static bool log_says(const char *text)
{
    bool found = strstr(said, text) != NULL;

    if (!found) {
        fprintf(stderr, "# \"%s\" is not in the log:\n%s", text, said);
    }
    said[0] = '\0';
    return found;
}

static bool device_memory(const struct gpuring_net_config *config, bool expected)
{
    struct gpuring_net *net;

    gpuring_ucx.ucp_context_query = expected ? know_cuda : know_no_cuda;
    if (gpuring_net_ucx.open(config, &net) != GPURING_OK) {
        return false;
    }
    gpuring_net_ucx.close(net);
    return log_says(expected ? "[ucx-cuda]" : "[ucx-no-cuda]");
}

/* UCX would abort the process later on. */
static bool refuses_few_descriptors(const struct gpuring_net_config *config)
{
    struct gpuring_net *net = NULL;
    struct rlimit limit, low;
    int status;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return false;
    }
    low = limit;
    low.rlim_cur = 34;
    if (setrlimit(RLIMIT_NOFILE, &low) != 0) {
        return false;
    }
    status = gpuring_net_ucx.open(config, &net);
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 && status == GPURING_ERR_FILES && net == NULL &&
           log_says("[few-descriptors]");
}

static bool abilities_side(int fd, bool sender, uint64_t slot_bytes)
{
    const struct gpuring_net_config usual = {.gate = &gate, .local_host = "here"};
    struct gpuring_net *net = NULL;
    const char *why;
    struct side side;
    bool good;

    gpuring_log_set(note, GPURING_LOG_INFO);
    good = check(gpuring_ucx_load(&why) == GPURING_OK, "load");
    good = good && check(device_memory(&usual, true), "a UCX with CUDA") &&
           check(device_memory(&usual, false), "a UCX without CUDA");
    good = good && check(refuses_few_descriptors(&usual), "too few descriptors");
    gpuring_ucx.ucp_worker_create = refuse_worker;
    good = good && check(gpuring_net_ucx.open(&usual, &net) == GPURING_ERR_NOMEM, "no worker") &&
           check(log_says("[ucx-call] UCX on here cannot create a worker"), "text of no worker");
    if (!good || gpuring_ucx_load_from("libucp.so.0", &gpuring_ucx, said, sizeof said) != 0) {
        return false;
    }
    gpuring_ucx.ucp_ep_create = refuse_endpoint;
    good =
        check(side_open(&side, sender, slot_bytes, fd) == GPURING_ERR_NET, "no way to the peer") &&
        check(log_says("[ucx-unreachable]"), "its remedy");
    side_close(&side, true);
    return good;
}

TEST(test_abilities)
{
    assert_true(run_pair(abilities_side, 4096));
}

/* The library does not exist, or is not UCX. */
TEST(test_library)
{
    struct gpuring_ucx table;
    char why[256];

    assert_int_equal(gpuring_ucx_load_from("libgpuring-nothing.so.7", &table, why, sizeof why),
                     GPURING_ERR_UNSUPPORTED);
    assert_non_null(strstr(why, "libgpuring-nothing.so.7"));
    assert_int_equal(gpuring_ucx_load_from("libc.so.6", &table, why, sizeof why),
                     GPURING_ERR_UNSUPPORTED);
    assert_non_null(strstr(why, "[ucx-version] libc.so.6 lacks ucp_get_version"));
}

static bool killed_side(int fd, bool sender, uint64_t slot_bytes)
{
    struct side side;
    const char *text;
    int status;

    if (!check(side_open(&side, sender, slot_bytes, fd) == GPURING_OK, "wire-up") ||
        !check(transfer(&side, 5) == GPURING_OK, "transfer")) {
        return false;
    }
    meet(&side);
    if (sender) {
        _exit(0); /* as a killed process: nothing is closed in order */
    }
    status = transfer(&side, 1);
    text = gpuring_proxy_error(side.end.link);
    if (!check(status == GPURING_ERR_PEER || status == GPURING_ERR_NET, "an error is reported") ||
        !check(strstr(text, "from receiver to rank 0 on sender") != NULL, text) ||
        !check(strstr(text, "[peer-gone]") != NULL, text)) {
        return false;
    }
    return check(side_close(&side, false) == status, "close");
}

TEST(test_killed_peer)
{
    /* Some transports have no connection that could break, so UCX checks the peer from time to
     * time. */
    static const struct {
        const char *transports, *interval;
    } cases[] = {{"all", "0.2s"}, {"tcp", "0.2s"}, {"tcp", "inf"}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("GPURING_UCX_TLS", cases[i].transports, 1);
        setenv("GPURING_UCX_KEEPALIVE_INTERVAL", cases[i].interval, 1);
        if (!run_pair(killed_side, 8192)) {
            fail_msg("transports %s, looked after each %s", cases[i].transports, cases[i].interval);
        }
    }
    unsetenv("GPURING_UCX_TLS");
    unsetenv("GPURING_UCX_KEEPALIVE_INTERVAL");
}

/* If the sender gives up while its process continues, the receiver learns the reason. */
static bool abort_side(int fd, bool sender, uint64_t slot_bytes)
{
    struct side side;
    const char *text;
    int status;

    if (!check(side_open(&side, sender, slot_bytes, fd) == GPURING_OK, "wire-up") ||
        !check(transfer(&side, 5) == GPURING_OK, "transfer")) {
        return false;
    }
    meet(&side);
    if (sender) {
        gpuring_proxy_abort(side.end.link, GPURING_ERR_TIMEOUT);
        return check(side_close(&side, true) == GPURING_OK, "close");
    }
    status = transfer(&side, 1);
    text = gpuring_proxy_error(side.end.link);
    return check(status == GPURING_ERR_ABORTED, "an error is reported") &&
           check(strstr(text, "[peer-gave-up]") != NULL, text) &&
           check(side_close(&side, true) == GPURING_ERR_ABORTED, "close");
}

TEST(test_abort)
{
    assert_true(run_pair(abort_side, 8192));
}

/* Close a connection before the receiver has fetched its slot. The other connection, which shares
 * the endpoint, continues to work. */
static bool shared_side(int fd, bool sender, uint64_t slot_bytes)
{
    struct lane_end early;
    struct side side;
    bool good = check(side_open(&side, sender, slot_bytes, fd) == GPURING_OK, "wire-up") &&
                check(end_open(&side, &early, sender, slot_bytes) == GPURING_OK, "second end") &&
                check(transfer(&side, 5) == GPURING_OK, "transfer");

    if (!good) {
        return false;
    }
    if (!sender) {
        gpuring_gate_enter(&gate); /* so that this process does not progress UCX */
    }
    meet(&side);
    if (sender) {
        good = check(lane_send(&early, GPURING_PROTOCOL_SIMPLE, 3) == GPURING_OK, "send");
        (void) gpuring_proxy_remove(&early.group, 0.2);
        good = check(gpuring_net_ucx.link_holds(early.link), "a slot is in flight") && good;
        gpuring_net_ucx.link_close(early.link);
    }
    meet(&side);
    if (!sender) {
        gpuring_gate_leave(&gate);
    }
    good = check(transfer(&side, 20) == GPURING_OK, "transfer after the close") && good;
    if (!sender) {
        good = check(lane_end_destroy(&early, 10) == GPURING_OK, "close of the second end") && good;
    }
    good = check(side_close(&side, true) == GPURING_OK, "close") && good;
    if (sender) {
        free(early.memory);
    }
    return good;
}

TEST(test_shared_endpoint)
{
    setenv("GPURING_UCX_TLS", "tcp", 1);
    assert_true(run_pair(shared_side, 1 << 20));
    unsetenv("GPURING_UCX_TLS");
}

/* In the child: UCX must not be started in the parent of other tests. */
static bool environment_side(int fd, bool sender, uint64_t slot_bytes)
{
    const struct gpuring_net_config config = {.gate = &gate, .local_host = "here"};
    struct gpuring_net *net;
    size_t before = 0, after = 0;
    bool good;

    (void) fd;
    (void) sender;
    (void) slot_bytes;
    for (char **at = environ; *at != NULL; at++) {
        before += strlen(*at);
    }
    good = check(gpuring_net_ucx.open(&config, &net) == GPURING_OK, "open") &&
           check(net->devices.count > 0 && net->devices.device[0].name[0] != '\0', "a device");
    for (char **at = environ; *at != NULL; at++) {
        after += strlen(*at);
    }
    if (good) {
        gpuring_net_ucx.close(net);
    }
    return good && check(before == after, "environment unchanged");
}

TEST(test_open_close)
{
    assert_true(run_pair(environment_side, 0));
}
