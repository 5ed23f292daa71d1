/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr, memfd_create */
#endif
#include "mca/coll_gpuring/device/loads.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MARKS 64 /* some 2 kB each */

struct link_map *gpuring_loads_mark;
static void *marks[MARKS];
static int mark_count;

/* A library without code, data or symbols: what the loader asks for, and no more. */
struct library {
    ElfW(Ehdr) header;
    ElfW(Phdr) segments[3];
    ElfW(Dyn) dynamic[5];
    ElfW(Sym) symbol;
    char strings[8];
};

#define AT(member) offsetof(struct library, member)

/* For the machine that this code was built for; false: the loader does not say which. */
static bool describe(struct library *library)
{
    const ElfW(Ehdr) * own;
    Dl_info info;

    if (dladdr(&gpuring_loads_mark, &info) == 0) {
        return false;
    }
    own = info.dli_fbase;
    *library = (struct library){
        .header = {.e_type = ET_DYN,
                   .e_machine = own->e_machine,
                   .e_version = EV_CURRENT,
                   .e_phoff = AT(segments),
                   .e_flags = own->e_flags,
                   .e_ehsize = sizeof library->header,
                   .e_phentsize = sizeof *library->segments,
                   .e_phnum = 3},
        .segments = {{.p_type = PT_LOAD,
                      .p_flags = PF_R | PF_W,
                      .p_filesz = sizeof *library,
                      .p_memsz = sizeof *library,
                      .p_align = (size_t) sysconf(_SC_PAGESIZE)},
                     {.p_type = PT_DYNAMIC,
                      .p_flags = PF_R | PF_W,
                      .p_offset = AT(dynamic),
                      .p_vaddr = AT(dynamic),
                      .p_paddr = AT(dynamic),
                      .p_filesz = sizeof library->dynamic,
                      .p_memsz = sizeof library->dynamic,
                      .p_align = 8},
                     {.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W}},
        .dynamic = {{.d_tag = DT_STRTAB, .d_un.d_ptr = AT(strings)},
                    {.d_tag = DT_STRSZ, .d_un.d_val = sizeof library->strings},
                    {.d_tag = DT_SYMTAB, .d_un.d_ptr = AT(symbol)},
                    {.d_tag = DT_SYMENT, .d_un.d_val = sizeof library->symbol},
                    {.d_tag = DT_NULL}},
    };
    memcpy(library->header.e_ident, own->e_ident, sizeof own->e_ident);
    return true;
}

/* Under a name that nothing else is loaded by, or the loader takes it for that. */
static void *load(const struct library *library, int number)
{
    int file = memfd_create("gpuring-mark", MFD_CLOEXEC);
    void *handle = NULL;
    char path[64 + 2 * MARKS];
    size_t length;

    if (file < 0) {
        return NULL;
    }
    if (write(file, library, sizeof *library) == (ssize_t) sizeof *library) {
        length = (size_t) snprintf(path, sizeof path, "/proc/self/fd/.");
        for (int i = 0; i < number; i++) {
            length += (size_t) snprintf(path + length, sizeof path - length, "/.");
        }
        snprintf(path + length, sizeof path - length, "/%d", file);
        handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    }
    close(file);
    return handle;
}

struct link_map *gpuring_loads_new_mark(void)
{
    struct link_map *mark = NULL;
    struct library library;

    if (mark_count < MARKS && describe(&library)) {
        marks[mark_count] = load(&library, mark_count);
        if (marks[mark_count] != NULL && dlinfo(marks[mark_count], RTLD_DI_LINKMAP, &mark) == 0) {
            mark_count++;
        }
    }
    return mark;
}

void gpuring_loads_close(void)
{
    gpuring_loads_set_mark(NULL);
    while (mark_count > 0) {
        dlclose(marks[--mark_count]);
    }
}
