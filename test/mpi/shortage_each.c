/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Every staged collective while one rank lacks memory; see shortage.c. */
#include "shortage.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double host_send[AREA], host_receive[AREA], before[AREA], seen[AREA];
static MPI_Datatype ragged; /* more pieces than are kept without memory */
static const int lengths[] = {1, 2, 3, 2, 1, 2, 1}, offsets[] = {0, 2, 7, 13, 18, 25, 33};
static MPI_Op sum;

static struct {
    long trials, failures, errors, wrong;
} total;

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    int solid = *type != ragged, pieces = solid ? 1 : (int) (sizeof offsets / sizeof *offsets);
    const double *a = in;
    double *b = inout;

    for (int i = 0; i < *count; i++) {
        for (int k = 0; k < pieces; k++) {
            for (int l = 0; l < (solid ? 1 : lengths[k]); l++) {
                int at = solid ? i : i * EXTENT + offsets[k] + l;

                b[at] += a[at];
            }
        }
    }
}

static void make_types(void)
{
    MPI_Datatype pieces;

    MPI_Type_indexed(sizeof offsets / sizeof *offsets, lengths, offsets, MPI_DOUBLE, &pieces);
    MPI_Type_create_resized(pieces, 0, EXTENT * (MPI_Aint) sizeof(double), &ragged);
    MPI_Type_commit(&ragged);
    MPI_Type_free(&pieces);
    MPI_Op_create(add, 1, &sum);
}

static struct call prepare(const struct place *place, enum form form, MPI_Datatype type)
{
    struct call x = place_call(place, form, type, type, false);

    x.op = sum;
    if (!place->inter) {
        x.root = failing;
        x.root_here = harness_rank == failing;
    }
    return x;
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

static void put_patterns(void)
{
    static unsigned seed;

    put_pattern(host_send, ++seed * 100 + (unsigned) harness_rank);
    put_pattern(host_receive, seed * 100 + 50 + (unsigned) harness_rank);
    memcpy(before, host_receive, sizeof before);
    harness_write(gpu_send, host_send, sizeof host_send);
    harness_write(gpu_receive, host_receive, sizeof host_receive);
}

/* One call, on the host and on the GPU; call `number` for memory fails on the failing rank. The
 * number of calls that there were. */
static long trial(const struct collective *what, struct call reference, struct call x, long number)
{
    long counted = 0, lacks;
    int status = complete(&reference, what);
    /* Open MPI need not hand on blocking calls of ranks with no part in them: these do not agree.
     */
    bool left_out = together && x.bystander && (what->flags & ROOTED) != 0 && x.form == BLOCKING;
    bool agreed = together && !(x.form == BLOCKING && place_is_of_graph(what, &x)), good;

    if (harness_rank == failing) {
        arm(number);
    }
    keep_first(&status, complete(&x, what));
    if (harness_rank == failing) {
        counted = disarm();
    }
    lacks = place_told(status != MPI_SUCCESS, failing);
    total.trials++;
    total.errors += lacks != 0;
    good =
        (together && status != MPI_SUCCESS && harness_rank != failing) || good_result(lacks != 0);
    if (left_out && lacks != 0 && status == MPI_SUCCESS) {
        status = MPI_ERR_NO_MEM; /* as it would have been told */
    }
    if (!good_status(status, lacks != 0, agreed, x.comm) || !good) {
        total.wrong++;
        printf("# rank %d: %s, form %d, %s, in place %d, call %ld for memory: status %d\n",
               harness_rank, what->name, (int) x.form, x.type == MPI_DOUBLE ? "solid" : "ragged",
               x.send == MPI_IN_PLACE, number, status);
    }
    return place_told(counted, failing);
}

/* With buffers. */
static long trial_of(const struct collective *what, struct call x, bool in_place, long number)
{
    struct call reference = x;
    bool here = in_place && ((what->flags & ROOTED) == 0 || x.root_here);

    put_patterns();
    reference.send = here ? MPI_IN_PLACE : host_send;
    reference.receive = host_receive;
    x.send = here ? MPI_IN_PLACE : gpu_send;
    x.receive = gpu_receive;
    return trial(what, reference, x, number);
}

static MPI_Datatype absolute(const void *address, int count, MPI_Datatype type)
{
    MPI_Datatype made;
    MPI_Aint place;

    MPI_Get_address(address, &place);
    MPI_Type_create_hindexed(1, &count, &place, type, &made);
    MPI_Type_commit(&made);
    return made;
}

/* MPI_BOTTOM in place of these buffers, and their addresses in the types. */
static void use_addresses(struct call *x, double *send, double *receive, MPI_Datatype type)
{
    x->send = x->receive = MPI_BOTTOM;
    x->count = 1;
    x->type = absolute(receive, 2, type);
    for (int i = 0; i < x->size; i++) {
        x->s_counts[i] = x->r_counts[i] = 1;
        x->s_bytes[i] = x->r_bytes[i] = 0;
        x->s_types[i] = absolute(send + i * COUNT * EXTENT, 2, type);
        x->r_types[i] = absolute(receive + i * COUNT * EXTENT, 2, type);
    }
}

static void free_addresses(struct call *x)
{
    MPI_Type_free(&x->type);
    for (int i = 0; i < x->size; i++) {
        MPI_Type_free(&x->s_types[i]);
        MPI_Type_free(&x->r_types[i]);
    }
}

static long trial_of_addresses(const struct collective *what, struct call x, bool unused,
                               long number)
{
    struct call reference = x;
    long counted;

    (void) unused;
    put_patterns();
    use_addresses(&reference, host_send, host_receive, x.type);
    use_addresses(&x, gpu_send, gpu_receive, x.type);
    counted = trial(what, reference, x, number);
    free_addresses(&reference);
    free_addresses(&x);
    return counted;
}

typedef long (*trial_fn)(const struct collective *what, struct call x, bool in_place, long number);

static void each_number(trial_fn one, const struct collective *what, struct call x, bool in_place)
{
    long number = 1;

    while (one(what, x, in_place, number) >= number) {
        total.failures++;
        number++;
    }
    (void) one(what, x, in_place, -1);
    (void) one(what, x, in_place, 0);
}

static void each_call(const struct place *place, const struct collective *what, enum form form)
{
    bool addresses = strcmp(what->name, "bcast") == 0 || strcmp(what->name, "alltoallw") == 0;
    bool in_place = (what->flags & (IN_PLACE | REDUCES)) == IN_PLACE && !place->inter;

    each_number(trial_of, what, prepare(place, form, MPI_DOUBLE), false);
    each_number(trial_of, what, prepare(place, form, ragged), in_place);
    if (addresses && !place->inter) {
        each_number(trial_of_addresses, what, prepare(place, form, MPI_DOUBLE), false);
        each_number(trial_of_addresses, what, prepare(place, form, ragged), false);
    }
}

static void each_collective(const struct place *place)
{
    static const char *const forms[FORMS] = {"blocking", "non-blocking", "persistent"};

    for (int form = 0; form < FORMS && place->comm != MPI_COMM_NULL; form++) {
        memset(&total, 0, sizeof total);
        for (const struct collective *what = collectives; what->name != NULL; what++) {
            if (place_has(place, what)) {
                each_call(place, what, (enum form) form);
            }
        }
        harness_check(total.failures > 0 && total.errors > 0, "%s calls %s meet failures",
                      forms[form], place->name);
        harness_check(total.wrong == 0,
                      "%s calls %s without memory: %ld trials, %ld failures, %ld errors",
                      forms[form], place->name, total.trials, total.failures, total.errors);
    }
}

/* MPI_Reduce_local, of one rank: the reference's result, or an error and nothing done. */
static bool reduces_locally(MPI_Datatype type, long number, bool *failed, long *counted)
{
    int status;

    put_patterns();
    MPI_Reduce_local(host_send, host_receive, COUNT, type, sum);
    arm(number);
    status = MPI_Reduce_local(gpu_send, gpu_receive, COUNT, type, sum);
    *counted = disarm();
    *failed = status != MPI_SUCCESS;
    if (*failed) {
        MPI_Error_class(status, &status);
    }
    harness_read(seen, gpu_receive, sizeof seen);
    return *failed ? status == MPI_ERR_NO_MEM && memcmp(seen, before, sizeof seen) == 0
                   : memcmp(seen, host_receive, sizeof seen) == 0;
}

static void reduce_local(void)
{
    bool good = true, failed;
    int errors = 0;

    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int t = 0; harness_rank == failing && t < 2; t++) {
        MPI_Datatype type = t == 0 ? MPI_DOUBLE : ragged;
        long number = 0, counted;

        do {
            number++;
            good = reduces_locally(type, number, &failed, &counted) && good;
            errors += failed;
        } while (counted >= number);
        good = reduces_locally(type, -1, &failed, &counted) && good;
        errors += failed;
        good = reduces_locally(type, 0, &failed, &counted) && good && !failed;
    }
    harness_check(good && (errors > 0 || harness_rank != failing),
                  "MPI_Reduce_local without memory");
}

void each(void)
{
    struct place places[PLACES];

    make_types();
    places_open(places);
    for (int i = 0; i < PLACES; i++) {
        each_collective(&places[i]);
    }
    places_close(places);
    reduce_local();
    MPI_Type_free(&ragged);
    MPI_Op_free(&sum);
}
