/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * shortage RANK each|order|addresses|overcommit [LOG]: calls that are staged while this rank alone
 * has no host memory. Every call ends on all ranks; an error of that rank says that memory lacks
 * and leaves its buffers alone; the other ranks get NaN where its data would be, and nothing else
 * is wrong.
 *
 *   each        every collective, form and layout: each call for memory fails once, then all do
 *   order       non-blocking calls that ranks start in different order
 *   addresses   a limit on them (ulimit -v); 64 MiB
 *   overcommit  no writable private mappings, as with vm.overcommit_memory=2; also in chunks
 *
 * Needs scarce.la preloaded, and a driver that refuses pinned memory.
 */
#include "harness.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "scarce.h"
#include "staged.h"

#define COUNT  6                                   /* elements of a block, at most */
#define EXTENT 36                                  /* of an element, in doubles */
#define AREA   ((size_t) (PEERS * COUNT * EXTENT)) /* doubles of a buffer */
#define MIB    ((size_t) 1 << 20)
#define SLACK  (16 * MIB) /* what a rank under its limit has for Open MPI */

static void (*arm)(long);
static long (*disarm)(void);
static void (*refuse)(int);

static int failing; /* the rank */
static double *gpu_send, *gpu_receive;
static double host_send[AREA], host_receive[AREA], before[AREA], seen[AREA];
static MPI_Datatype ragged; /* more pieces than are kept without memory */
static const int lengths[] = {1, 2, 3, 2, 1, 2, 1}, places[] = {0, 2, 7, 13, 18, 25, 33};
static MPI_Op sum;

static struct {
    long trials, failures, errors, wrong;
} total;

/* What one rank knows, on all: by messages, which do not go through what is tested. */
static long told(long value, int from)
{
    for (int to = 0; harness_rank == from && to < harness_size; to++) {
        if (to != from) {
            MPI_Send(&value, 1, MPI_LONG, to, 9, MPI_COMM_WORLD);
        }
    }
    if (harness_rank != from) {
        MPI_Recv(&value, 1, MPI_LONG, from, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return value;
}

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    int solid = *type != ragged, pieces = solid ? 1 : (int) (sizeof places / sizeof *places);
    const double *a = in;
    double *b = inout;

    for (int i = 0; i < *count; i++) {
        for (int k = 0; k < pieces; k++) {
            for (int l = 0; l < (solid ? 1 : lengths[k]); l++) {
                int at = solid ? i : i * EXTENT + places[k] + l;

                b[at] += a[at];
            }
        }
    }
}

static void make_types(void)
{
    MPI_Datatype pieces;

    MPI_Type_indexed(sizeof places / sizeof *places, lengths, places, MPI_DOUBLE, &pieces);
    MPI_Type_create_resized(pieces, 0, EXTENT * (MPI_Aint) sizeof(double), &ragged);
    MPI_Type_commit(&ragged);
    MPI_Type_free(&pieces);
    MPI_Op_create(add, 1, &sum);
}

static struct call prepare(enum form form, MPI_Datatype type)
{
    int extent = type == ragged ? EXTENT : 1;
    struct call x = {.form = form,
                     .comm = MPI_COMM_WORLD,
                     .rank = harness_rank,
                     .size = harness_size,
                     .sources = harness_size,
                     .targets = harness_size,
                     .root = failing,
                     .root_here = harness_rank == failing,
                     .type = type,
                     .op = sum,
                     .count = COUNT,
                     .part = 2,
                     .give = 1 + harness_rank % COUNT};

    for (int i = 0; i < harness_size; i++) {
        x.parts[i] = 2;
        x.from_counts[i] = 1 + i % COUNT;
        x.from_displs[i] = x.s_displs[i] = x.r_displs[i] = i * COUNT;
        x.s_counts[i] = x.r_counts[i] = 1 + (i + harness_rank) % 3;
        x.s_bytes[i] = x.r_bytes[i] = i * COUNT * extent * (int) sizeof(double);
        x.s_types[i] = x.r_types[i] = type;
    }
    return x;
}

static void keep_first(int *status, int next)
{
    *status = *status == MPI_SUCCESS ? next : *status;
}

/* The call to its end; a persistent one twice, unless it fails: Open MPI frees the request then. In
 * place the second would go on with the result of the first. The first error of all. */
static int complete(struct call *x, const struct collective *what)
{
    bool twice = (what->flags & ROOTED) != 0 || x->send != MPI_IN_PLACE;
    int starts = x->form != PERSISTENT ? 0 : twice ? 2 : 1, status = what->call(x);

    for (int i = 0; status == MPI_SUCCESS && i < starts; i++) {
        status = MPI_Start(&x->request);
        keep_first(&status, MPI_Wait(&x->request, MPI_STATUS_IGNORE));
        if (told(status, failing) != MPI_SUCCESS) {
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

static void put_pattern(double *to, unsigned seed)
{
    for (size_t i = 0; i < AREA; i++) {
        to[i] = (double) ((i * 2654435761u + seed * 40503u) >> 7 & 0xffff);
    }
}

/* Is the result right; void: where the failing rank's data goes into it, it may be NaN. */
static bool good_result(bool is_void)
{
    harness_read(seen, gpu_receive, sizeof seen);
    if (is_void && harness_rank == failing) {
        return memcmp(seen, before, sizeof seen) == 0;
    }
    for (size_t i = 0; i < AREA; i++) {
        if (seen[i] != host_receive[i] && !(is_void && isnan(seen[i]))) {
            printf("# rank %d: element %zu is %f, not %f\n", harness_rank, i, seen[i],
                   host_receive[i]);
            return false;
        }
    }
    return true;
}

/* One call, on the host and on the GPU; call `number` for memory fails on the failing rank. The
 * number of calls that there were. */
static long trial(const struct collective *what, struct call x, bool in_place, long number)
{
    static unsigned seed;
    struct call reference = x;
    long counted = 0, lacks;
    int status;
    bool here = in_place && ((what->flags & ROOTED) == 0 || x.root_here);

    put_pattern(host_send, ++seed * 100 + (unsigned) harness_rank);
    put_pattern(host_receive, seed * 100 + 50 + (unsigned) harness_rank);
    memcpy(before, host_receive, sizeof before);
    harness_write(gpu_send, host_send, sizeof host_send);
    harness_write(gpu_receive, host_receive, sizeof host_receive);
    reference.send = here ? MPI_IN_PLACE : host_send;
    reference.receive = host_receive;
    x.send = here ? MPI_IN_PLACE : gpu_send;
    x.receive = gpu_receive;
    status = complete(&reference, what);
    if (harness_rank == failing) {
        arm(number);
    }
    keep_first(&status, complete(&x, what));
    if (harness_rank == failing) {
        counted = disarm();
    }
    lacks = told(status != MPI_SUCCESS, failing);
    if (status != MPI_SUCCESS) {
        MPI_Error_class(status, &status);
    }
    total.trials++;
    total.errors += lacks != 0;
    if ((status != MPI_SUCCESS && (harness_rank != failing || status != MPI_ERR_NO_MEM)) ||
        !good_result(lacks != 0)) {
        total.wrong++;
        printf("# rank %d: %s, form %d, %s, in place %d, call %ld for memory: status %d\n",
               harness_rank, what->name, (int) x.form, x.type == ragged ? "ragged" : "solid",
               in_place, number, status);
    }
    return told(counted, failing);
}

static void each_call(const struct collective *what, enum form form, MPI_Datatype type,
                      bool in_place)
{
    struct call x = prepare(form, type);
    long number = 1;

    while (trial(what, x, in_place, number) >= number) {
        total.failures++;
        number++;
    }
    (void) trial(what, x, in_place, -1);
    (void) trial(what, x, in_place, 0);
}

static void each(void)
{
    static const char *const forms[FORMS] = {"blocking", "non-blocking", "persistent"};

    for (int form = 0; form < FORMS; form++) {
        memset(&total, 0, sizeof total);
        for (const struct collective *what = collectives; what->name != NULL; what++) {
            if ((what->flags & NEIGHBORS) != 0) {
                continue;
            }
            each_call(what, (enum form) form, MPI_DOUBLE, false);
            each_call(what, (enum form) form, ragged,
                      (what->flags & (IN_PLACE | REDUCES)) == IN_PLACE);
        }
        harness_check(total.failures > 40 && total.errors > 40, "%s calls meet failures",
                      forms[form]);
        harness_check(total.wrong == 0,
                      "%s calls without memory: %ld trials, %ld failures, %ld errors at one rank",
                      forms[form], total.trials, total.failures, total.errors);
    }
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
        harness_check(good || (round == 1 && harness_rank == failing),
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
        harness_check(class == (lacks && harness_rank == failing ? MPI_ERR_NO_MEM : MPI_SUCCESS) &&
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
    const char *mode = argc > 2 ? argv[2] : "";

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    if (argc > 3) {
        put_log_into(argv[3]);
    }
    failing = argc > 1 ? atoi(argv[1]) % harness_size : 0;
    *(void **) &arm = dlsym(RTLD_DEFAULT, "scarce_arm");
    *(void **) &disarm = dlsym(RTLD_DEFAULT, "scarce_disarm");
    *(void **) &refuse = dlsym(RTLD_DEFAULT, "scarce_refuse_private");
    harness_check(arm != NULL && disarm != NULL && refuse != NULL && harness_size <= PEERS,
                  "the library that fails is loaded");
    if (arm == NULL || disarm == NULL || refuse == NULL || harness_size > PEERS) {
        return harness_finish();
    }
    make_types();
    gpu_send = harness_alloc(sizeof host_send);
    gpu_receive = harness_alloc(sizeof host_receive);
    if (strcmp(mode, "each") == 0) {
        each();
    } else if (strcmp(mode, "order") == 0) {
        order();
    } else if (strcmp(mode, "addresses") == 0) {
        large(64 * MIB, limit_addresses, "under a limit on addresses");
        alone(96 * MIB);
    } else if (strcmp(mode, "overcommit") == 0) {
        large(24 * MIB, refuse_private, "without writable private memory");
        chunks(4 * MIB);
    }
    harness_free(gpu_send);
    harness_free(gpu_receive);
    MPI_Type_free(&ragged);
    MPI_Op_free(&sum);
    return harness_finish();
}
