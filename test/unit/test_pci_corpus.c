/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Runs the kept inputs of the fuzzer, and our own topology files, through the fuzz target. */
#include "test/unit/unit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_pci.h"
#include "pci_test.h"

static void run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(1 << 20);
    assert_non_null(file);
    assert_non_null(bytes);
    size_t size = fread(bytes, 1, 1 << 20, file);
    assert_false(ferror(file));
    fclose(file);
    assert_int_equal(LLVMFuzzerTestOneInput(bytes, size), 0);
    free(bytes);
}

static void run_folder(const char *name)
{
    char folder[1024], path[2048];
    size_t n = 0;
    snprintf(folder, sizeof(folder), "%s/%s", source_folder(), name);
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    struct dirent *entry;
    while ((entry = readdir(dir))) {
        if (entry->d_name[0] != '.') {
            snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
            run_file(path);
            n++;
        }
    }
    closedir(dir);
    print_message("%zu inputs of %s\n", n, name);
    assert_true(n > 0);
}

TEST(test_corpus)
{
    run_folder("test/fuzz/corpus");
}

TEST(test_topologies)
{
    run_folder("test/data/topo");
}
