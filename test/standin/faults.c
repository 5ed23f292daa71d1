/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "test/standin/standin.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fault {
    unsigned long at; /* number of the call that fails, counted from 1; 0: none */
    CUresult code;
    bool breaks; /* the failure also breaks the context permanently */
};

static const char *const symbols[] = {
#define SYMBOL(member, symbol, arguments) #symbol,
    GPURING_CUDA_CALLS(SYMBOL) STANDIN_EVENT_CALLS(SYMBOL)
#undef SYMBOL
};

/* Only parse and gpuring_standin_arm write these. */
static struct fault faults[STANDIN_CALLS];
static unsigned long sticky_at, corrupt_at, torn_at, wrong_ll_at, corrupt_copy;
static bool corrupt_host;
static unsigned int slow, late_reads;
static bool no_peers, moved, no_memops;
static pthread_once_t parsed = PTHREAD_ONCE_INIT;

static atomic_ulong counts[STANDIN_CALLS], writes, lines, lines_ll;
static atomic_bool broken;
static atomic_int broken_by; /* CUresult, or 0 for CUDA_ERROR_LAUNCH_FAILED */

static void bad_fault(const char *text)
{
    fprintf(stderr, "stand-in driver: GPURING_STANDIN_FAULTS has no fault \"%s\"\n", text);
    exit(2);
}

static void parse_one(char *text)
{
    char *value = strchr(text, '=');
    char *code;

    if (value == NULL) {
        bad_fault(text);
    }
    *value++ = '\0';
    code = strchr(value, ':');
    if (strcmp(text, "sticky") == 0) {
        sticky_at = strtoul(value, NULL, 10);
    } else if (strcmp(text, "slow") == 0) {
        slow = (unsigned int) strtoul(value, NULL, 10);
    } else if (strcmp(text, "late-reads") == 0) {
        late_reads = (unsigned int) strtoul(value, NULL, 10);
    } else if (strcmp(text, "corrupt") == 0) {
        corrupt_at = strtoul(value, NULL, 10);
    } else if (strcmp(text, "corrupt-host") == 0) {
        corrupt_host = strtoul(value, NULL, 10) != 0;
    } else if (strcmp(text, "corrupt-copy") == 0) {
        corrupt_copy = strtoul(value, NULL, 10);
    } else if (strcmp(text, "torn") == 0) {
        torn_at = strtoul(value, NULL, 10);
    } else if (strcmp(text, "wrong-ll") == 0) {
        wrong_ll_at = strtoul(value, NULL, 10);
    } else if (strcmp(text, "nopeer") == 0) {
        no_peers = strtoul(value, NULL, 10) != 0;
    } else if (strcmp(text, "moved") == 0) {
        moved = strtoul(value, NULL, 10) != 0;
    } else if (strcmp(text, "nomemops") == 0) {
        no_memops = strtoul(value, NULL, 10) != 0;
    } else {
        int call = 0;

        while (call < STANDIN_CALLS && strcmp(symbols[call], text) != 0) {
            call++;
        }
        if (call == STANDIN_CALLS) {
            bad_fault(text);
        }
        faults[call].at = strtoul(value, NULL, 10);
        faults[call].code =
            code != NULL ? (CUresult) strtoul(code + 1, &code, 10) : CUDA_ERROR_UNKNOWN;
        faults[call].breaks = code != NULL && strcmp(code, ":sticky") == 0;
    }
}

static void parse_list(const char *list)
{
    char *copy, *next, *rest;

    if (list == NULL || list[0] == '\0') {
        return;
    }
    copy = strdup(list);
    if (copy == NULL) {
        exit(2);
    }
    for (next = strtok_r(copy, ",", &rest); next != NULL; next = strtok_r(NULL, ",", &rest)) {
        parse_one(next);
    }
    free(copy);
}

static void parse(void)
{
    parse_list(getenv("GPURING_STANDIN_FAULTS"));
}

void gpuring_standin_arm(const char *list)
{
    pthread_once(&parsed, parse);
    standin_wait_for_streams(); /* the program cannot wait in a broken context, and copies may still
                                   run */
    memset(faults, 0, sizeof faults);
    sticky_at = corrupt_at = torn_at = wrong_ll_at = corrupt_copy = 0;
    corrupt_host = false;
    slow = late_reads = 0;
    no_peers = moved = no_memops = false;
    for (int call = 0; call < STANDIN_CALLS; call++) {
        atomic_store(&counts[call], 0);
    }
    atomic_store(&writes, 0);
    atomic_store(&lines, 0);
    atomic_store(&lines_ll, 0);
    atomic_store(&broken, false);
    atomic_store(&broken_by, 0);
    parse_list(list);
}

int gpuring_standin_reached(void)
{
    for (int call = 0; call < STANDIN_CALLS; call++) {
        if (faults[call].at > atomic_load(&counts[call])) {
            return 0;
        }
    }
    return sticky_at <= atomic_load(&counts[STANDIN_launch]) &&
           corrupt_at <= atomic_load(&writes) && torn_at <= atomic_load(&lines) &&
           wrong_ll_at <= atomic_load(&lines_ll);
}

const char *gpuring_standin_symbol(int call)
{
    return call >= 0 && call < STANDIN_CALLS ? symbols[call] : NULL;
}

long gpuring_standin_calls(const char *symbol)
{
    long calls = 0;

    for (int call = 0; call < STANDIN_CALLS; call++) {
        if (symbol == NULL || strcmp(symbol, symbols[call]) == 0) {
            calls += (long) atomic_load(&counts[call]);
        }
    }
    return calls;
}

long gpuring_standin_held(void)
{
    return standin_held_blocks() + standin_held_objects();
}

static atomic_int capturing;                           /* see gpuring_standin_capture */
static _Thread_local CUstreamCaptureMode capture_mode; /* initially GLOBAL */

void gpuring_standin_capture(int captures)
{
    atomic_store(&capturing, captures);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CUstreamCaptureMode before = capture_mode;

    STANDIN_ENTER(capture_mode);
    capture_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

bool standin_captures_blocking(void)
{
    return atomic_load(&capturing) == 2;
}

/* Return true if a call could disturb a capture. */
static bool disturbs_capture(enum standin_call call)
{
    switch (call) {
    case STANDIN_alloc:
    case STANDIN_free:
    case STANDIN_host_register:
    case STANDIN_host_unregister:
    case STANDIN_stream_sync:
    case STANDIN_stream_query:
    case STANDIN_event_query:
    case STANDIN_module_load:
    case STANDIN_module_unload:
    case STANDIN_ipc_open:
    case STANDIN_ipc_close:
    case STANDIN_pointer_set:
    case STANDIN_ctx_set_flags:
        return true;
    default:
        return false;
    }
}

/* Return true if a call still works in a context that an error has broken. */
static bool outlives_errors(enum standin_call call)
{
    return call == STANDIN_ctx_push || call == STANDIN_ctx_pop || call == STANDIN_ctx_current ||
           call == STANDIN_capture_mode || call == STANDIN_error_name ||
           call == STANDIN_error_string;
}

/* Break the context. When this returns, none of its queued work writes memory. */
static void break_context(void)
{
    atomic_store(&broken, true);
    standin_wait_for_streams();
}

CUresult standin_enter(enum standin_call call)
{
    unsigned long count = atomic_fetch_add(&counts[call], 1) + 1;

    pthread_once(&parsed, parse);
    if (call == STANDIN_launch && sticky_at != 0 && count >= sticky_at) {
        break_context();
    }
    if (atomic_load(&broken) && !outlives_errors(call)) {
        int code = atomic_load(&broken_by);

        return code != 0 ? (CUresult) code : CUDA_ERROR_LAUNCH_FAILED;
    }
    STANDIN_REFUSE_IF(atomic_load(&capturing) != 0 &&
                          capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED && disturbs_capture(call),
                      CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, symbols[call]);
    if (no_memops && (call == STANDIN_pointer_set || call == STANDIN_ctx_set_flags)) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (faults[call].at != count) {
        return CUDA_SUCCESS;
    }
    if (faults[call].breaks) {
        break_context();
    }
    return faults[call].code;
}

void standin_break(CUresult code)
{
    atomic_store(&broken_by, (int) code);
    atomic_store(&broken, true);
}

unsigned int standin_late_read_us(void)
{
    pthread_once(&parsed, parse);
    return late_reads;
}

unsigned int standin_slow_us(void)
{
    pthread_once(&parsed, parse);
    return slow;
}

bool standin_corrupts(void)
{
    pthread_once(&parsed, parse);
    return corrupt_at != 0 && atomic_fetch_add(&writes, 1) + 1 >= corrupt_at;
}

bool standin_corrupts_host(void)
{
    pthread_once(&parsed, parse);
    return corrupt_host;
}

bool standin_corrupts_copy(size_t bytes)
{
    pthread_once(&parsed, parse);
    return corrupt_copy != 0 && bytes >= corrupt_copy;
}

bool standin_tears(enum gpuring_protocol protocol)
{
    pthread_once(&parsed, parse);
    if (protocol == GPURING_PROTOCOL_LL) {
        return wrong_ll_at != 0 && atomic_fetch_add(&lines_ll, 1) + 1 >= wrong_ll_at;
    }
    return protocol == GPURING_PROTOCOL_LL128 && torn_at != 0 &&
           atomic_fetch_add(&lines, 1) + 1 >= torn_at;
}

bool standin_refuses_peers(void)
{
    pthread_once(&parsed, parse);
    return no_peers;
}

bool standin_moves_host_memory(void)
{
    pthread_once(&parsed, parse);
    return moved;
}

void standin_report(const char *format, ...)
{
    const char *path = getenv("GPURING_STANDIN_REPORT");
    FILE *file = path != NULL ? fopen(path, "a") : NULL;
    va_list arguments;

    if (file != NULL) {
        va_start(arguments, format);
        vfprintf(file, format, arguments);
        va_end(arguments);
        fclose(file);
    }
}

__attribute__((destructor)) static void report_unreached(void)
{
    pthread_once(&parsed, parse);
    for (int call = 0; call < STANDIN_CALLS; call++) {
        if (faults[call].at > atomic_load(&counts[call])) {
            standin_report("pid %d never calls %s %lu times\n", (int) getpid(), symbols[call],
                           faults[call].at);
        }
    }
    if (sticky_at > atomic_load(&counts[STANDIN_launch])) {
        standin_report("pid %d never calls sticky %lu times\n", (int) getpid(), sticky_at);
    }
}
