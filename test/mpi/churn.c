/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Create and free communicators of all kinds while calls are in progress on them and on others, and
 * while messages of the program with wildcards, probes and cancelled receives use the same
 * communicators. Every result is checked. All ranks draw the same calls from the seed and complete
 * them in different orders.
 *
 *   churn [-s SEED] [-c STEPS] [-u]
 *   churn -d COUNT
 *
 * -d: create, use and free COUNT duplicates. All of them must use the connections of the first one.
 * Also leave a communicator with a persistent request to MPI_Finalize.
 * -u: use each communicator before it may be freed. With coll_gpuring_connect_after, also check
 * which of a communicator's first calls are served.
 */
#include "harness.h"

#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMS    6
#define WINDOW   6   /* maximum calls in flight */
#define MOST     900 /* maximum elements */
#define TOGETHER 6

struct place {
    MPI_Comm comm; /* MPI_COMM_NULL: none, or this rank is not in it */
    MPI_Comm copy; /* of MPI_Comm_idup, which is in flight while `copying` is not null */
    MPI_Request copying;
    int size, rank;
    long sum; /* sum of its ranks' numbers in MPI_COMM_WORLD */
};

struct call {
    MPI_Request request;
    struct place *place;
    int count, number;
    double in[MOST], out[MOST];
};

static struct place places[COMMS];
static struct call calls[WINDOW];
static uint64_t shared, own; /* states of the random numbers: of all ranks, of this one */
static int key, freed;
static bool good = true, use_all;

static unsigned draw(uint64_t *state, unsigned below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned) (*state >> 33) % below;
}

static void expect(bool right, const char *what, int number)
{
    if (!right && good) {
        good = false;
        printf("# rank %d, step %d: %s\n", harness_rank, number, what);
    }
}

static void finish(struct call *call)
{
    const struct place *place = call->place;
    bool right = true;

    if (call->request == MPI_REQUEST_NULL) {
        return;
    }
    expect(MPI_Wait(&call->request, MPI_STATUS_IGNORE) == MPI_SUCCESS, "a request failed",
           call->number);
    for (int i = 0; i < call->count; i++) {
        right = right && call->out[i] == (double) (place->sum + (long) place->size * (i % 7));
    }
    expect(right, "wrong result of a call with a request", call->number);
}

static void finish_all(void)
{
    for (unsigned i = 0, first = draw(&own, WINDOW); i < WINDOW; i++) {
        finish(&calls[(first + i) % WINDOW]);
    }
}

/* Check that a communicator still works in a delete callback, when it is being freed. */
static int when_freed(MPI_Comm comm, int keyval, void *value, void *extra)
{
    int one = 1, all = 0, size;

    (void) keyval;
    (void) value;
    (void) extra;
    MPI_Comm_size(comm, &size);
    MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, comm);
    expect(all == size, "wrong result in an attribute's callback", -1);
    freed++;
    return MPI_SUCCESS;
}

static void describe(struct place *place, MPI_Comm comm)
{
    MPI_Group group, world;
    int rank, one = 1, all = 0;

    *place =
        (struct place){.comm = comm, .copy = MPI_COMM_NULL, .copying = MPI_REQUEST_NULL, .size = 0};
    if (comm == MPI_COMM_NULL) {
        return;
    }
    MPI_Comm_size(comm, &place->size);
    MPI_Comm_rank(comm, &place->rank);
    MPI_Comm_group(comm, &group);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int i = 0; i < place->size; i++) {
        MPI_Group_translate_ranks(group, 1, &i, world, &rank);
        place->sum += rank;
    }
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    if (use_all) {
        MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, comm);
        expect(all == place->size, "wrong result of the first call", -1);
    }
    MPI_Comm_set_attr(comm, key, NULL);
}

static MPI_Comm of_group(void)
{
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Group world, part;
    int without = (int) draw(&shared, (unsigned) harness_size);

    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_excl(world, harness_size > 1, &without, &part);
    if (harness_rank != without || harness_size == 1) {
        MPI_Comm_create_group(MPI_COMM_WORLD, part, 17, &comm);
    }
    MPI_Group_free(&part);
    MPI_Group_free(&world);
    return comm;
}

static MPI_Comm of_topology(bool grid)
{
    int dims[2] = {0}, periods[2] = {1, 0}, weight = 1;
    int before = (harness_rank + harness_size - 1) % harness_size;
    int next = (harness_rank + 1) % harness_size;
    MPI_Comm comm;

    if (grid) {
        MPI_Dims_create(harness_size, 2, dims);
        MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &comm);
    } else {
        MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, &weight, 1, &next, &weight,
                                       MPI_INFO_NULL, 1, &comm);
    }
    return comm;
}

/* Make an intercommunicator of two halves, and merge it with the later ranks first. */
static MPI_Comm of_halves(void)
{
    int half = harness_rank >= harness_size / 2;
    MPI_Comm mine, both, merged;

    if (harness_size == 1) {
        return MPI_COMM_NULL;
    }
    MPI_Comm_split(MPI_COMM_WORLD, half, 0, &mine);
    MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, half ? 0 : harness_size / 2, 3, &both);
    MPI_Intercomm_merge(both, !half, &merged);
    MPI_Comm_free(&both);
    MPI_Comm_free(&mine);
    return merged;
}

static MPI_Comm make(void)
{
    MPI_Comm comm = MPI_COMM_NULL;

    switch (draw(&shared, 7)) {
    case 0:
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        break;
    case 1:
        MPI_Comm_split(MPI_COMM_WORLD, harness_rank % 2, -harness_rank, &comm);
        break;
    case 2:
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm);
        break;
    case 3:
        comm = of_group();
        break;
    case 4:
        comm = of_topology(true);
        break;
    case 5:
        comm = of_topology(false);
        break;
    default:
        comm = of_halves();
        break;
    }
    return comm;
}

static void end_copy(struct place *place, int number)
{
    int one = 1, all = 0;

    if (place->copying == MPI_REQUEST_NULL) {
        return;
    }
    MPI_Wait(&place->copying, MPI_STATUS_IGNORE);
    MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, place->copy);
    expect(all == place->size, "wrong result on a copy", number);
    MPI_Comm_free(&place->copy);
}

static void renew(struct place *place, int number)
{
    end_copy(place, number);
    finish_all();
    if (place->comm != MPI_COMM_NULL) {
        MPI_Comm_free(&place->comm);
    }
    describe(place, make());
}

static void blocking(const struct place *place, int number)
{
    static double in[MOST], out[MOST];
    int count = 1 + (int) draw(&shared, MOST);
    bool right = true;

    if (place->comm == MPI_COMM_NULL) {
        return;
    }
    for (int i = 0; i < count; i++) {
        in[i] = harness_rank + i % 7;
    }
    MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, place->comm);
    for (int i = 0; i < count; i++) {
        right = right && out[i] == (double) (place->sum + (long) place->size * (i % 7));
    }
    expect(right, "wrong result of a blocking call", number);
}

static void nonblocking(struct place *place, int number)
{
    struct call *call = &calls[draw(&shared, WINDOW)];
    int count = 1 + (int) draw(&shared, MOST);

    finish(call);
    end_copy(place, number); /* libnbc would mix up our calls and those of Open MPI 4.1 */
    if (place->comm == MPI_COMM_NULL) {
        return;
    }
    call->place = place;
    call->count = count;
    call->number = number;
    for (int i = 0; i < count; i++) {
        call->in[i] = harness_rank + i % 7;
    }
    MPI_Iallreduce(call->in, call->out, count, MPI_DOUBLE, MPI_SUM, place->comm, &call->request);
}

/* Exchange messages around a call: a receive with wildcards, a probe, and a cancelled receive. */
static void messages(const struct place *place, int number)
{
    int got = -1, never, next, flag, one = 1, all = 0;
    MPI_Request any, vain, sent;
    MPI_Status status;

    if (place->comm == MPI_COMM_NULL) {
        return;
    }
    next = (place->rank + 1) % place->size;
    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, place->comm, &any);
    MPI_Irecv(&never, 1, MPI_INT, MPI_ANY_SOURCE, 77, place->comm, &vain);
    MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, place->comm);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, place->comm, &flag, &status);
    MPI_Cancel(&vain);
    MPI_Wait(&vain, &status);
    MPI_Test_cancelled(&status, &flag);
    expect(flag != 0, "a receive took a message that was not for it", number);
    MPI_Isend(&number, 1, MPI_INT, next, 5, place->comm, &sent);
    MPI_Wait(&any, &status);
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    expect(all == place->size && got == number && status.MPI_TAG == 5 &&
               status.MPI_SOURCE == (place->rank + place->size - 1) % place->size,
           "wrong message", number);
}

static void step(int number)
{
    struct place *place = &places[draw(&shared, COMMS)];

    switch (draw(&shared, 8)) {
    case 0:
        renew(place, number);
        break;
    case 1:
        /* Have only one MPI_Comm_idup in flight. Open MPI 4.1 allocates the IDs of several in a
         * different order on each rank, and hangs if one rank waits for the second one while
         * another rank creates a communicator. */
        for (int i = 0; i < COMMS; i++) {
            end_copy(&places[i], number);
        }
        if (place->comm != MPI_COMM_NULL) {
            MPI_Comm_idup(place->comm, &place->copy, &place->copying);
        }
        break;
    case 2:
        messages(place, number);
        break;
    case 3:
    case 4:
        blocking(place, number);
        break;
    default:
        nonblocking(place, number);
        break;
    }
    if (draw(&own, 4) == 0) { /* some ranks progress pending calls, others do not */
        int flag;

        MPI_Iprobe(MPI_ANY_SOURCE, 78, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
}

/* Make an allreduce, and return true if it was served or delegated as expected. */
static bool is_served(MPI_Comm comm, int count, bool served)
{
    long long before = harness_pvar("coll_gpuring_calls");
    int *values = harness_alloc((size_t) count * sizeof *values), first = 1;

    harness_write(values, &first, sizeof first);
    expect(MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS,
           "an allreduce failed", count);
    harness_read(&first, values, sizeof first);
    harness_free(values);
    expect(first == harness_size, "a wrong sum", count);
    return harness_pvar("coll_gpuring_calls") - before == (served ? 1 : 0);
}

/* Check that `early` calls are delegated before the ranks connect, except for large ones. */
static void first_calls(int early)
{
    int value = 1, sum = 0;
    MPI_Request request;
    bool right = true;
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 1; i <= early; i++) {
        right = is_served(comm, 1, false) && right;
    }
    harness_check(right, "the first %d small calls are delegated", early);
    harness_check(is_served(comm, 1, true), "the next one is served");
    MPI_Comm_free(&comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    harness_check(is_served(comm, 256 * early, true), "a large first call is served");
    right = is_served(comm, 1, false);
    HARNESS_INIT(Allreduce)(&value, &sum, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request);
    for (int i = 3; i <= early; i++) {
        right = is_served(comm, 1, false) && right;
    }
    right = is_served(comm, 1, true) && right;
    harness_check(right, "small calls after it are delegated as if it had been small");
    MPI_Request_free(&request);
    MPI_Comm_free(&comm);
    harness_check(is_served(MPI_COMM_WORLD, 1, true), "MPI_COMM_WORLD is served from the start");
}

/* Return the number of mapped memory files of the host device. */
static int count_files(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[1024];
    int count = 0;

    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        count += strstr(line, "/memfd:") != NULL;
    }
    if (maps != NULL) {
        fclose(maps);
    }
    return count;
}

/* Duplicate MPI_COMM_WORLD, make calls of several kinds on the duplicate, and free it. In
 * one of them, some ranks use host memory if the others use a GPU. */
static bool use_duplicate(int number, void *in, void *out)
{
    static double host_in[MOST], host_out[MOST];
    int root = number % harness_size, count = number % MOST + 1, one = number, all[64] = {0};
    bool right = true;
    MPI_Comm comm;

    for (int i = 0; i < count; i++) {
        host_in[i] = harness_rank + i % 7 + number;
    }
    harness_write(in, host_in, (size_t) count * sizeof *host_in);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, comm);
    harness_read(host_out, out, (size_t) count * sizeof *host_out);
    for (int i = 0; i < count; i++) {
        right = right && host_out[i] == harness_size * (i % 7 + number + (harness_size - 1) / 2.0);
    }
    harness_write(in, &number, sizeof number);
    MPI_Bcast(in, 1, MPI_INT, root, comm);
    MPI_Bcast(harness_rank % 2 == number % 2 ? in : &one, 1, MPI_INT, root, comm);
    one = number + harness_rank;
    harness_write(in, &one, sizeof one);
    MPI_Allgather(in, 1, MPI_INT, out, 1, MPI_INT, comm);
    harness_read(all, out, (size_t) harness_size * sizeof *all);
    for (int i = 0; i < harness_size; i++) {
        right = right && all[i] == number + i;
    }
    MPI_Comm_free(&comm);
    return right;
}

/* Create a communicator and a persistent request on it, and free neither. MPI_Finalize must succeed
 * although the request keeps the connections. The call on MPI_COMM_WORLD wakes the progress thread
 * shortly before the component is closed. */
static void leave_request(void *in, void *out)
{
    MPI_Request request;
    MPI_Comm comm;
    bool right;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    right = HARNESS_INIT(Allreduce)(in, out, MOST, MPI_DOUBLE, MPI_SUM, comm, MPI_INFO_NULL,
                                    &request) == MPI_SUCCESS;
    right = right && MPI_Start(&request) == MPI_SUCCESS &&
            MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
            MPI_Allreduce(in, out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS;
    harness_check(right, "a communicator and a persistent request are never freed");
}

/* Free duplicates of MPI_COMM_WORLD before their only call has ended. On device memory of several
 * nodes, the ranks first agree on the call, and connect when MPI_Comm_free has returned. */
static bool free_early(int count, void *data)
{
    bool right = true;

    for (int i = 0; i < count; i++) {
        int number = harness_rank == i % harness_size ? i : -1;
        MPI_Request request;
        MPI_Comm comm;

        harness_write(data, &number, sizeof number);
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Ibcast(data, MOST, MPI_DOUBLE, i % harness_size, comm, &request);
        MPI_Comm_free(&comm);
        right = MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && right;
        harness_read(&number, data, sizeof number);
        right = right && number == i;
    }
    return right;
}

/* Duplicates that exist at the same time have separate connections, but their ranks gather nothing:
 * they use what earlier communicators have gathered. */
static void together(void *in, void *out)
{
    long long wireups = 0, gathered = 0;
    MPI_Comm comms[TOGETHER];
    bool right = true;

    for (int i = 0; i < 2 * TOGETHER; i++) {
        MPI_Comm *comm = &comms[i < TOGETHER ? i : 2 * TOGETHER - 1 - i];
        int number = i + harness_rank, sum = 0;

        if (i == 1) { /* the first one uses the connections of a freed communicator */
            wireups = harness_pvar("coll_gpuring_wireups");
            gathered = harness_pvar("coll_gpuring_gathered");
        }
        if (i < TOGETHER) {
            MPI_Comm_dup(MPI_COMM_WORLD, comm);
        }
        harness_write(in, &number, sizeof number);
        MPI_Allreduce(in, out, 1, MPI_INT, MPI_SUM, *comm);
        harness_read(&sum, out, sizeof sum);
        right = right && sum == harness_size * i + harness_size * (harness_size - 1) / 2;
        if (i >= TOGETHER) {
            MPI_Comm_free(comm);
        }
    }
    harness_check(right, "%d duplicates at the same time", TOGETHER);
    harness_check(harness_pvar("coll_gpuring_wireups") - wireups == TOGETHER - 1 &&
                      harness_pvar("coll_gpuring_gathered") == gathered,
                  "they are connected without gathering anything");
}

static void duplicates(int count)
{
    long long reused, wireups;
    void *in = harness_alloc(MOST * sizeof(double)), *out = harness_alloc(MOST * sizeof(double));
    size_t memory;
    int files;
    bool right = true;

    for (int i = 0; i < 8 * harness_size; i++) { /* plans for all roots exist afterwards */
        right = use_duplicate(i, in, out) && right;
    }
    reused = harness_pvar("coll_gpuring_reused");
    wireups = harness_pvar("coll_gpuring_wireups");
    files = count_files();
    memory = mallinfo2().uordblks;
    for (int i = 0; i < count; i++) {
        right = use_duplicate(i, in, out) && right;
    }
    harness_check(right, "%d duplicates", count);
    harness_check(harness_pvar("coll_gpuring_reused") - reused == count &&
                      harness_pvar("coll_gpuring_wireups") == wireups,
                  "all use the connections of the first one");
    harness_check(count_files() == files, "no memory was mapped for them");
    harness_check(mallinfo2().uordblks < memory + (64 << 10), "memory stays constant");
    if (harness_on_gpu()) { /* Open MPI's own components do not support this */
        right = free_early(4, in);
        memory = mallinfo2().uordblks;
        right = free_early(count, in) && right;
        harness_check(right && mallinfo2().uordblks < memory + (64 << 10),
                      "%d duplicates are freed before their calls end", count);
    }
    together(in, out);
    leave_request(in, out);
    harness_free(in);
    harness_free(out);
}

int main(int argc, char **argv)
{
    const char *early = getenv("OMPI_MCA_coll_gpuring_connect_after");
    uint64_t seed = 1;
    int steps = 300, option;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    while ((option = getopt(argc, argv, "s:c:ud:")) != -1) {
        switch (option) {
        case 'd':
            duplicates(atoi(optarg));
            return harness_finish();
        case 's':
            seed = strtoull(optarg, NULL, 0);
            break;
        case 'c':
            steps = atoi(optarg);
            break;
        case 'u':
            use_all = true;
            break;
        default:
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    shared = seed;
    own = seed * 31 + (uint64_t) harness_rank;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, when_freed, &key, NULL);
    for (int i = 0; i < WINDOW; i++) {
        calls[i].request = MPI_REQUEST_NULL;
    }
    for (int i = 0; i < COMMS; i++) {
        describe(&places[i], make());
    }
    for (int i = 0; i < steps; i++) {
        step(i);
    }
    for (int i = 0; i < COMMS; i++) {
        renew(&places[i], steps);
        if (places[i].comm != MPI_COMM_NULL) {
            MPI_Comm_free(&places[i].comm);
        }
    }
    harness_check(good && freed > COMMS, "%d steps, %d communicators freed, seed %llu", steps,
                  freed, (unsigned long long) seed);
    if (harness_have_component() && !harness_on_gpu() && steps >= 100) {
        harness_check(harness_pvar("coll_gpuring_calls") > steps / 8, "coll/gpuring served them");
    }
    MPI_Comm_free_keyval(&key);
    if (early != NULL && atoi(early) > 0) {
        first_calls(atoi(early));
    }
    return harness_finish();
}
