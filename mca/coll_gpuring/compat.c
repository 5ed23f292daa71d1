/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr */
#endif
#include "mca/coll_gpuring/compat.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ompi/mca/pml/base/base.h"
#include "opal/util/proc.h"
#include "opal/util/show_help.h"
#if OMPI_MAJOR_VERSION < 5
#include "opal/mca/pmix/pmix.h"
#include "opal/runtime/opal_params.h"
#else
#include "opal/mca/accelerator/base/base.h"
#endif

#include "gpuring_config.h"
#include "mca/coll_gpuring/util/hash.h"

#define HELP_FILE "help-mpi-coll-gpuring.txt"

const char *gpuring_compat_host(struct ompi_communicator_t *comm, int rank)
{
    ompi_proc_t *proc = ompi_group_peer_lookup(comm->c_local_group, rank);
    const char *name = proc != NULL ? opal_get_proc_hostname(&proc->super) : NULL;

    return name != NULL ? name : "unknown";
}

/* The key of an attribute whose delete function MPI_Comm_free calls. The destructor of the
 * communicator is no substitute, because Open MPI calls it only when no request holds the
 * communicator any longer. */
static struct {
    pthread_mutex_t lock; /* guards the key */
    int key;
    void (*function)(void *);
} on_free = {.lock = PTHREAD_MUTEX_INITIALIZER, .key = MPI_KEYVAL_INVALID};

static int on_free_call(MPI_Comm comm, int key, void *argument, void *extra)
{
    (void) comm;
    (void) key;
    (void) extra;
    on_free.function(argument);
    return MPI_SUCCESS;
}

void gpuring_compat_on_free_open(void (*function)(void *))
{
    on_free.function = function;
}

void gpuring_compat_on_free(struct ompi_communicator_t *comm, void *argument)
{
    int code = MPI_SUCCESS;

    if (comm == MPI_COMM_WORLD) {
        return;
    }
    pthread_mutex_lock(&on_free.lock);
    if (on_free.key == MPI_KEYVAL_INVALID) {
        code = PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_free_call, &on_free.key, NULL);
    }
    pthread_mutex_unlock(&on_free.lock);
    if (code == MPI_SUCCESS) {
        (void) PMPI_Comm_set_attr(comm, on_free.key, argument);
    }
}

void gpuring_compat_on_free_close(void)
{
    on_free.key = MPI_KEYVAL_INVALID;
}

static int on_finalize_call(MPI_Comm comm, int key, void *argument, void *extra)
{
    (void) comm;
    (void) key;
    (void) argument;
    (*(void (**)(void)) extra)();
    return MPI_SUCCESS;
}

/* MPI_Finalize first deletes the attributes of MPI_COMM_SELF. */
bool gpuring_compat_on_finalize(void (*function)(void))
{
    static void (*called)(void);
    int key = MPI_KEYVAL_INVALID;

    called = function;
    return PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize_call, &key, &called) ==
               MPI_SUCCESS &&
           PMPI_Comm_set_attr(MPI_COMM_SELF, key, NULL) == MPI_SUCCESS &&
           PMPI_Comm_free_keyval(&key) == MPI_SUCCESS;
}

uint64_t gpuring_compat_processes(struct ompi_communicator_t *comm)
{
    uint64_t hash = GPURING_HASH_START;

    for (int rank = 0; rank < ompi_comm_size(comm); rank++) {
        opal_process_name_t name = ompi_group_get_proc_name(comm->c_local_group, rank);

        hash = gpuring_hash_number(hash, (uint64_t) name.jobid << 32 | name.vpid);
    }
    return hash;
}

#define PUBLISHED "coll.gpuring"

void gpuring_compat_publish(uint32_t word)
{
#if OMPI_MAJOR_VERSION < 5
    int code;

    if (opal_pmix.put != NULL) {
        OPAL_MODEX_SEND_VALUE(code, OPAL_PMIX_GLOBAL, PUBLISHED, &word, OPAL_UINT32);
        (void) code;
    }
#else
    (void) word;
#endif
}

bool gpuring_compat_published(struct ompi_communicator_t *comm, int rank, uint32_t *word)
{
#if OMPI_MAJOR_VERSION < 5
    opal_process_name_t name = ompi_group_get_proc_name(comm->c_local_group, rank);
    int code = OPAL_ERR_NOT_FOUND;

    if (opal_pmix.get != NULL && name.jobid == ompi_proc_local()->super.proc_name.jobid) {
        OPAL_MODEX_RECV_VALUE_IMMEDIATE(code, PUBLISHED, &name, &word, OPAL_UINT32);
    }
    return code == OPAL_SUCCESS;
#else
    (void) comm;
    (void) rank;
    (void) word;
    return false;
#endif
}

bool gpuring_compat_cuda_aware(void)
{
#if OMPI_MAJOR_VERSION < 5
    bool cuda = opal_built_with_cuda_support && opal_cuda_support;
#else
    bool cuda = strcmp(opal_accelerator_base_selected_component.base_version.mca_component_name,
                       "cuda") == 0;
#endif

    return cuda &&
           strcmp(mca_pml_base_selected_component.pmlm_version.mca_component_name, "ob1") == 0;
}

/* The component is part of the name of the module's class, mca_coll_<component>_module_t. Modules
 * have no pointer to their component. */
const char *gpuring_compat_component(const mca_coll_base_module_t *module)
{
    static const char prefix[] = "mca_coll_", suffix[] = "_module_t";
    const char *name = module->super.obj_class->cls_name;
    const char *end = strstr(name, suffix);
    static char text[64];

    if (strncmp(name, prefix, sizeof prefix - 1) != 0 || end == NULL) {
        return "another component";
    }
    name += sizeof prefix - 1;
    snprintf(text, sizeof text, "coll/%.*s", (int) (end - name), name);
    return text;
}

/*
 * The texts of the help file are also compiled in, for components that were copied without the
 * file, and to recognise a file of another version. The object has the unchanged file and a
 * terminating zero. The build copies the file to the directory in which the compiler runs.
 */
__asm__(".pushsection .rodata\n"
        ".globl gpuring_help_texts\n"
        ".hidden gpuring_help_texts\n"
        ".type gpuring_help_texts, %object\n"
        "gpuring_help_texts:\n"
        ".incbin \".libs/help-mpi-coll-gpuring.txt\"\n"
        ".byte 0\n"
        ".size gpuring_help_texts, . - gpuring_help_texts\n"
        ".popsection\n");
extern const char gpuring_help_texts[];

/* Copy the text of a topic, which is a format for printf. Store an empty string if there is no such
 * topic. */
static void help_format(const char *topic, char *format, size_t size)
{
    const char *begin, *end;
    char title[64];

    snprintf(title, sizeof title, "\n[%s]\n", topic);
    begin = strstr(gpuring_help_texts, title);
    begin = begin != NULL ? begin + strlen(title) : "";
    end = strstr(begin, "\n#");
    snprintf(format, size, "%.*s", end != NULL ? (int) (end + 1 - begin) : 0, begin);
}

#if OMPI_MAJOR_VERSION < 5
#define HELP_AGGREGATE "orte_base_help_aggregate"
#else
#define HELP_AGGREGATE "opal_base_help_aggregate"
#endif

/* Return true if a process of this job on this node has printed the text. The first one creates a
 * file in the folder of the job, which mpirun removes. Return false if the user has switched off
 * aggregation, or if there is no such folder, so that no text is lost. */
static bool help_printed(const char *text)
{
    const uint64_t hash = gpuring_hash_bytes(GPURING_HASH_START, text, strlen(text));
    const char *folder = opal_process_info.job_session_dir;
    const bool *aggregate = NULL;
    char path[4096];
    int index, file;

    if (mca_base_var_find_by_name(HELP_AGGREGATE, &index) == OPAL_SUCCESS) {
        (void) mca_base_var_get_value(index, &aggregate, NULL, NULL);
    }
    if (folder == NULL || aggregate == NULL || !*aggregate) {
        return false;
    }
    snprintf(path, sizeof path, "%s/gpuring-help.%016" PRIx64, folder, hash);
    file = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (file >= 0) {
        close(file);
    }
    return file < 0 && errno == EEXIST;
}

static bool help_file_found;

#if OMPI_MAJOR_VERSION >= 6
/* Open MPI 6.0 and later do not read help files of other components. */
static void find_help_file(void)
{
}
#else
/* Return true if the file in this folder has the same texts. */
static bool help_same(const char *folder)
{
    const char *texts = gpuring_help_texts;
    char part[1024], path[4200];
    size_t n = 0;
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", folder, HELP_FILE);
    file = fopen(path, "r");
    while (file != NULL && (n = fread(part, 1, sizeof part, file)) > 0 && strnlen(texts, n) == n &&
           memcmp(part, texts, n) == 0) {
        texts += n;
    }
    if (file != NULL) {
        fclose(file);
    }
    return file != NULL && n == 0 && *texts == '\0';
}

/* Look for the help file next to the component, which may not be installed yet, and in the folder
 * in which it is installed. If it is in neither, the texts that are compiled in are used. */
static void find_help_file(void)
{
    char beside[4096] = "";
    const char *const folders[] = {beside, GPURING_HELP_DIR};
    Dl_info info;

    if (dladdr((const void *) (uintptr_t) gpuring_compat_error, &info) != 0) {
        snprintf(beside, sizeof beside, "%s", info.dli_fname);
        (void) dirname(beside);
    }
    for (int i = 0; i < 2 && !help_file_found; i++) {
        help_file_found = help_same(folders[i]);
        if (help_file_found) {
            opal_show_help_add_dir(folders[i]);
        }
    }
}
#endif

void gpuring_compat_help(const char *topic, ...)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char format[4096], text[16384];
    va_list arguments;

    pthread_once(&once, find_help_file);
    help_format(topic, format, sizeof format);
    va_start(arguments, topic);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if ((OMPI_MAJOR_VERSION < 5 || !help_file_found) && help_printed(text)) {
        return;
    }
    va_start(arguments, topic);
    if (help_file_found) {
        opal_show_vhelp(HELP_FILE, topic, true, arguments);
    } else {
        opal_output(0, "coll/gpuring: %s\n%s", topic, text);
    }
    va_end(arguments);
}
