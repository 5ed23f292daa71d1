/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Test reading files that users name. They are read completely or refused with the reason, and
 * never waited for. */
#include "test/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "descriptors.h"
#include "mca/topo_pci/xml/pci_file.h"

#define LIMIT ((size_t) 1 << 20)

static char folder[] = "/tmp/gpuring-file.XXXXXX";

static int begin(void **state)
{
    alarm(60); /* what waits is a failure */
    return mkdtemp(folder) && !chdir(folder) ? 0 : -1;
}

static int end(void **state)
{
    return chdir("/") || rmdir(folder);
}

static void make(const char *name, const char *text, size_t size, off_t length)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, size), size);
    assert_int_equal(ftruncate(fd, length), 0);
    close(fd);
}

static void refused(const char *name, int code, const char *expected)
{
    char *text = NULL, why[200];
    size_t size = 7;
    int before = open_descriptors();

    assert_int_equal(pci_file_read(name, LIMIT, &text, &size, why, sizeof(why)), code);
    assert_true(strncmp(why, expected, strlen(expected)) == 0);
    assert_int_equal(open_descriptors(), before);
    assert_int_equal(pci_file_read(name, LIMIT, &text, &size, NULL, 0), code);
    assert_null(text);
    assert_int_equal(size, 7);
}

static void accepted(const char *name, const char *expected, size_t length)
{
    char *text, why[200];
    size_t size;
    int before = open_descriptors();

    assert_int_equal(pci_file_read(name, LIMIT, &text, &size, why, sizeof(why)), 0);
    assert_int_equal(size, length);
    assert_memory_equal(text, expected, length + 1); /* and the zero */
    assert_int_equal(open_descriptors(), before);
    free(text);
}

TEST(test_whole)
{
    char *large = calloc(1, LIMIT + 1);

    assert_non_null(large);
    make("file", "", 0, 0);
    accepted("file", "", 0);
    make("file", "one\0two\n", 8, 8);
    accepted("file", "one\0two\n", 8);
    for (size_t i = 0; i < LIMIT; i++) {
        large[i] = (char) ('a' + i % 23);
    }
    for (size_t size = 65534; size <= 65537; size++) { /* around the size of the first buffer */
        char last = large[size];
        make("file", large, size, (off_t) size);
        large[size] = '\0';
        accepted("file", large, size);
        large[size] = last;
    }
    make("file", large, LIMIT, (off_t) LIMIT);
    accepted("file", large, LIMIT);
    make("file", large, LIMIT, (off_t) LIMIT + 1);
    refused("file", -E2BIG, "[too-long] is longer than 1 MiB");
    unlink("file");
    free(large);
}

/* Files of /proc report a size of 0. */
TEST(test_unknown_length)
{
    char *text;
    size_t size;

    assert_int_equal(pci_file_read("/proc/self/status", LIMIT, &text, &size, NULL, 0), 0);
    assert_true(size > 0);
    assert_int_equal(text[size], '\0');
    assert_non_null(strstr(text, "Pid:"));
    free(text);
}

TEST(test_not_there)
{
    uid_t user = geteuid();

    refused("none", -ENOENT, "No such file or directory");
    refused("none/none", -ENOENT, "No such file or directory");
    make("file", "x", 1, 1);
    refused("file/none", -ENOTDIR, "Not a directory");
    assert_int_equal(chmod("file", 0), 0);
    assert_int_equal(chmod(folder, 0711), 0);
    if (user == 0) { /* permissions do not restrict this user */
        assert_int_equal(seteuid(65534), 0);
    }
    refused("file", -EACCES, "Permission denied");
    assert_int_equal(seteuid(user), 0);
    unlink("file");
    refused("/proc/self/mem", -EIO, "cannot be read: Input/output error"); /* page 0 */
}

TEST(test_other_kinds)
{
    int writer;

    refused(".", -EISDIR, "[not-a-file] ");
    refused("/dev/zero", -EINVAL, "[not-a-file] ");
    assert_int_equal(mkfifo("pipe", 0600), 0);
    refused("pipe", -EINVAL, "[not-a-file] "); /* it has no writer */
    assert_int_equal(symlink("pipe", "link"), 0);
    refused("link", -EINVAL, "[not-a-file] ");
    writer = open("pipe", O_RDWR);
    assert_true(writer >= 0);
    refused("pipe", -EINVAL, "[not-a-file] "); /* it has a writer that writes nothing */
    close(writer);
    unlink("link");
    unlink("pipe");
}

/* An open descriptor of any kind is read up to its end or the limit. */
TEST(test_open)
{
    char *text, why[200];
    size_t size;
    int ends[2], zero = open("/dev/zero", O_RDONLY);

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "a text", 6), 6);
    close(ends[1]);
    assert_int_equal(pci_file_read_open(ends[0], LIMIT, &text, &size, why, sizeof(why)), 0);
    assert_int_equal(size, 6);
    assert_string_equal(text, "a text");
    free(text);
    close(ends[0]);
    assert_true(zero >= 0);
    assert_int_equal(pci_file_read_open(zero, LIMIT, &text, &size, why, sizeof(why)), -E2BIG);
    close(zero);
}

static void wrote(const char *name, const char *text, int code)
{
    char why[200];
    int before = open_descriptors();

    assert_int_equal(pci_file_write(name, text, text != NULL ? strlen(text) : 0, why, sizeof(why)),
                     code);
    assert_int_equal(open_descriptors(), before);
}

TEST(test_write)
{
    wrote("new", NULL, 0); /* only a check */
    assert_int_equal(access("new", F_OK), -1);
    wrote("new", "text", 0);
    wrote("new", "other text", 0);
    wrote("new", NULL, 0);
    accepted("new", "other text", 10);
    assert_int_equal(symlink("new", "link"), 0);
    wrote("link", "through it", 0);
    accepted("new", "through it", 10);
    assert_int_equal(mkfifo("pipe", 0600), 0);
    wrote("pipe", "text", -ENXIO);
    wrote("missing/file", NULL, -ENOENT);
    wrote("missing/file", "text", -ENOENT);
    wrote(".", "text", -EISDIR);
    unlink("pipe");
    unlink("link");
    unlink("new"); /* end() fails if anything else is left */
}

TEST_GROUP(begin, end)
