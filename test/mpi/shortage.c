/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * shortage RANK each|order|addresses|beyond|early|lent|overcommit [LOG]: calls that are staged
 * while this rank alone has no host memory. Every call ends on all ranks; an error of that rank
 * says that memory lacks and leaves its buffers alone; the other ranks get NaN where its data would
 * be, and nothing else is wrong. They return that error, too: in the same call or in their next
 * one, and with coll_gpuring_agree=always in the same.
 *
 *   each        every collective, form and layout, on all ranks, between groups and of neighbours,
 *               with addresses in types, and MPI_Reduce_local: each call for memory fails once,
 *               then all do
 *   order       non-blocking calls that ranks start in different order
 *   addresses   a limit on them (ulimit -v); 64 MiB
 *   beyond      calls of 24 MiB under that limit, more than is kept of addresses if
 *               coll_gpuring_stage_size is 1 MiB
 *   lent        the same, and a buffer in host memory at the others
 *   early       a call of 24 MiB under that limit, the first one of the process: it is kept before
 *   overcommit  no writable private mappings, as with vm.overcommit_memory=2; also in chunks
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

static int class_of(int status)
{
    if (status != MPI_SUCCESS) {
        MPI_Error_class(status, &status);
    }
    return status;
}

/* A gathering of so many bytes on each rank; returns its status. */
static int gather(double *send, double *all, size_t bytes, MPI_Comm comm, MPI_Request *request)
{
    int count = (int) (bytes / sizeof *send);

    return request == NULL
               ? MPI_Allgather(send, count, MPI_DOUBLE, all, count, MPI_DOUBLE, comm)
               : MPI_Iallgather(send, count, MPI_DOUBLE, all, count, MPI_DOUBLE, comm, request);
}

/* Without an agreement the others get a notice, which was sent before what place_told brings. */
bool good_status(int status, bool lacks, bool agreed, MPI_Comm comm)
{
    int next = MPI_SUCCESS;

    status = class_of(status);
    if (lacks) {
        (void) place_told(0, failing);
        next = class_of(gather(gpu_send, gpu_receive, sizeof(double), comm, NULL));
        if (!agreed && harness_rank != failing && status == MPI_SUCCESS) {
            status = next;
            next = MPI_SUCCESS;
        }
    }
    return status == (lacks ? MPI_ERR_NO_MEM : MPI_SUCCESS) && next == MPI_SUCCESS;
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
        good = good_status(status[0], round == 1, together, comm[0]);
        harness_check(good_status(status[1], round == 1, together, comm[1]) && good,
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
    bool good;

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
        good = class != MPI_SUCCESS || gathered(host, count, round, lacks);
        harness_check(good_status(class, lacks, together, MPI_COMM_WORLD) && good,
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

/* An exchange between all ranks, whose counts are not known to all, so that it is not cut. */
struct exchange {
    struct place places[PLACES];
    struct call x;
    double *send, *receive, *host;
    int count; /* from rank to rank */
};

static struct exchange *exchange_new(enum form form, size_t bytes)
{
    struct exchange *self = calloc(1, sizeof *self);

    if (self == NULL || (self->host = malloc(bytes)) == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 2);
        exit(2);
    }
    self->send = harness_alloc(bytes);
    self->receive = harness_alloc(bytes);
    self->count = (int) (bytes / sizeof *self->send) / harness_size;
    places_open(self->places);
    self->x = place_call(&self->places[0], form, MPI_DOUBLE, MPI_DOUBLE, false);
    self->x.send = self->send;
    self->x.receive = self->receive;
    for (int i = 0; i < harness_size; i++) {
        self->x.s_counts[i] = self->x.r_counts[i] = self->count;
        self->x.s_displs[i] = self->x.r_displs[i] = i * self->count;
    }
    return self;
}

static void exchange_free(struct exchange *self)
{
    places_close(self->places);
    harness_free(self->send);
    harness_free(self->receive);
    free(self->host);
    free(self);
}

/* Make the call; with limited addresses at the failing rank it must be that error. */
static bool exchanges(struct exchange *self, int round, bool limited)
{
    size_t bytes = (size_t) harness_size * (size_t) self->count * sizeof *self->host;
    const struct collective *what = collectives;
    int status;

    while (strcmp(what->name, "alltoallv") != 0) {
        what++;
    }
    for (size_t i = 0; i < bytes / sizeof *self->host; i++) {
        self->host[i] = element(harness_rank, i % (size_t) self->count, round);
    }
    harness_write(self->send, self->host, bytes);
    if (limited && harness_rank == failing) {
        limit_addresses(true);
    }
    status = complete(&self->x, what);
    if (limited && harness_rank == failing) {
        limit_addresses(false);
    }
    harness_read(self->host, self->receive, bytes);
    return good_status(status, limited, together, self->x.comm) &&
           (limited || gathered(self->host, (size_t) self->count, round, false));
}

/* A rank has no addresses for a call, so that it cannot take part: an error on all ranks. What the
 * others wait for must not meet the calls that follow. */
static void beyond(enum form form, size_t bytes)
{
    static const char *const forms[FORMS] = {"blocking", "non-blocking", "persistent"};
    struct exchange *self = exchange_new(form, bytes);
    bool good = true;

    harness_check(exchanges(self, 1, false), "%zu bytes, %s", bytes, forms[form]);
    harness_check(exchanges(self, 2, true), "%zu bytes, without addresses, %s", bytes, forms[form]);
    harness_check(exchanges(self, 3, false), "and with addresses again");
    for (int next = 0; next < FORMS; next++) {
        self->x.form = (enum form) next;
        good = exchanges(self, 4 + next, false) && good;
    }
    harness_check(good, "and in all forms");
    exchange_free(self);
}

/* The first staged call of the processes: what it takes addresses from was kept before. */
static void early(size_t bytes)
{
    struct exchange *self = exchange_new(BLOCKING, bytes);

    harness_check(exchanges(self, 1, true), "%zu bytes, under a limit from the first call on",
                  bytes);
    harness_check(exchanges(self, 2, false), "and afterwards");
    exchange_free(self);
}

/* Such a call between two others, all under way. */
static void between(size_t bytes)
{
    struct exchange *self = exchange_new(NONBLOCKING, bytes);
    const int *counts = self->x.s_counts, *displs = self->x.s_displs;
    MPI_Request request[3];
    int status[3];
    bool good;

    status[0] = gather(gpu_send, gpu_receive, sizeof(double), self->x.comm, &request[0]);
    if (harness_rank == failing) {
        limit_addresses(true);
    }
    status[1] = MPI_Ialltoallv(self->send, counts, displs, MPI_DOUBLE, self->receive, counts,
                               displs, MPI_DOUBLE, self->x.comm, &request[1]);
    if (harness_rank == failing) {
        limit_addresses(false);
    }
    status[2] = gather(gpu_send, gpu_receive + AREA / 2, sizeof(double), self->x.comm, &request[2]);
    for (int i = 0; i < 3; i++) {
        int k = (i + harness_rank) % 3;

        keep_first(&status[k], MPI_Wait(&request[k], MPI_STATUS_IGNORE));
    }
    good = good_status(status[1], true, together, self->x.comm);
    harness_check(status[0] == MPI_SUCCESS && good && status[2] == MPI_SUCCESS,
                  "a call without addresses between two others");
    exchange_free(self);
}

/* The others receive into host memory, which is theirs again after an error: so they go on waiting,
 * to the end of the program. */
static void lent(size_t bytes)
{
    struct exchange *self = exchange_new(NONBLOCKING, bytes);
    const int *counts = self->x.s_counts, *displs = self->x.s_displs;
    void *receive = harness_rank == failing ? self->receive : self->host;
    double until = MPI_Wtime() + 2;
    MPI_Request request;
    int status, ended = 0;

    if (harness_rank == failing) {
        limit_addresses(true);
    }
    status = MPI_Ialltoallv(self->send, counts, displs, MPI_DOUBLE, receive, counts, displs,
                            MPI_DOUBLE, self->x.comm, &request);
    if (harness_rank == failing) {
        limit_addresses(false);
    }
    while (!ended && MPI_Wtime() < until) {
        keep_first(&status, MPI_Test(&request, &ended, MPI_STATUS_IGNORE));
    }
    harness_check(harness_rank == failing ? class_of(status) == MPI_ERR_NO_MEM : !ended,
                  "who lends the call a buffer in host memory does not get it back");
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
        if (together) { /* else the others wait for a blocking call, in another component */
            beyond(BLOCKING, 24 * MIB);
        }
        beyond(NONBLOCKING, 24 * MIB);
        beyond(PERSISTENT, 24 * MIB);
        between(24 * MIB);
    } else if (strcmp(mode, "early") == 0) {
        early(24 * MIB);
    } else if (strcmp(mode, "lent") == 0) {
        lent(24 * MIB);
    } else if (strcmp(mode, "overcommit") == 0) {
        large(24 * MIB, refuse_private, "without writable private memory");
        chunks(4 * MIB);
    }
    harness_free(gpu_send);
    harness_free(gpu_receive);
    return harness_finish();
}
