/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef GPURING_TEST_LATE_NOTICES_H
#define GPURING_TEST_LATE_NOTICES_H

/*
 * From now on each message of coll/gpuring with failure notices leaves this process so late, as on
 * a network where the data of calls goes other ways. Between MPI_Init and MPI_Finalize, once; the
 * process goes through Open MPI's messaging layer, whose function for it is exchanged.
 */
void late_notices(double seconds);

/* How many left late. */
long late_notices_sent(void);

#endif
