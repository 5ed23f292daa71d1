/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * shortage RANK each|order|addresses|beyond|overcommit [LOG]: calls that are staged while this rank
 * alone has no host memory. Every call ends on all ranks; an error of that rank says that memory
 * lacks and leaves its buffers alone; the other ranks get NaN where its data would be, and nothing
 * else is wrong. With coll_gpuring_agree=always all ranks return that error.
 *
 *   each        every collective, form and layout, on all ranks, between groups and of neighbours,
 *               with addresses in types, and MPI_Reduce_local: each call for memory fails once,
 * then all do order       non-blocking calls that ranks start in different order addresses   a
 * limit on them (ulimit -v); 64 MiB beyond      the same, and a call that is larger than what is
 * kept of them: with agree=always overcommit  no writable private mappings, as with
 * vm.overcommit_memory=2; also in chunks
 *
 * Needs scarce.la preloaded, and a driver that refuses pinned memory.
 */
#include "shortage.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "scarce.h"

#define MIB   ((size_t) 1 << 20)
#define SLACK (16 * MIB) /* what a rank under its limit has for Open MPI */

int failing;
bool together;
double *gpu_send, *gpu_receive;
void (*arm)(long);
long (*disarm)(void);
static void (*refuse)(int);

void keep_first(int *status, int next)
{
    *status = *status == MPI_SUCCESS ? next : *status;
}

/* The call to its end; a persistent one twice, unless it fails: Open MPI frees the request then. In
 * place the second would go on with the result of the first. The first error of all. */
int complete(struct call *x, const struct collective *what)
{
    bool twice = (what->flags & ROOTED) != 0 || x->send != MPI_IN_PLACE;
    int starts = x->form != PERSISTENT ? 0 : twice ? 2 : 1, status = what->call(x);

    for (int i = 0; status == MPI_SUCCESS && i < starts; i++) {
        status = MPI_Start(&x->request);
        keep_first(&status, MPI_Wait(&x->request, MPI_STATUS_IGNORE));
        if (place_told(status, failing) != MPI_SUCCESS) {
            break;
        }
    }
    if (x->form == NONBLOCKING && status == MPI_SUCCESS) {
        status = MPI_Wait(&x->request, MPI_STATUS_IGNORE);
    }
    if (x->form == PERSISTENT && x->request != MPI_REQUEST_NULL) {
        keep_first(&status, MPI_Request_free(&x->request));
    }
    return status;
}

/* Is that what this rank returns, if the failing one lacks memory? */
bool good_status(int status, bool lacks)
{
    if (status != MPI_SUCCESS) {
        MPI_Error_class(status, &status);
    }
    return lacks && (together || harness_rank == failing) ? status == MPI_ERR_NO_MEM
                                                          : status == MPI_SUCCESS;
}

/* A gathering of so many bytes on each rank; returns its status. */
static int gather(double *send, double *all, size_t bytes, MPI_Comm comm, MPI_Request *request)
{
    int count = (int) (bytes / sizeof *send);

    return request == NULL
               ? MPI_Allgather(send, count, MPI_DOUBLE, all, count, MPI_DOUBLE, comm)
               : MPI_Iallgather(send, count, MPI_DOUBLE, all, count, MPI_DOUBLE, comm, request);
}

/* The failing rank starts two calls before it waits; the others end one before they start the
 * other. */
static void order(void)
{
    size_t bytes = COUNT * sizeof(double), half = AREA / 2;
    MPI_Request request[2];
    MPI_Comm comm[2];
    int status[2];
    bool good;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm[0]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm[1]);
    for (int round = 0; round < 2; round++) { /* the first with memory */
        if (harness_rank == failing) {
            arm(round == 0 ? 0 : -1);
        }
        for (int i = 0; i < 2; i++) {
            int k = harness_rank == failing ? i : 1 - i;

            status[k] =
                gather(gpu_send, gpu_receive + (size_t) k * half, bytes, comm[k], &request[k]);
            if (harness_rank != failing) {
                keep_first(&status[k], MPI_Wait(&request[k], MPI_STATUS_IGNORE));
            }
        }
        for (int k = 0; k < 2 && harness_rank == failing; k++) {
            keep_first(&status[k], MPI_Wait(&request[k], MPI_STATUS_IGNORE));
        }
        disarm();
        good = status[0] == MPI_SUCCESS && status[1] == MPI_SUCCESS;
        harness_check(good || (round == 1 && (together || harness_rank == failing)),
                      "calls in different order, %s memory", round == 0 ? "with" : "without");
    }
    MPI_Comm_free(&comm[0]);
    MPI_Comm_free(&comm[1]);
}

/* The log would come between the lines of the checks. */
static void put_log_into(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);

    if (fd < 0 || dup2(fd, STDERR_FILENO) < 0) {
        printf("Bail out! cannot write %s\n", path);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

static size_t address_space(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (file == NULL || fscanf(file, "%lu", &pages) != 1) {
        printf("Bail out! cannot read /proc/self/statm\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (file != NULL) {
        fclose(file);
    }
    return pages * (size_t) sysconf(_SC_PAGESIZE);
}

static void limit_addresses(bool on)
{
    struct rlimit limit;

    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = on ? address_space() + SLACK : limit.rlim_max;
    setrlimit(RLIMIT_AS, &limit);
}

static double element(int rank, size_t i, int round)
{
    return (double) (i + 17) * (double) (rank + 1) + round;
}

/* The blocks of all ranks but the failing one, if its data is void. */
static bool gathered(const double *host, size_t count, int round, bool is_void)
{
    for (int rank = 0; rank < harness_size; rank++) {
        for (size_t i = 0; i < count && !(is_void && rank == failing); i += 509) {
            if (host[(size_t) rank * count + i] != element(rank, i, round)) {
                printf("# rank %d: element %zu of rank %d is %f\n", harness_rank, i, rank,
                       host[(size_t) rank * count + i]);
                return false;
            }
        }
    }
    return true;
}

/* Large gatherings, non-blocking as these do not go in chunks: with memory, without (as `switched`
 * makes it), and with memory again. */
static void large(size_t bytes, void (*switched)(bool on), const char *text)
{
    size_t one = bytes / (size_t) harness_size / sizeof(double) * sizeof(double);
    size_t count = one / sizeof(double);
    double *send = harness_alloc(one), *all = harness_alloc(bytes), *host = malloc(bytes);
    MPI_Request request = MPI_REQUEST_NULL;
    int status, class;

    if (host == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 2);
        return;
    }
    (void) gather(gpu_send, gpu_receive, sizeof(double), MPI_COMM_WORLD, NULL);
    for (int round = 0; round < 2; round++) {
        bool lacks = round == 0;

        for (size_t i = 0; i < count; i++) {
            host[i] = element(harness_rank, i, round);
        }
        harness_write(send, host, one);
        if (lacks && harness_rank == failing) {
            switched(true);
        }
        status = gather(send, all, one, MPI_COMM_WORLD, &request);
        keep_first(&status, MPI_Wait(&request, MPI_STATUS_IGNORE));
        if (lacks && harness_rank == failing) {
            switched(false);
        }
        MPI_Error_class(status, &class);
        harness_read(host, all, bytes);
        harness_check(good_status(class, lacks) &&
                          (class != MPI_SUCCESS || gathered(host, count, round, lacks)),
                      "%zu bytes, %s%s", bytes, text, lacks ? "" : ": and afterwards");
    }
    harness_free(send);
    harness_free(all);
    free(host);
}

/* Nobody waits: so much that there are no addresses either, alone. */
static void alone(size_t bytes)
{
    double *send = harness_alloc(bytes), *all = harness_alloc(bytes);
    int class = MPI_ERR_NO_MEM;

    if (harness_rank == failing) {
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        limit_addresses(true);
        MPI_Error_class(gather(send, all, bytes, MPI_COMM_SELF, NULL), &class);
        limit_addresses(false);
    }
    harness_check(class == MPI_ERR_NO_MEM, "an error where there are no addresses either");
    harness_free(send);
    harness_free(all);
}

/* An exchange that all ranks agree on before it begins, in a form for which they can: without
 * addresses at one rank it is an error on all. Its counts are not known to all, so it is not cut.
 */
static void beyond(enum form form, size_t bytes)
{
    static const char *const forms[FORMS] = {[BLOCKING] = "blocking", [PERSISTENT] = "persistent"};
    double *send = harness_alloc(bytes), *all = harness_alloc(bytes);
    const struct collective *what = collectives;
    struct place places[PLACES];
    struct call x;
    int status, count = (int) (bytes / sizeof *all) / harness_size;

    places_open(places);
    x = place_call(&places[0], form, MPI_DOUBLE, MPI_DOUBLE, false);
    x.send = send;
    x.receive = all;
    for (int i = 0; i < harness_size; i++) {
        x.s_counts[i] = x.r_counts[i] = count;
        x.s_displs[i] = x.r_displs[i] = i * count;
    }
    while (strcmp(what->name, "alltoallv") != 0) {
        what++;
    }
    if (harness_rank == failing) {
        limit_addresses(true);
    }
    status = complete(&x, what);
    if (harness_rank == failing) {
        limit_addresses(false);
    }
    harness_check(good_status(status, true), "%zu bytes, without addresses, %s", bytes,
                  forms[form]);
    harness_check(complete(&x, what) == MPI_SUCCESS, "and with addresses again");
    places_close(places);
    harness_free(send);
    harness_free(all);
}

static void refuse_private(bool on)
{
    refuse(on);
}

/* In chunks all ranks get to know of it. */
static void chunks(size_t bytes)
{
    double *data = harness_alloc(bytes);
    int class;

    refuse_private(harness_rank == failing);
    MPI_Error_class(MPI_Bcast(data, (int) (bytes / sizeof *data), MPI_DOUBLE, 0, MPI_COMM_WORLD),
                    &class);
    refuse_private(false);
    harness_check(class == MPI_ERR_NO_MEM, "a call in chunks is an error on all ranks");
    harness_free(data);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 2 ? argv[2] : "", *agree;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    if (argc > 3) {
        put_log_into(argv[3]);
    }
    failing = argc > 1 ? atoi(argv[1]) % harness_size : 0;
    agree = getenv("OMPI_MCA_coll_gpuring_agree");
    together = agree != NULL && strcmp(agree, "always") == 0;
    *(void **) &arm = dlsym(RTLD_DEFAULT, "scarce_arm");
    *(void **) &disarm = dlsym(RTLD_DEFAULT, "scarce_disarm");
    *(void **) &refuse = dlsym(RTLD_DEFAULT, "scarce_refuse_private");
    harness_check(arm != NULL && disarm != NULL && refuse != NULL && harness_size <= PEERS,
                  "the library that fails is loaded");
    if (arm == NULL || disarm == NULL || refuse == NULL || harness_size > PEERS) {
        return harness_finish();
    }
    gpu_send = harness_alloc(AREA * sizeof *gpu_send);
    gpu_receive = harness_alloc(AREA * sizeof *gpu_receive);
    if (strcmp(mode, "each") == 0) {
        each();
    } else if (strcmp(mode, "order") == 0) {
        order();
    } else if (strcmp(mode, "addresses") == 0) {
        large(64 * MIB, limit_addresses, "under a limit on addresses");
        alone(96 * MIB);
    } else if (strcmp(mode, "beyond") == 0) {
        large(64 * MIB, limit_addresses, "under a limit on addresses");
        beyond(BLOCKING, 96 * MIB);
        beyond(PERSISTENT, 96 * MIB);
    } else if (strcmp(mode, "overcommit") == 0) {
        large(24 * MIB, refuse_private, "without writable private memory");
        chunks(4 * MIB);
    }
    harness_free(gpu_send);
    harness_free(gpu_receive);
    return harness_finish();
}
