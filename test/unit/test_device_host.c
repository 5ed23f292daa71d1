/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Test the host device: memory shared between processes, its handles, and the effect of bad
 * handles. */
#include "test/unit/unit.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "test/unit/copy_rows.h"
#include "test/unit/descriptors.h"

static const struct gpuring_device_ops *const ops = &gpuring_device_host;
static char last_log[1024];

static void keep_log(enum gpuring_log_level level, const char *text)
{
    (void) level;
    strncpy(last_log, text, sizeof last_log - 1);
}

static int open_device(void **state)
{
    struct gpuring_device *device;

    last_log[0] = '\0';
    gpuring_log_set(keep_log, GPURING_LOG_WARN);
    *state = NULL;
    if (ops->open(&device) != GPURING_OK) {
        return -1;
    }
    *state = device;
    return 0;
}

static int close_device(void **state)
{
    ops->close(*state);
    gpuring_log_set(NULL, GPURING_LOG_WARN);
    return 0;
}

TEST_WITH(open_device, close_device, fresh_memory_is_zero_and_page_aligned)
{
    const size_t bytes = 3 << 20;
    void *memory = NULL;

    assert_int_equal(ops->alloc(*state, bytes, &memory), GPURING_OK);
    assert_int_equal((uintptr_t) memory % 4096, 0);
    for (size_t i = 0; i < bytes; i++) {
        assert_int_equal(((uint8_t *) memory)[i], 0);
    }
    ops->free(*state, memory);
}

/* A communicator has megabytes of it, and need not use any. */
TEST_WITH(open_device, close_device, pinned_memory_takes_no_pages_before_it_is_written)
{
    const size_t page = (size_t) sysconf(_SC_PAGESIZE), pages = 1000;
    unsigned char resident[1000];
    uint8_t *memory;
    void *at = NULL;
    size_t count = 0;

    assert_int_equal(ops->alloc_pinned(*state, pages * page, &at), GPURING_OK);
    assert_int_equal((uintptr_t) at % page, 0);
    assert_int_equal(mincore(at, pages * page, resident), 0);
    for (size_t i = 0; i < pages; i++) {
        count += resident[i] & 1;
    }
    assert_int_equal(count, 0);
    memory = at;
    for (size_t i = 0; i < pages * page; i++) {
        assert_int_equal(memory[i], 0);
    }
    memory[pages * page - 1] = 1;
    ops->free_pinned(*state, at);
    assert_int_equal(mincore(at, page, resident), -1); /* freed immediately */
}

TEST_WITH(open_device, close_device, pinned_memory_that_cannot_be_had_is_told)
{
    void *at = NULL;

    assert_int_equal(ops->alloc_pinned(*state, (size_t) 1 << 60, &at), GPURING_ERR_NOMEM);
    assert_null(at);
    assert_non_null(strstr(last_log, "[no-mapping]"));
}

/* From one distance to another, and nothing between them. */
TEST_WITH(open_device, close_device, rows_are_copied_from_pitch_to_pitch)
{
    uint8_t from[7 * 130], to[7 * 300] = {0};
    struct gpuring_stream *stream;

    for (size_t i = 0; i < sizeof from; i++) {
        from[i] = (uint8_t) (i * 7 % 251 + 1);
    }
    assert_int_equal(ops->stream_create(*state, &stream), GPURING_OK);
    assert_int_equal(copy_rows(ops, stream, to, 300, from, 130, 100, 7), GPURING_OK);
    assert_int_equal(ops->synchronize(stream), GPURING_OK);
    for (size_t i = 0; i < sizeof to; i++) {
        assert_int_equal(to[i], i % 300 < 100 ? from[i / 300 * 130 + i % 300] : 0);
    }
    ops->stream_destroy(stream);
}

/* A child process maps memory that the parent has exported, and each sees the other's bytes. */
TEST_WITH(open_device, close_device, another_process_maps_exported_memory)
{
    struct gpuring_device_handle handle;
    volatile uint8_t *memory;
    void *pointer;
    pid_t child;
    int status;

    assert_int_equal(ops->alloc(*state, 1 << 20, &pointer), GPURING_OK);
    assert_int_equal(ops->export(*state, pointer, &handle), GPURING_OK);
    assert_int_equal(handle.size, 1 << 20);
    memory = pointer;
    memory[12345] = 77;
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct gpuring_device *own;
        void *mapped;

        if (ops->open(&own) != GPURING_OK || ops->import(own, &handle, &mapped) != GPURING_OK ||
            ((volatile uint8_t *) mapped)[12345] != 77) {
            _exit(1);
        }
        ((volatile uint8_t *) mapped)[54321] = 99;
        ops->unimport(own, mapped);
        ops->close(own);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(memory[54321], 99);
    ops->free(*state, pointer);
}

TEST_WITH(open_device, close_device, handles_that_do_not_fit_are_refused)
{
    struct gpuring_device_handle handle, broken;
    void *memory, *mapped = NULL;
    uint8_t on_stack[16];

    assert_int_equal(ops->alloc(*state, 8192, &memory), GPURING_OK);
    assert_int_equal(ops->export(*state, memory, &handle), GPURING_OK);

    broken = handle;
    broken.size += 4096;
    assert_int_equal(ops->import(*state, &broken, &mapped), GPURING_ERR_PEER);
    assert_non_null(strstr(last_log, "[other-memory]"));

    broken = handle;
    broken.bytes[8] ^= 1; /* the inode */
    assert_int_equal(ops->import(*state, &broken, &mapped), GPURING_ERR_PEER);

    ops->unexport(*state, memory);
    assert_int_equal(ops->import(*state, &handle, &mapped), GPURING_ERR_PEER);
    assert_int_equal(ops->export(*state, memory, &handle), GPURING_ERR_ARG);
    assert_int_equal(ops->export(*state, on_stack, &handle), GPURING_ERR_ARG);
    assert_non_null(strstr(last_log, "[not-exportable]"));
    assert_null(mapped);
    ops->free(*state, memory);
}

TEST_WITH(open_device, close_device, no_descriptor_is_left_open)
{
    int before = open_descriptors();

    for (int i = 0; i < 50; i++) {
        struct gpuring_device_handle handle;
        void *memory, *mapped;

        assert_int_equal(ops->alloc(*state, 4096, &memory), GPURING_OK);
        assert_int_equal(ops->export(*state, memory, &handle), GPURING_OK);
        assert_int_equal(ops->import(*state, &handle, &mapped), GPURING_OK);
        ops->unimport(*state, mapped);
        ops->free(*state, memory);
    }
    assert_int_equal(open_descriptors(), before);
}

TEST_WITH(open_device, close_device, running_out_of_descriptors_names_the_limit)
{
    struct gpuring_device_handle handle;
    void *exported, *memory = NULL, *mapped = NULL;
    struct rlimit old, low;

    assert_int_equal(ops->alloc(*state, 4096, &exported), GPURING_OK);
    assert_int_equal(ops->export(*state, exported, &handle), GPURING_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = old;
    low.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    assert_int_equal(ops->alloc(*state, 4096, &memory), GPURING_ERR_FILES);
    assert_non_null(strstr(last_log, "[no-descriptor]"));
    last_log[0] = '\0';
    assert_int_equal(ops->import(*state, &handle, &mapped), GPURING_ERR_FILES);
    assert_non_null(strstr(last_log, "[no-descriptor]"));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_null(memory);
    assert_null(mapped);
    ops->free(*state, exported);
}

/* Errno with which a system call is refused, or 0. Containers refuse it with EPERM, and old kernels
 * with ENOSYS. */
static int refusal;
int memfd_create(const char *name, unsigned int flags)
{
    if (refusal != 0) {
        errno = refusal;
        return -1;
    }
    return (int) syscall(SYS_memfd_create, name, flags);
}

TEST_WITH(open_device, close_device, each_reason_for_no_memory_file_has_its_code)
{
    static const struct {
        int error, status;
        const char *code;
    } cases[] = {
        {EPERM, GPURING_ERR_REFUSED, "[memfd-refused]"},
        {ENOSYS, GPURING_ERR_REFUSED, "[memfd-refused]"},
        {EMFILE, GPURING_ERR_FILES, "[no-descriptor]"},
        {ENFILE, GPURING_ERR_FILES, "[no-descriptor]"},
        {ENOMEM, GPURING_ERR_NOMEM, "[no-memory-file]"},
    };
    void *memory = NULL;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        refusal = cases[i].error;
        assert_int_equal(ops->alloc(*state, 4096, &memory), cases[i].status);
        refusal = 0;
        assert_null(memory);
        assert_non_null(strstr(last_log, cases[i].code));
    }
}

TEST(close_gives_back_what_was_forgotten)
{
    struct gpuring_device *device;
    int before = open_descriptors();
    void *memory;

    assert_int_equal(ops->open(&device), GPURING_OK);
    assert_int_equal(ops->alloc(device, 4096, &memory), GPURING_OK);
    ops->close(device);
    assert_int_equal(open_descriptors(), before);
}
