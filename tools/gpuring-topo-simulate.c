/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/*
 * What the start of a large job costs one rank.  Everything that a rank computes from what it
 * gathers is done here with the component's own functions, on what N copies of this machine would
 * send: compare the ranks, number the nodes, connect rings and trees, find this rank's places,
 * build its plans.  Nothing is sent; the time of MPI's own gathering is not in it.  Each job runs
 * in a process of its own, so that its memory can be told from that of the others.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "gpuring-topo-machine.h"
#include "mca/coll_gpuring/members.h"
#include "mca/coll_gpuring/net/net.h"
#include "mca/coll_gpuring/plan/plan.h"
#include "mca/coll_gpuring/transport/blob.h"
#include "mca/coll_gpuring/wireup_format.h"

/* The jobs without --nodes: 8 to 131072 ranks of 8 GPUs. */
static const unsigned jobs_default[] = {1, 16, 256, 2048, 16384};

/* One job's figures.  Passed from the child through a pipe. */
struct figures {
    int rc;
    uint32_t nodes, ranks, rings, trees;
    uint64_t hello_bytes;  /* AllGather 1, of all ranks */
    uint64_t wire_bytes;   /* AllGather 2: channels */
    uint64_t letter_bytes; /* this rank's handles, to its neighbours, at most */
    uint32_t neighbours;
    uint64_t plan_bytes;  /* of this rank's ring and tree plans */
    uint32_t connections; /* of this rank */
    double compare_ms, connect_ms, plan_ms;
    double memory_mib; /* most that was resident, above the start */
};

static double cpu_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return 1e3 * (double) now.tv_sec + 1e-6 * (double) now.tv_nsec;
}

static double resident_mib(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double) usage.ru_maxrss / 1024;
}

/* A rank's block of AllGather 1: of a node with as many ports as GPUs. */
static size_t hello_fill(const struct topo_machine *machine, size_t rank, void *block)
{
    uint32_t nnics = machine->gpus < GPURING_NICS_MAX ? machine->gpus : GPURING_NICS_MAX;
    struct gpuring_hello *hello = block;
    struct gpuring_nic *nics = (struct gpuring_nic *) (hello + 1);

    memset(block, 0, gpuring_hello_bytes(nnics));
    hello->magic = GPURING_HELLO_MAGIC;
    hello->version = GPURING_WIRE_VERSION;
    hello->bytes = sizeof(*hello);
    hello->nnics = nnics;
    /* Identities of hosts are hashes: in no order. */
    hello->node = (rank / machine->gpus + 1) * UINT64_C(0x9e3779b97f4a7c15);
    hello->pid = (uint32_t) rank;
    snprintf(hello->hostname, sizeof(hello->hostname), "node%zu", rank / machine->gpus);
    for (uint32_t i = 0; i < nnics; i++) {
        nics[i].guid = rank / machine->gpus * nnics + i + 1;
        nics[i].port = 1;
        nics[i].link = GPURING_NIC_INFINIBAND;
        snprintf(nics[i].name, sizeof(nics[i].name), "mlx5_%u", i % 100);
    }
    return gpuring_hello_bytes(nnics);
}

/* What AllGather 1 would bring from NODES nodes, as it travels. */
static uint8_t *hellos_make(const struct topo_machine *machine, uint32_t ranks, size_t *bytes)
{
    union {
        struct gpuring_hello hello;
        uint8_t bytes[sizeof(struct gpuring_hello) + GPURING_NICS_MAX * sizeof(struct gpuring_nic)];
    } block;
    size_t each = hello_fill(machine, 0, &block);
    uint8_t *records = malloc(ranks * gpuring_record_bytes(each));

    for (size_t r = 0; records && r < ranks; r++) {
        hello_fill(machine, r, &block);
        gpuring_record_put(records + r * gpuring_record_bytes(each), (int) r, &block, each);
    }
    *bytes = ranks * gpuring_record_bytes(each);
    return records;
}

/* As a rank does after AllGather 1: do all agree, and who shares a node? */
static int hellos_consume(const struct topo_machine *machine, struct figures *figures)
{
    struct gpuring_gathered hellos = {0};
    struct gpuring_members members = {0};
    int rank, parameter, rc = -ENOMEM;
    size_t bytes;
    uint8_t *records = hellos_make(machine, figures->ranks, &bytes);
    double since = cpu_ms();

    if (!records || gpuring_gathered_take(&hellos, (int) figures->ranks, records, bytes) != 0) {
        free(records);
        return rc;
    }
    if (gpuring_members_compare(&hellos, &rank, &parameter) != GPURING_AGREED) {
        rc = -EPROTO;
    } else if (gpuring_members_find(&hellos, &members) == 0) {
        rc = members.nnodes == (int) figures->nodes ? 0 : -EPROTO;
    }
    figures->compare_ms = cpu_ms() - since;
    figures->hello_bytes = bytes;
    gpuring_members_clear(&members);
    gpuring_gathered_clear(&hellos);
    return rc;
}

/* A rank's places in all channels, in the form that the builders of plans take. */
static void places_fill(const struct pci_connect *connect, uint32_t rank, uint32_t channels,
                        struct gpuring_channel *places)
{
    for (uint32_t c = 0; c < channels; c++) {
        struct pci_ring_place ring;

        pci_connect_ring(connect, rank, c % connect->agreed.rings, &ring);
        places[c].ring =
            (struct gpuring_ring_place){(int) ring.prev, (int) ring.next, (int) ring.index};
        for (uint32_t which = 0; which < PCI_CONNECT_TREES; which++) {
            struct pci_tree_place tree;

            pci_connect_tree(connect, rank, c % connect->agreed.trees, which, &tree);
            places[c].tree[which].up = tree.up;
            for (int i = 0; i < GPURING_CHANNEL_MAX_DOWN; i++) {
                places[c].tree[which].down[i] = tree.down[i];
            }
        }
    }
}

static uint64_t plan_bytes(const struct gpuring_plan *plan)
{
    uint64_t bytes = sizeof(*plan) + plan->nlanes * sizeof(*plan->lanes) +
                     (plan->nrecvs + plan->nsends) * sizeof(*plan->recvs);

    for (uint32_t l = 0; l < plan->nlanes; l++) {
        bytes += plan->lanes[l].nsteps * sizeof(*plan->lanes[l].steps) +
                 plan->lanes[l].nrefs * sizeof(*plan->lanes[l].refs);
    }
    return bytes;
}

static int by_peer(const void *a, const void *b)
{
    int left = ((const struct gpuring_plan_conn *) a)->peer;
    int right = ((const struct gpuring_plan_conn *) b)->peer;

    return (left > right) - (left < right);
}

/* The letters to all neighbours, at most: CONNS are this rank's connections, and are sorted. */
static void letters_count(struct figures *figures, struct gpuring_plan_conn *conns, uint32_t rank,
                          uint32_t gpus)
{
    uint32_t same = 0;

    qsort(conns, figures->connections, sizeof(*conns), by_peer);
    for (uint32_t i = 0; i < figures->connections; i++) {
        same++;
        if (i + 1 == figures->connections || conns[i + 1].peer != conns[i].peer) {
            figures->letter_bytes +=
                gpuring_blob_room(same, (uint32_t) conns[i].peer / gpus != rank / gpus);
            figures->neighbours++;
            same = 0;
        }
    }
}

/* Builds the plans of RANK, and reckons up what it tells its neighbours. */
static int plans_build(struct figures *figures, const struct pci_connect *connect, uint32_t rank,
                       uint32_t gpus)
{
    static int (*const builders[])(int, int, const struct gpuring_channel *, uint32_t,
                                   struct gpuring_plan **) = {gpuring_plan_build_ring,
                                                              gpuring_plan_build_tree};
    uint32_t counts[] = {connect->agreed.rings, connect->agreed.trees};
    uint32_t most = counts[0] > counts[1] ? counts[0] : counts[1];
    struct gpuring_channel *places = calloc(most, sizeof(*places));
    struct gpuring_plan_conn *conns = NULL;
    int rc = places ? 0 : -ENOMEM;

    if (rc == 0) {
        places_fill(connect, rank, most, places);
    }
    for (size_t b = 0; rc == 0 && connect->nranks > 1 && b < 2; b++) {
        struct gpuring_plan_conn *grown;
        struct gpuring_plan *plan;
        size_t more;

        rc = builders[b]((int) rank, (int) connect->nranks, places, counts[b], &plan);
        if (rc != 0) {
            break;
        }
        more = plan->nrecvs + plan->nsends;
        figures->plan_bytes += plan_bytes(plan);
        grown = realloc(conns, (figures->connections + more + 1) * sizeof(*conns));
        if (grown) {
            conns = grown;
            memcpy(conns + figures->connections, plan->recvs, plan->nrecvs * sizeof(*conns));
            memcpy(conns + figures->connections + plan->nrecvs, plan->sends,
                   plan->nsends * sizeof(*conns));
            figures->connections += (uint32_t) more;
        } else {
            rc = -ENOMEM;
        }
        gpuring_plan_free(plan);
    }
    if (rc == 0) {
        letters_count(figures, conns, rank, gpus);
    }
    free(conns);
    free(places);
    return rc;
}

/* What AllGather 2 would bring, as it travels. */
static uint8_t *offers_make(const struct pci_wire *wires, uint32_t ranks, size_t *bytes)
{
    size_t each = gpuring_record_bytes(sizeof(struct gpuring_graph_offer));
    uint8_t *records = malloc(ranks * each);

    for (size_t r = 0; records && r < ranks; r++) {
        struct gpuring_graph_offer offer = {.wire = wires[r], .advice = 1};

        gpuring_record_put(records + r * each, (int) r, &offer, sizeof(offer));
    }
    *bytes = ranks * each;
    return records;
}

/* What AllGather 2 brought -> WIRES, as the component does. */
static int offers_consume(struct figures *figures, struct pci_wire *wires)
{
    struct gpuring_gathered offers = {0};
    size_t bytes;
    uint8_t *records = offers_make(wires, figures->ranks, &bytes);

    figures->wire_bytes = bytes;
    memset(wires, 0, figures->ranks * sizeof(*wires));
    if (!records || gpuring_gathered_take(&offers, (int) figures->ranks, records, bytes) != 0) {
        free(records);
        return -ENOMEM;
    }
    for (uint32_t r = 0; r < figures->ranks; r++) {
        const struct gpuring_graph_offer *offer = gpuring_gathered_block(&offers, (int) r);

        wires[r] = offer->wire;
    }
    gpuring_gathered_clear(&offers);
    return 0;
}

/* As a rank does after AllGather 2. */
static int wires_consume(const struct topo_machine *machine, struct figures *figures)
{
    struct pci_connect connect = {0};
    struct pci_error error = {""};
    struct pci_wire *wires;
    uint32_t gpus = machine->gpus, rank = figures->nodes / 2 * gpus + gpus - 1;
    double since;
    int rc = topo_wires_make(machine, figures->nodes, &wires);

    if (rc != 0) {
        return rc;
    }
    since = cpu_ms();
    rc = offers_consume(figures, wires);
    if (rc == 0) {
        rc = pci_connect_init(&connect, wires, figures->ranks, &error);
    }
    figures->connect_ms = cpu_ms() - since;
    figures->rings = connect.agreed.rings;
    figures->trees = connect.agreed.trees;
    since = cpu_ms();
    if (rc == 0) {
        rc = plans_build(figures, &connect, rank, gpus);
    }
    figures->plan_ms = cpu_ms() - since;
    pci_connect_fini(&connect);
    free(wires);
    return rc;
}

static void job_run(const struct topo_machine *machine, struct figures *figures)
{
    double before = resident_mib();

    figures->ranks = figures->nodes * machine->gpus;
    figures->rc = hellos_consume(machine, figures);
    if (figures->rc == 0) {
        figures->rc = wires_consume(machine, figures);
    }
    figures->memory_mib = resident_mib() - before;
}

/* In a process of its own.  Returns 0, or a negative errno value. */
static int job_measure(const struct topo_machine *machine, uint32_t nodes, struct figures *figures)
{
    int ends[2], status;
    ssize_t got = 0;
    pid_t child;

    memset(figures, 0, sizeof(*figures));
    figures->nodes = nodes;
    if (pipe(ends) != 0) {
        return -errno;
    }
    child = fork();
    if (child == 0) {
        job_run(machine, figures);
        _exit(write(ends[1], figures, sizeof(*figures)) == sizeof(*figures) ? 0 : 1);
    }
    close(ends[1]);
    if (child > 0) {
        do {
            got = read(ends[0], figures, sizeof(*figures));
        } while (got < 0 && errno == EINTR);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
    }
    close(ends[0]);
    if (child < 0) {
        return -EAGAIN;
    }
    return got == sizeof(*figures) ? figures->rc : -ENOMEM; /* killed: no memory, most likely */
}

static void text_row(FILE *out, const struct figures *f)
{
    fprintf(out, "%7" PRIu32 " %8" PRIu32 " %6" PRIu32 " %6" PRIu32 " %10.2f %10.2f %10.2f",
            f->nodes, f->ranks, f->rings, f->trees, (double) f->hello_bytes / 0x100000,
            (double) f->wire_bytes / 0x100000, (double) f->letter_bytes / 0x400);
    fprintf(out, " %11.2f %11.2f %9.2f %9.2f %6" PRIu32 " %6" PRIu32 " %11.1f\n", f->compare_ms,
            f->connect_ms, f->plan_ms, (double) f->plan_bytes / 0x100000, f->connections,
            f->neighbours, f->memory_mib);
}

static void text_head(FILE *out, const struct topo_machine *machine)
{
    fprintf(out,
            "One rank's start of a job on copies of %s (%" PRIu32 " GPUs): MiB gathered, CPU ms, "
            "memory\n%7s %8s %6s %6s %10s %10s %10s %11s %11s %9s %9s %6s %6s %11s\n",
            machine->name, machine->gpus, "nodes", "ranks", "rings", "trees", "who MiB",
            "chans MiB", "told KiB", "compare ms", "connect ms", "plans ms", "plans MiB", "conns",
            "peers", "memory MiB");
}

static json_t *json_row(const struct figures *f)
{
    return json_pack(
        "{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:f,s:f,s:f}", "nodes", (json_int_t) f->nodes,
        "ranks", (json_int_t) f->ranks, "rings", (json_int_t) f->rings, "trees",
        (json_int_t) f->trees, "hello_bytes", (json_int_t) f->hello_bytes, "wire_bytes",
        (json_int_t) f->wire_bytes, "letter_bytes", (json_int_t) f->letter_bytes, "neighbours",
        (json_int_t) f->neighbours, "plan_bytes", (json_int_t) f->plan_bytes, "connections",
        (json_int_t) f->connections, "compare_ms", f->compare_ms, "connect_ms", f->connect_ms,
        "plan_ms", f->plan_ms, "memory_mib", f->memory_mib);
}

static int failed(uint32_t nodes, int rc)
{
    topo_message("%" PRIu32 " nodes: %s", nodes, strerror(-rc));
    return TOPO_EXIT_FAILURE;
}

int topo_simulate_print(FILE *out, const struct topo_machine *machine)
{
    const struct topo_options *options = machine->options;
    size_t count = options->nodes_given ? 1 : sizeof(jobs_default) / sizeof(jobs_default[0]);
    int json = options->format == TOPO_JSON, rc = 0;
    json_t *list = json_array();

    if (machine->gpus == 0) {
        topo_message("%s has no GPU; name a machine that has some by --topo FILE", machine->name);
        json_decref(list);
        return TOPO_EXIT_FAILURE;
    }
    if (!json) {
        text_head(out, machine);
    }
    for (size_t i = 0; rc == 0 && i < count; i++) {
        uint32_t nodes = options->nodes_given ? options->nodes : jobs_default[i];
        struct figures figures;

        rc = job_measure(machine, nodes, &figures);
        if (rc != 0) {
            json_decref(list);
            return failed(nodes, rc);
        }
        if (json) {
            json_array_append_new(list, json_row(&figures));
        } else {
            text_row(out, &figures);
        }
    }
    if (json && json_dumpf(list, out, JSON_COMPACT | JSON_REAL_PRECISION(9)) != 0) {
        rc = -ENOMEM;
    }
    fputs(json ? "\n" : "", out);
    json_decref(list);
    return rc == 0 ? TOPO_EXIT_OK : failed(0, rc);
}
