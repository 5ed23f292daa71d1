/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "p2p_data.h"

#include <stdlib.h>
#include <string.h>

#define MARGIN 256 /* bytes before and after; types have bytes before the begin of the buffer */

struct p2p_type p2p_types[P2P_TYPES] = {{"ints", MPI_INT, 1, 0},
                                        {"every other of 3", MPI_DATATYPE_NULL, 3, 0},
                                        {"runs of 1, 2 and 3", MPI_DATATYPE_NULL, 6, 0},
                                        {"pairs, far apart", MPI_DATATYPE_NULL, 2, 0},
                                        {"4 backwards", MPI_DATATYPE_NULL, 4, 0}};

void p2p_types_open(void)
{
    MPI_Datatype pair;
    MPI_Aint lower;

    MPI_Type_vector(3, 1, 2, MPI_INT, &p2p_types[1].type);
    MPI_Type_indexed(3, (int[]){1, 2, 3}, (int[]){-3, 0, 4}, MPI_INT, &p2p_types[2].type);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_create_resized(pair, 0, 20, &p2p_types[3].type);
    MPI_Type_free(&pair);
    MPI_Type_indexed(4, (int[]){1, 1, 1, 1}, (int[]){5, 3, 2, 0}, MPI_INT, &p2p_types[4].type);
    for (int i = 0; i < P2P_TYPES; i++) {
        if (i > 0) {
            MPI_Type_commit(&p2p_types[i].type);
        }
        MPI_Type_get_extent(p2p_types[i].type, &lower, &p2p_types[i].extent);
    }
}

void p2p_types_close(void)
{
    for (int i = 1; i < P2P_TYPES; i++) {
        MPI_Type_free(&p2p_types[i].type);
    }
}

struct area area_open(int type, int units, bool on_gpu)
{
    struct area area = {.type = type, .units = units, .on_gpu = on_gpu && harness_on_gpu()};

    area.bytes =
        2 * MARGIN + (size_t) (60 * units / p2p_types[type].ints) * (size_t) p2p_types[type].extent;
    area.memory = area.on_gpu ? harness_alloc(area.bytes) : malloc(area.bytes);
    area.begin = area.memory + MARGIN - 4;
    return area;
}

void area_close(struct area *area)
{
    if (area->on_gpu) {
        harness_free(area->memory);
    } else {
        free(area->memory);
    }
}

static char *pattern(size_t bytes, unsigned seed)
{
    char *made = malloc(bytes + 8);

    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = (i + 1) * 0x9e3779b97f4a7c15 + seed * 0xbf58476d1ce4e5b9;

        word ^= word >> 29;
        memcpy(made + i, &word, sizeof word);
    }
    return made;
}

void area_fill(struct area *area, unsigned seed)
{
    char *made = pattern(area->bytes, seed);

    if (area->on_gpu) {
        harness_write(area->memory, made, area->bytes);
    } else {
        memcpy(area->memory, made, area->bytes);
    }
    free(made);
}

static char *content(const struct area *area)
{
    char *host = malloc(area->bytes);

    if (area->on_gpu) {
        harness_read(host, area->memory, area->bytes);
    } else {
        memcpy(host, area->memory, area->bytes);
    }
    return host;
}

bool area_same_behind(const struct area *area, int type, int elements, unsigned seed)
{
    size_t from = elements == 0 ? 0
                                : (size_t) (area->begin - area->memory) +
                                      (size_t) (elements + 1) * (size_t) p2p_types[type].extent;
    char *host = content(area), *made = pattern(area->bytes, seed);
    bool same = from >= area->bytes || memcmp(host + from, made + from, area->bytes - from) == 0;

    free(host);
    free(made);
    return same;
}

bool area_unchanged(const struct area *area, unsigned seed)
{
    return area_same_behind(area, area->type, 0, seed);
}

bool area_same(const struct area *area, const struct area *expected)
{
    char *host = content(area);
    bool same = memcmp(host, expected->memory, area->bytes) == 0;

    free(host);
    return same;
}

void area_move(struct area *to, const struct area *from, int ints)
{
    int given = ints / p2p_types[from->type].ints, per = p2p_types[to->type].ints;
    int size = ints * (int) sizeof(int), at = 0;
    char *packed = malloc((size_t) size + 1), *element = malloc(64), *begin;
    MPI_Datatype type = p2p_types[to->type].type;

    if (ints == 0) {
        free(packed);
        free(element);
        return;
    }
    MPI_Pack(from->begin, given, p2p_types[from->type].type, packed, size, &at, MPI_COMM_WORLD);
    at = 0;
    MPI_Unpack(packed, size, &at, to->begin, ints / per, type, MPI_COMM_WORLD);
    /* A part of the last element: its other ints do not change. */
    if (ints % per != 0) {
        int done = 0, rest = size - at;

        begin = to->begin + (ints / per) * p2p_types[to->type].extent;
        MPI_Pack(begin, 1, type, element, 64, &done, MPI_COMM_WORLD);
        memcpy(element, packed + at, (size_t) rest);
        done = 0;
        MPI_Unpack(element, 64, &done, begin, 1, type, MPI_COMM_WORLD);
    }
    free(packed);
    free(element);
}

bool area_received(const struct area *to, unsigned seed, int from_type, unsigned from_seed,
                   int ints)
{
    struct area sent = area_open(from_type, to->units, false);
    struct area expected = area_open(to->type, to->units, false);
    bool good;

    area_fill(&sent, from_seed);
    area_fill(&expected, seed);
    area_move(&expected, &sent, ints);
    good = area_same(to, &expected);
    area_close(&sent);
    area_close(&expected);
    return good;
}

bool message_status_right(const struct message *m, int type, int ints)
{
    int count, elements, cancelled, per = p2p_types[type].ints;

    MPI_Get_count(&m->status, m->type, &count);
    MPI_Get_elements(&m->status, m->type, &elements);
    MPI_Test_cancelled(&m->status, &cancelled);
    return m->status.MPI_SOURCE == m->peer && m->status.MPI_TAG == m->tag && !cancelled &&
           elements == ints && count == (ints % per == 0 ? ints / per : MPI_UNDEFINED);
}

#define ARGUMENTS m->buffer, m->count, m->type, m->peer, m->tag, comm_of(m)

static MPI_Comm comm_of(const struct message *m)
{
    return m->comm != (MPI_Comm) 0 ? m->comm : MPI_COMM_WORLD;
}

#define SENDING(NAME, Name, I)                         \
    static void start_##NAME(struct message *m)        \
    {                                                  \
        MPI_##Name(ARGUMENTS);                         \
    }                                                  \
    static void start_i##NAME(struct message *m)       \
    {                                                  \
        MPI_##I(ARGUMENTS, &m->request);               \
    }                                                  \
    static void start_##NAME##_init(struct message *m) \
    {                                                  \
        MPI_##Name##_init(ARGUMENTS, &m->request);     \
        MPI_Start(&m->request);                        \
    }
SENDING(send, Send, Isend)
SENDING(ssend, Ssend, Issend)
SENDING(bsend, Bsend, Ibsend)
SENDING(rsend, Rsend, Irsend)

static void no_finish(struct message *m)
{
    (void) m;
}

static void wait_finish(struct message *m)
{
    MPI_Wait(&m->request, MPI_STATUS_IGNORE);
}

static void free_finish(struct message *m)
{
    MPI_Wait(&m->request, MPI_STATUS_IGNORE);
    MPI_Request_free(&m->request);
}

static void early_free(struct message *m)
{
    MPI_Isend(ARGUMENTS, &m->request);
    MPI_Request_free(&m->request);
    m->count = 0;
}

static void barrier_finish(struct message *m)
{
    (void) m;
    MPI_Barrier(MPI_COMM_WORLD); /* until the receive is complete on all ranks */
}

const struct sending sendings[] = {{"send", true, false, start_send, no_finish},
                                   {"ssend", true, false, start_ssend, no_finish},
                                   {"bsend", false, false, start_bsend, no_finish},
                                   {"rsend", true, true, start_rsend, no_finish},
                                   {"isend", false, false, start_isend, wait_finish},
                                   {"issend", false, false, start_issend, wait_finish},
                                   {"ibsend", false, false, start_ibsend, wait_finish},
                                   {"irsend", false, true, start_irsend, wait_finish},
                                   {"freed isend", false, false, early_free, barrier_finish},
                                   {"send_init", false, false, start_send_init, free_finish},
                                   {"ssend_init", false, false, start_ssend_init, free_finish},
                                   {"bsend_init", false, false, start_bsend_init, free_finish},
                                   {"rsend_init", false, true, start_rsend_init, free_finish},
                                   {NULL, false, false, NULL, NULL}};

static int finish_recv(struct message *m)
{
    return MPI_Recv(ARGUMENTS, &m->status);
}

static int finish_any(struct message *m)
{
    return MPI_Recv(m->buffer, m->count, m->type, MPI_ANY_SOURCE, MPI_ANY_TAG, comm_of(m),
                    &m->status);
}

static void post_irecv(struct message *m)
{
    MPI_Irecv(ARGUMENTS, &m->request);
}

static void post_any(struct message *m)
{
    MPI_Irecv(m->buffer, m->count, m->type, MPI_ANY_SOURCE, MPI_ANY_TAG, comm_of(m), &m->request);
}

static int finish_wait(struct message *m)
{
    return MPI_Wait(&m->request, &m->status);
}

static int finish_test(struct message *m)
{
    int done = 0, code = MPI_SUCCESS;

    while (!done) {
        code = MPI_Test(&m->request, &done, &m->status);
        done = done || code != MPI_SUCCESS;
    }
    return code;
}

static int finish_waitall(struct message *m)
{
    int code = MPI_Waitall(1, &m->request, &m->status), class = MPI_SUCCESS;

    MPI_Error_class(code, &class);
    return class == MPI_ERR_IN_STATUS ? m->status.MPI_ERROR : code;
}

static void post_init(struct message *m)
{
    MPI_Recv_init(ARGUMENTS, &m->request);
    MPI_Startall(1, &m->request);
}

static int finish_init(struct message *m)
{
    int code = MPI_Wait(&m->request, &m->status);

    MPI_Request_free(&m->request);
    return code;
}

static int finish_probe(struct message *m)
{
    MPI_Status status;

    MPI_Probe(m->peer, m->tag, comm_of(m), &status);
    return MPI_Recv(m->buffer, m->count, m->type, status.MPI_SOURCE, status.MPI_TAG, comm_of(m),
                    &m->status);
}

static int finish_mprobe(struct message *m)
{
    MPI_Message matched;

    MPI_Mprobe(m->peer, m->tag, comm_of(m), &matched, MPI_STATUS_IGNORE);
    return MPI_Mrecv(m->buffer, m->count, m->type, &matched, &m->status);
}

static int finish_improbe(struct message *m)
{
    MPI_Message matched;
    int found = 0;

    while (!found) {
        MPI_Improbe(MPI_ANY_SOURCE, m->tag, comm_of(m), &found, &matched, MPI_STATUS_IGNORE);
    }
    MPI_Imrecv(m->buffer, m->count, m->type, &matched, &m->request);
    return MPI_Wait(&m->request, &m->status);
}

const struct receiving receivings[] = {{"recv", NULL, finish_recv},
                                       {"recv of any", NULL, finish_any},
                                       {"irecv", post_irecv, finish_wait},
                                       {"irecv, test", post_irecv, finish_test},
                                       {"irecv of any, waitall", post_any, finish_waitall},
                                       {"recv_init", post_init, finish_init},
                                       {"probe", NULL, finish_probe},
                                       {"mprobe", NULL, finish_mprobe},
                                       {"improbe", NULL, finish_improbe},
                                       {NULL, NULL, NULL}};
