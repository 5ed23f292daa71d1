/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * net-pair: check or measure a net between two processes, on one host or on two, without the rest
 * of the component and without MPI. The processes exchange connection info over a socket.
 *
 *   net-pair [OPTIONS] check|latency|bandwidth|both [COUNT]           both processes on this host
 *   net-pair [OPTIONS] --serve PORT ...   and   net-pair [OPTIONS] --to HOST:PORT ...
 *
 * check sends COUNT chunks of all sizes over every link, protocol and direction, and checks each
 * byte. latency runs ping-pong with 8-byte LL chunks. bandwidth streams full slots from the first
 * process to the second, and both streams in both directions. The exit status is 0 if everything is
 * right.
 */
#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mca/coll_gpuring/net/net.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "test/rdma/pair_socket.h"
#include "test/unit/net_lane.h"

#define MAX_LINKS 64

struct options {
    const struct gpuring_net_ops *ops;
    struct gpuring_net_config net;
    struct gpuring_proxy_config waits;
    int device; /* index of the device, or -1 to distribute the links over all devices */
    int links;  /* number of links per direction */
    uint32_t nslots;
    uint64_t slot_bytes;
    const char *serve, *to, *mode;
    uint64_t count;
    double die_after; /* seconds after which the process exits, or 0 */
};

struct session {
    const struct options *options;
    int fd;
    bool first; /* this is the serving process */
    struct gpuring_net *net;
    struct gpuring_proxy *proxy;
    struct lane_end send[MAX_LINKS], recv[MAX_LINKS];
};

static struct gpuring_gate gate = GPURING_GATE_INIT;

static const struct gpuring_net_ops *net_by_name(const char *name)
{
#if GPURING_HAVE_UCX
    if (strcmp(name, "ucx") == 0) {
        return &gpuring_net_ucx;
    }
#endif
#if GPURING_HAVE_VERBS
    if (strcmp(name, "verbs") == 0) {
        return &gpuring_net_verbs;
    }
#endif
    fprintf(stderr, "net-pair: this build has no net %s\n", name);
    return NULL;
}

static int usage(void)
{
    fprintf(
        stderr,
        "usage: net-pair [--net ucx|verbs] [--hca LIST] [--device N] [--links N] [--slots N]\n"
        "                [--slot-bytes N] [--timeout EXP] [--retry N] [--spin US] [--yield US]\n"
        "                [--qps N] [--spares N]\n"
        "                [--serve PORT | --to HOST:PORT] [--verbose]\n"
        "                check|latency|bandwidth|both [COUNT]\n");
    return 2;
}

static int parse(int argc, char **argv, struct options *o)
{
    static const struct option names[] = {
        {"net", 1, NULL, 'n'},     {"hca", 1, NULL, 'h'},       {"device", 1, NULL, 'd'},
        {"links", 1, NULL, 'l'},   {"slots", 1, NULL, 's'},     {"slot-bytes", 1, NULL, 'b'},
        {"serve", 1, NULL, 'S'},   {"to", 1, NULL, 'T'},        {"timeout", 1, NULL, 't'},
        {"retry", 1, NULL, 'r'},   {"spin", 1, NULL, 'p'},      {"yield", 1, NULL, 'y'},
        {"verbose", 0, NULL, 'v'}, {"die-after", 1, NULL, 'D'}, {"qps", 1, NULL, 'q'},
        {"spares", 1, NULL, 'e'},  {NULL, 0, NULL, 0}};
    int option;

    *o = (struct options){.ops = NULL,
                          .net = {.gate = &gate, .verbs_timeout = -1, .verbs_retry_count = -1},
                          .waits = {.gate = &gate, .spin_us = -1, .yield_us = -1},
                          .device = -1,
                          .links = 1,
                          .nslots = 8,
                          .slot_bytes = 65536,
                          .count = 1000};
    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (option) {
        case 'n':
            o->ops = net_by_name(optarg);
            break;
        case 'h':
            o->net.hca = optarg;
            break;
        case 'd':
            o->device = atoi(optarg);
            break;
        case 'l':
            o->links = atoi(optarg);
            break;
        case 's':
            o->nslots = (uint32_t) atoi(optarg);
            break;
        case 'b':
            o->slot_bytes = strtoull(optarg, NULL, 0);
            break;
        case 'S':
            o->serve = optarg;
            break;
        case 'T':
            o->to = optarg;
            break;
        case 't':
            o->net.verbs_timeout = atoi(optarg);
            break;
        case 'r':
            o->net.verbs_retry_count = atoi(optarg);
            break;
        case 'p':
            o->waits.spin_us = atoi(optarg);
            break;
        case 'y':
            o->waits.yield_us = atoi(optarg);
            break;
        case 'q':
            o->net.verbs_qps = atoi(optarg);
            break;
        case 'e':
            o->net.verbs_spares = atoi(optarg);
            break;
        case 'D':
            o->die_after = atof(optarg);
            break;
        case 'v':
            gpuring_log_set(NULL, GPURING_LOG_DEBUG);
            break;
        default:
            return usage();
        }
    }
    if (optind == argc || o->links < 1 || o->links > MAX_LINKS || o->nslots < 2 ||
        o->nslots > GPURING_FIFO_MAX_SIZES || o->slot_bytes < 128 || o->slot_bytes % 128 != 0) {
        return usage();
    }
    o->mode = argv[optind];
    if (optind + 1 < argc) {
        o->count = strtoull(argv[optind + 1], NULL, 0);
    }
    if (o->ops == NULL) {
        o->ops = net_by_name("ucx");
    }
    return o->ops != NULL ? 0 : 2;
}

static int fail(const struct session *s, const char *what, int status)
{
    fprintf(stderr, "net-pair (%s): %s: %s\n", s->first ? "first" : "second", what,
            gpuring_status_text(status));
    return status;
}

static int connect_link(struct session *s, struct lane_end *end, const struct pair_message *process)
{
    struct pair_message mine, theirs;

    mine.bytes = s->options->ops->link_handle(end->link, mine.data);
    if (pair_exchange(s->fd, &mine, &theirs) != 0) {
        return GPURING_ERR_PEER;
    }
    return lane_end_connect(end, process->data, process->bytes, theirs.data, theirs.bytes,
                            s->first ? "rank 1 on the second host" : "rank 0 on the first host");
}

static int session_open(struct session *s)
{
    const struct options *o = s->options;
    const struct gpuring_net_devices *devices;
    struct pair_message mine, theirs;
    int status = o->ops->open(&o->net, &s->net);

    devices = status == GPURING_OK ? o->ops->devices(s->net) : NULL;
    if (devices == NULL || devices->count == 0) {
        return fail(s, "open", status != GPURING_OK ? status : GPURING_ERR_UNSUPPORTED);
    }
    for (int i = 0; i < devices->count && s->first; i++) {
        printf("# device %d: %s port %d, PCI %s\n", i, devices->device[i].name,
               devices->device[i].port, devices->device[i].pci_bus_id);
    }
    status = gpuring_proxy_create(&o->waits, &s->proxy);
    if (status == GPURING_OK) {
        gpuring_proxy_add_net(s->proxy, s->net);
    }
    mine.bytes = o->ops->process_handle != NULL ? sizeof mine.data : 0;
    if (status == GPURING_OK && o->ops->process_handle != NULL) {
        status = o->ops->process_handle(s->net, mine.data, &mine.bytes);
    }
    if (status != GPURING_OK || pair_exchange(s->fd, &mine, &theirs) != 0) {
        return fail(s, "exchange", status != GPURING_OK ? status : GPURING_ERR_PEER);
    }
    for (int i = 0; i < o->links; i++) {
        int device = o->device >= 0 ? o->device : i % devices->count;
        struct lane_end *ends[2] = {&s->send[i], &s->recv[i]};

        for (int d = 0; d < 2 && status == GPURING_OK; d++) {
            status = lane_end_create(ends[d], o->ops, s->net, device, s->proxy,
                                     d == 0 ? GPURING_NET_SEND : GPURING_NET_RECV, o->nslots,
                                     o->slot_bytes);
        }
        /* Connect the sending end of the first process with the receiving end of the second, and
         * then the other way round. */
        for (int d = 0; d < 2 && status == GPURING_OK; d++) {
            status = connect_link(s, ends[s->first ? d : 1 - d], &theirs);
        }
    }
    if (status != GPURING_OK) {
        return fail(s, "connect", status);
    }
    pair_barrier(s->fd);
    for (int i = 0; i < o->links && o->ops->link_ready != NULL; i++) {
        o->ops->link_ready(s->send[i].link);
        o->ops->link_ready(s->recv[i].link);
    }
    return GPURING_OK;
}

static int session_close(struct session *s)
{
    int status = GPURING_OK;

    for (int i = 0; i < s->options->links; i++) {
        int sent = lane_end_destroy(&s->send[i], 10), received = lane_end_destroy(&s->recv[i], 10);

        status = status ? status : sent ? sent : received;
    }
    pair_barrier(s->fd); /* links that are still open report an error if the peer has exited */
    if (gpuring_proxy_destroy(s->proxy, 5) != GPURING_OK) {
        status = GPURING_ERR_TIMEOUT;
    }
    s->options->ops->close(s->net);
    return status;
}

struct check_lane {
    struct session *session;
    struct lane_end *end;
    enum gpuring_protocol protocol;
    uint64_t seed;
    pthread_t thread;
    int status;
};

static void *check_main(void *argument)
{
    struct check_lane *lane = argument;

    gpuring_proxy_begin(&lane->end->group, false);
    for (uint64_t i = 0; i < lane->session->options->count && lane->status == GPURING_OK; i++) {
        lane->status = lane->end->direction == GPURING_NET_SEND
                           ? lane_send(lane->end, lane->protocol, lane->seed)
                           : lane_recv(lane->end, lane->protocol, lane->seed);
    }
    gpuring_proxy_end(&lane->end->group, false);
    return NULL;
}

static int run_check(struct session *s)
{
    static struct check_lane lanes[MAX_LINKS * 2 * GPURING_PROTOCOL_COUNT];
    int n = 0, status = GPURING_OK;

    for (int i = 0; i < s->options->links * 2; i++) {
        for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
            struct lane_end *end = i % 2 == 0 ? &s->send[i / 2] : &s->recv[i / 2];

            lanes[n] = (struct check_lane){.session = s,
                                           .end = end,
                                           .protocol = (enum gpuring_protocol) p,
                                           .seed = (uint64_t) (i / 2 * 10 + p)};
            if (pthread_create(&lanes[n].thread, NULL, check_main, &lanes[n]) != 0) {
                return GPURING_ERR_NOMEM;
            }
            n++;
        }
    }
    for (int i = 0; i < n; i++) {
        pthread_join(lanes[i].thread, NULL);
        if (lanes[i].status != GPURING_OK && status == GPURING_OK) {
            status = lanes[i].status;
            fprintf(stderr, "net-pair: %s\n", gpuring_proxy_error(lanes[i].end->link));
        }
    }
    if (status == GPURING_OK && s->first) {
        printf("check: %d lanes of %llu chunks right\n", n, (unsigned long long) s->options->count);
    }
    return status;
}

/* Publish full slots while there is room. Return true when `count` of them have been consumed. */
static bool stream_send(struct lane_end *end, enum gpuring_protocol protocol, uint32_t bytes,
                        uint64_t count)
{
    uint64_t head = __atomic_load_n(&end->head[protocol]->head, __ATOMIC_ACQUIRE);

    while (end->step[protocol] < count && end->step[protocol] - head < end->nslots) {
        end->tail[protocol]->size[end->step[protocol] % end->nslots] = bytes;
        __atomic_store_n(&end->tail[protocol]->tail, ++end->step[protocol], __ATOMIC_RELEASE);
    }
    return head >= count;
}

static bool stream_recv(struct lane_end *end, enum gpuring_protocol protocol, uint64_t count)
{
    uint64_t tail = __atomic_load_n(&end->tail[protocol]->tail, __ATOMIC_ACQUIRE);

    if (tail > end->step[protocol]) {
        end->step[protocol] = tail;
        __atomic_store_n(&end->head[protocol]->head, tail, __ATOMIC_RELEASE);
    }
    return tail >= count;
}

static bool any_failed(const struct session *s)
{
    for (int i = 0; i < s->options->links; i++) {
        if (__atomic_load_n(&s->send[i].failed, __ATOMIC_ACQUIRE) != GPURING_OK ||
            __atomic_load_n(&s->recv[i].failed, __ATOMIC_ACQUIRE) != GPURING_OK) {
            fprintf(stderr, "net-pair: %s%s\n", gpuring_proxy_error(s->send[i].link),
                    gpuring_proxy_error(s->recv[i].link));
            return true;
        }
    }
    return false;
}

static void session_begin(struct session *s)
{
    for (int i = 0; i < s->options->links; i++) {
        gpuring_proxy_begin(&s->send[i].group, false);
        gpuring_proxy_begin(&s->recv[i].group, false);
    }
}

static void session_end(struct session *s)
{
    for (int i = 0; i < s->options->links; i++) {
        gpuring_proxy_end(&s->send[i].group, false);
        gpuring_proxy_end(&s->recv[i].group, false);
    }
}

static int run_bandwidth(struct session *s, bool both)
{
    const struct options *o = s->options;
    uint32_t bytes = (uint32_t) gpuring_fifo_payload(GPURING_PROTOCOL_SIMPLE, o->slot_bytes);
    uint64_t begin, last;
    bool done = false;

    pair_barrier(s->fd);
    begin = gpuring_now_ns();
    session_begin(s);
    while (!done) {
        done = true;
        for (int i = 0; i < o->links; i++) {
            if (both || s->first) {
                done = stream_send(&s->send[i], GPURING_PROTOCOL_SIMPLE, bytes, o->count) && done;
            }
            if (both || !s->first) {
                done = stream_recv(&s->recv[i], GPURING_PROTOCOL_SIMPLE, o->count) && done;
            }
        }
        if (any_failed(s)) {
            return GPURING_ERR_NET;
        }
        sched_yield();
    }
    session_end(s);
    pair_barrier(s->fd);
    last = gpuring_now_ns();
    if (s->first) {
        double seconds = (double) (last - begin) / 1e9;

        printf("bandwidth: %d x %llu x %u bytes %s: %.2f MB/s per direction\n", o->links,
               (unsigned long long) o->count, bytes, both ? "both ways" : "one way",
               (double) o->links * (double) o->count * bytes / seconds / 1e6);
    }
    return GPURING_OK;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

    return x < y ? -1 : x > y;
}

static int run_latency(struct session *s)
{
    uint64_t count = s->options->count;
    uint64_t *ns = calloc(count + 1, sizeof *ns);
    int status = ns == NULL ? GPURING_ERR_NOMEM : GPURING_OK;

    pair_barrier(s->fd);
    session_begin(s);
    for (uint64_t i = 0; i < count && status == GPURING_OK; i++) {
        uint64_t begin = gpuring_now_ns();

        if (s->first) {
            stream_send(&s->send[0], GPURING_PROTOCOL_LL, 8, i + 1);
        }
        while (!stream_recv(&s->recv[0], GPURING_PROTOCOL_LL, i + 1)) {
            if (any_failed(s)) {
                status = GPURING_ERR_NET;
                break;
            }
            sched_yield();
        }
        if (!s->first) {
            stream_send(&s->send[0], GPURING_PROTOCOL_LL, 8, i + 1);
        }
        ns[i] = gpuring_now_ns() - begin;
    }
    session_end(s);
    if (status == GPURING_OK && s->first) {
        qsort(ns, count, sizeof *ns, compare);
        printf("latency: %llu round trips of 8 bytes, half of one: typical %.2f us, 99%% %.2f us\n",
               (unsigned long long) count, (double) ns[count / 2] / 2e3,
               (double) ns[count * 99 / 100] / 2e3);
    }
    free(ns);
    return status;
}

static int run(const struct options *options, int fd, bool first)
{
    static struct session s;
    int status, closed;

    s.options = options;
    s.fd = fd;
    s.first = first;
    status = session_open(&s);
    if (status != GPURING_OK) {
        return 1;
    }
    if (options->die_after > 0 && !first) {
        alarm((unsigned) options->die_after);
    }
    status = strcmp(options->mode, "check") == 0       ? run_check(&s)
             : strcmp(options->mode, "latency") == 0   ? run_latency(&s)
             : strcmp(options->mode, "bandwidth") == 0 ? run_bandwidth(&s, false)
             : strcmp(options->mode, "both") == 0      ? run_bandwidth(&s, true)
                                                       : GPURING_ERR_ARG;
    if (status != GPURING_OK) {
        fail(&s, options->mode, status);
    } else {
        pair_barrier(fd);
    }
    closed = session_close(&s);
    if (closed != GPURING_OK) {
        fail(&s, "close", closed);
    }
    fflush(stdout);
    return status == GPURING_OK && closed == GPURING_OK ? 0 : 1;
}

static int run_here(struct options *options)
{
    int fds[2], status;
    pid_t child;
    bool good;

    if (pair_local(fds) != 0 || (child = fork()) < 0) {
        perror("net-pair");
        return 1;
    }
    if (child == 0) {
        close(fds[0]);
        options->net.local_host = "host1";
        _exit(run(options, fds[1], false));
    }
    close(fds[1]);
    options->net.local_host = "host0";
    good = run(options, fds[0], true) == 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0 &&
                   good
               ? 0
               : 1;
}

int main(int argc, char **argv)
{
    static char host[64];
    struct options options;
    int status = parse(argc, argv, &options), fd;

    if (status != 0) {
        return status;
    }
    if (options.serve == NULL && options.to == NULL) {
        return run_here(&options);
    }
    gethostname(host, sizeof host - 1);
    options.net.local_host = host;
    fd = options.serve != NULL ? pair_serve(options.serve) : pair_connect(options.to);
    if (fd < 0) {
        return 1;
    }
    return run(&options, fd, options.serve != NULL);
}
