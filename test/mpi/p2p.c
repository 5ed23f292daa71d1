/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test every form of sends with every form of receives, with buffers on GPUs and in host memory,
 * and types with gaps on either side. Messages have the length of the receive, or are shorter
 * (ending within an element) or longer. Checks data, gaps, statuses and counts.
 *
 *   p2p [-f STEP]   every STEP-th combination
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "p2p_data.h"

enum length { WHOLE, SHORTER, LONGER, EMPTY, LENGTHS };
static const char *const length_names[] = {"whole", "shorter", "longer", "empty"};

struct trial {
    const struct sending *send;
    const struct receiving *receive;
    enum length length;
    int send_type, receive_type, units; /* units of 60 ints */
    bool send_gpu, receive_gpu;
};

static bool run(const struct trial *t, unsigned seed)
{
    int to = (harness_rank + 1) % harness_size;
    int from = (harness_rank + harness_size - 1) % harness_size;
    int all = 60 * t->units, ints = all, error = MPI_SUCCESS;
    struct area send = area_open(t->send_type, t->units, t->send_gpu);
    struct area receive = area_open(t->receive_type, t->units, t->receive_gpu);
    struct message s = {.peer = to, .tag = 17, .type = p2p_types[t->send_type].type};
    struct message r = {.peer = from, .tag = 17, .type = p2p_types[t->receive_type].type};
    bool good;

    area_fill(&send, seed + (unsigned) harness_rank);
    area_fill(&receive, seed + 100);
    s.buffer = send.begin;
    r.buffer = receive.begin;
    r.count = all / p2p_types[t->receive_type].ints;
    if (t->length == EMPTY) {
        ints = 0;
    } else if (t->length == SHORTER) {
        ints = all - (all > 60 ? 60 : 30) - p2p_types[t->send_type].ints;
        ints -= ints % p2p_types[t->send_type].ints;
    } else if (t->length == LONGER) {
        r.count /= 2;
    }
    s.count = ints / p2p_types[t->send_type].ints;

    if (t->receive->post != NULL) {
        t->receive->post(&r);
    }
    if (t->send->ready) {
        MPI_Barrier(MPI_COMM_WORLD);
    }
    t->send->start(&s);
    error = t->receive->finish(&r);
    t->send->finish(&s);
    if (t->length == LONGER) {
        int class = MPI_SUCCESS;

        MPI_Error_class(error, &class);
        good = class == MPI_ERR_TRUNCATE &&
               area_same_behind(&receive, t->receive_type, r.count, seed + 100);
    } else {
        good = error == MPI_SUCCESS && message_status_right(&r, t->receive_type, ints) &&
               area_received(&receive, seed + 100, t->send_type, seed + (unsigned) from, ints);
    }
    good = good && area_unchanged(&send, seed + (unsigned) harness_rank);
    area_close(&send);
    area_close(&receive);
    return good;
}

static void check(const struct trial *t, unsigned seed)
{
    harness_check(run(t, seed), "%s %s of %s, %s %s into %s, %d ints, %s", t->send->name,
                  t->send_gpu ? "on a GPU" : "on the host", p2p_types[t->send_type].name,
                  t->receive->name, t->receive_gpu ? "on a GPU" : "on the host",
                  p2p_types[t->receive_type].name, 60 * t->units, length_names[t->length]);
}

/*
 * Return true if every rank of a ring can use these two calls, which must not both block. Messages
 * that are longer than the receive are short ones, because ob1 of Open MPI 4.1.4 writes all bytes
 * of longer ones, beyond the end of the buffer.
 */
static bool possible(const struct trial *t)
{
    if (t->length == LONGER && t->units > 1) {
        return false;
    }
    if (t->send->blocks && t->receive->post == NULL) {
        return false;
    }
    return !t->send->ready || t->receive->post != NULL;
}

int main(int argc, char **argv)
{
    static const int sizes[] = {1, 20, 400, 5000, 40000}; /* to 9.6 MB */
    int step = argc > 2 && strcmp(argv[1], "-f") == 0 ? atoi(argv[2]) : 1;
    unsigned number = 0;
    char *attached = malloc(64 << 20);

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    p2p_types_open();
    MPI_Buffer_attach(attached, 64 << 20);
    for (const struct sending *s = sendings; s->name != NULL; s++) {
        for (const struct receiving *r = receivings; r->name != NULL; r++) {
            for (int combination = 0; combination < P2P_TYPES * P2P_TYPES * 5 * LENGTHS * 3;
                 combination++) {
                int c = combination;
                struct trial t = {.send = s, .receive = r};

                t.send_gpu = c % 3 != 2;
                t.receive_gpu = c % 3 != 1;
                c /= 3;
                t.length = (enum length)(c % LENGTHS);
                c /= LENGTHS;
                t.units = sizes[c % 5];
                c /= 5;
                t.send_type = c % P2P_TYPES;
                t.receive_type = c / P2P_TYPES;
                if (possible(&t) && (number++ % (unsigned) step) == 0) {
                    check(&t, number);
                }
            }
        }
    }
    MPI_Buffer_detach(&attached, &(int){0});
    free(attached);
    p2p_types_close();
    return harness_finish();
}
