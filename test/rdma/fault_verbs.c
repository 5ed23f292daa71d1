/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Library that injects faults of a verbs device into a process that preloads it. It intercepts the
 * calls from a provider library to the functions of libibverbs that call the kernel.
 *
 *   GPURING_FAULT=KIND        kind of the fault
 *   GPURING_FAULT_RANK=N      inject it only into the process with this MPI rank (default: all)
 *   GPURING_FAULT_FILE=PATH   no-access: inject the fault when this file appears
 *
 *   no-access      let all queue pairs refuse remote writes
 *   no-qp          creation of queue pairs fails with ENOMEM
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST 1024

/* These functions are private to libibverbs and its providers, so no installed header declares
 * them. Pointers that are only passed on are void. */
int ibv_cmd_create_qp(struct ibv_pd *pd, struct ibv_qp *qp, struct ibv_qp_init_attr *attr,
                      void *cmd, size_t cmd_size, void *resp, size_t resp_size);
int ibv_cmd_destroy_qp(struct ibv_qp *qp);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *qps[MOST];
static bool started;

/* Store a function of libibverbs in the function pointer at `pointer`. */
static void find(const char *name, void *pointer)
{
    void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *function = library != NULL ? dlsym(library, name) : NULL;

    if (function == NULL) {
        fprintf(stderr, "fault_verbs: libibverbs has no %s\n", name);
        abort();
    }
    dlclose(library);
    memcpy(pointer, &function, sizeof function);
}

#define REAL(name)                 \
    __typeof__(&name) real = NULL; \
    find(#name, &real)

static bool wanted(const char *kind)
{
    const char *fault = getenv("GPURING_FAULT"), *rank = getenv("GPURING_FAULT_RANK");
    const char *mine = getenv("OMPI_COMM_WORLD_RANK");

    return fault != NULL && strcmp(fault, kind) == 0 &&
           (rank == NULL || (mine != NULL && strcmp(rank, mine) == 0));
}

/* Add the queue pair `to` to the list (from == NULL), or remove `from` (to == NULL). The caller
 * holds the lock. */
static void replace(const void *from, void *to)
{
    for (int i = 0; i < MOST; i++) {
        if (qps[i] == from) {
            qps[i] = to;
            return;
        }
    }
}

static void refuse_writes(void)
{
    struct ibv_qp_attr attr = {.qp_access_flags = 0};
    REAL(ibv_modify_qp);

    pthread_mutex_lock(&lock);
    for (int i = 0; i < MOST; i++) {
        if (qps[i] != NULL && real(qps[i], &attr, IBV_QP_ACCESS_FLAGS) != 0) {
            fprintf(stderr, "fault_verbs: a queue pair does not change: %s\n", strerror(errno));
        }
    }
    pthread_mutex_unlock(&lock);
}

static void *later(void *argument)
{
    const struct timespec pause = {.tv_nsec = 20000000};

    (void) argument;
    while (access(getenv("GPURING_FAULT_FILE"), F_OK) != 0) {
        nanosleep(&pause, NULL);
    }
    refuse_writes();
    return NULL;
}

int ibv_cmd_create_qp(struct ibv_pd *pd, struct ibv_qp *qp, struct ibv_qp_init_attr *attr,
                      void *cmd, size_t cmd_size, void *resp, size_t resp_size)
{
    int error;
    REAL(ibv_cmd_create_qp);

    if (wanted("no-qp")) {
        errno = ENOMEM;
        return ENOMEM;
    }
    error = real(pd, qp, attr, cmd, cmd_size, resp, resp_size);
    if (error == 0) {
        pthread_t thread;

        pthread_mutex_lock(&lock);
        replace(NULL, qp);
        if (!started && getenv("GPURING_FAULT_FILE") != NULL && wanted("no-access")) {
            started =
                pthread_create(&thread, NULL, later, NULL) == 0 && pthread_detach(thread) == 0;
        }
        pthread_mutex_unlock(&lock);
    }
    return error;
}

int ibv_cmd_destroy_qp(struct ibv_qp *qp)
{
    REAL(ibv_cmd_destroy_qp);

    pthread_mutex_lock(&lock);
    replace(qp, NULL);
    pthread_mutex_unlock(&lock);
    return real(qp);
}
