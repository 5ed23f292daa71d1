/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What the ranks of a communicator make out about a staged call: whether each can take part and
 * whether its copies went well. A few small messages (exchange.h); between groups each group does
 * so, their first ranks tell each other, and then their groups:
 *
 *     OURS     agree in this group
 *     ACROSS   rank 0 <-> rank 0 of the other group      } only between groups
 *     THEIRS   agree in this group on what rank 0 heard  }
 *
 * A blocking call with a root between groups is one of the root with all ranks of the other group:
 * the root begins with ACROSS, in the place of rank 0, and ends there. Others of its group
 * (MPI_PROC_NULL) are left out, for Open MPI does not hand on their calls if they give no elements.
 *
 * Nothing here blocks but `wait`. One agreement at a time; those of one object follow each other in
 * the same order on all ranks, and have a tag of their own, so different objects do not mix.
 */
#ifndef GPURING_STAGE_AGREE_H
#define GPURING_STAGE_AGREE_H

#include <stdbool.h>
#include <stdint.h>

struct ompi_communicator_t;
struct gpuring_agreement;

/* Facts, of which all ranks get to know whether they are so at any rank. */
enum {
    GPURING_FACT_STAGES = 1,  /* a buffer is on a GPU */
    GPURING_FACT_RETURNS = 2, /* data goes back to a GPU after the call */
    GPURING_FACT_IN_ONE = 4,  /* the call cannot be cut into chunks */
};

/* Who agrees. All zero: all ranks. */
struct gpuring_party {
    bool none;   /* nobody: a notice tells of a failure, as without agreements */
    bool rooted; /* the root and the other group */
    int root;    /* as the call names it: MPI_ROOT, or its rank in the other group */
};

struct gpuring_verdict {
    int failure; /* 0, or the status that a rank gave: the same rank's on all of a group */
    int rank;    /* .. of that one */
    bool remote; /* .. which is in the other group */
    bool lost;   /* .. for the ranks lost touch, and may have different verdicts */
    uint64_t facts;
};

/* NULL: no memory; the others need none. `use` comes first; `tag` is a gpuring_message_tag. */
struct gpuring_agreement *gpuring_agreement_create(void);
void gpuring_agreement_use(struct gpuring_agreement *agreement, struct ompi_communicator_t *comm,
                           int tag);
void gpuring_agreement_free(struct gpuring_agreement *agreement); /* NULL is allowed */

/* failure: 0, or why the call is an error at this rank. */
void gpuring_agreement_begin(struct gpuring_agreement *agreement, struct gpuring_party party,
                             int failure, uint64_t facts);

/* 0: complete; GPURING_AGAIN; or an error (logged): the ranks lost touch. Then and at the end
 * *verdict is set. */
int gpuring_agreement_progress(struct gpuring_agreement *agreement,
                               struct gpuring_verdict *verdict);

/* Begin, and move MPI on until it is complete; errors are in the verdict. */
struct gpuring_verdict gpuring_agreement_wait(struct gpuring_agreement *agreement,
                                              struct gpuring_party party, int failure,
                                              uint64_t facts);

#endif
