/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test the component in spawned processes and in children that the application forks. The test
 * script starts this program, which spawns itself with the argument "child".
 */
#include "sums.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* In spawned processes, reduce among the children and over the merged communicator, and report. */
static int child(void)
{
    MPI_Comm parent, merged;
    int good;

    MPI_Init(NULL, NULL);
    MPI_Comm_get_parent(&parent);
    MPI_Intercomm_merge(parent, 1, &merged);
    good = sum_is_right(BLOCKING, 2000, MPI_COMM_WORLD) && sum_is_right(BLOCKING, 3000, merged);
    MPI_Send(&good, 1, MPI_INT, 0, 3, parent);
    MPI_Comm_free(&merged);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}

static void spawned(char *self)
{
    char *arguments[] = {"child", NULL};
    int errors[2] = {MPI_SUCCESS, MPI_SUCCESS};
    MPI_Comm children, merged;
    bool good;

    if (MPI_Comm_spawn(self, arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, errors) !=
        MPI_SUCCESS) {
        harness_check(false, "spawning 2 processes");
        return;
    }
    MPI_Intercomm_merge(children, 0, &merged);
    good = sum_is_right(BLOCKING, 3000, merged);
    for (int c = 0; harness_rank == 0 && c < 2; c++) {
        int theirs = 0;

        MPI_Recv(&theirs, 1, MPI_INT, c, 3, children, MPI_STATUS_IGNORE);
        good = good && theirs;
    }
    harness_check(good, "spawned processes among themselves and merged with their parents");
    MPI_Comm_free(&merged);
    MPI_Comm_disconnect(&children);
}

/* Fork children that run another program or exit, and continue with operations in the parent. */
static void forked(void)
{
    bool good = sum_is_right(BLOCKING, 50000, MPI_COMM_WORLD);

    for (int i = 0; i < 5 && good; i++) {
        pid_t pid = fork();
        int status = -1;

        if (pid == 0) {
            execl("/bin/true", "true", (char *) NULL);
            _exit(1);
        }
        good = sum_is_right(BLOCKING, 50000, MPI_COMM_WORLD) && pid > 0 &&
               waitpid(pid, &status, 0) == pid && status == 0;
        pid = fork();
        if (pid == 0) {
            _exit(0); /* a child that never calls exec, and runs no exit handlers */
        }
        good =
            good && sum_is_right(BLOCKING, 1000, MPI_COMM_WORLD) && waitpid(pid, &status, 0) == pid;
    }
    harness_check(good, "the application forks between and during operations");
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "child") == 0) {
        return child();
    }
    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    forked();
    spawned(argv[0]);
    return harness_finish();
}
