/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Failure notices on their way: small messages that a rank sends to the others of a communicator.
 *
 *     send --> out --> slots (under way) ---MPI_COMM_WORLD---> in --> box (stage/notice_box.h)
 *      ^                                                              |
 *     receipt <-- in <---------------------------------- slots <-- answer, if it was asked for
 *
 * Every process has a receive posted from MPI_Init on, and sees to its mail whenever MPI moves on,
 * so a notice is answered by a rank that is in any call of MPI, also in one of another component.
 * The answer says that the notice is in the box: there every call finds it that ends afterwards.
 *
 * They travel on MPI_COMM_WORLD: not all ranks wait for a notice, so one may arrive when its
 * communicator is freed at the receiver, and its number given to another one. There it would take
 * the place of the first message of its sender, which then waits for ever. Ranks that are not in
 * the same MPI_COMM_WORLD get none.
 *
 * All memory is static: who sends a notice may have none. Threads: any.
 */
#ifndef GPURING_STAGE_NOTICE_MAIL_H
#define GPURING_STAGE_NOTICE_MAIL_H

#include "mca/coll_gpuring/stage/notice_box.h"

struct ompi_communicator_t;

/* Ranks first .. end - 1 of a communicator's group; those of the other group follow behind. */
struct gpuring_notice_ranks {
    int first, end;
};

/* What tells whether all have answered. */
struct gpuring_notice_receipt;

/* MPI_COMM_WORLD begins, and with it the mail. And it ends. */
void gpuring_notice_mail_open(void);
void gpuring_notice_mail_close(void);

/*
 * Send it to all other ranks of the communicator (both groups); what is only known of each of them
 * is filled in. A notice for which there is no room is dropped and told. The receipt of the ranks
 * that are asked to answer; NULL: there are none, or too many calls wait for answers already.
 */
struct gpuring_notice_receipt *gpuring_notice_mail_send(struct ompi_communicator_t *comm,
                                                        const struct gpuring_notice *notice,
                                                        struct gpuring_notice_ranks asked);

/* How many have not answered yet; and give the receipt back, whatever of them may still come. */
int gpuring_notice_mail_missing(const struct gpuring_notice_receipt *receipt);
void gpuring_notice_mail_forget(struct gpuring_notice_receipt *receipt);

/* Fetch what has arrived, and send what waits. No blocking, no progress of MPI. */
void gpuring_notice_mail_look(void);

#endif
