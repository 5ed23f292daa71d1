/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The component: registration, opening and closing. Its structure and the table of
 * libgpuring_stream.so are the only visible symbols of this DSO. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/p2p/aware.h"
#include "mca/coll_gpuring/p2p/p2p.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/pvars.h"
#include "mca/coll_gpuring/progress/task.h"
#include "mca/coll_gpuring/serve/serve.h"
#include "mca/coll_gpuring/stage/buffers.h"
#include "mca/coll_gpuring/stage/stage_call.h"
#include "mca/coll_gpuring/stream/stream_calls.h"
#include "mca/coll_gpuring/topology/identity.h"
#include "mca/coll_gpuring/topology/node_topology.h"
#include "mca/coll_gpuring/transport/transport.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/log_file.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/wireup/wireup.h"

#include "gpuring_config.h"

/* Open MPI's structure, followed by fields for libgpuring_aware.so. */
extern struct gpuring_aware_component mca_coll_gpuring_component;

static int component_register(void)
{
    const mca_base_component_t *version = &mca_coll_gpuring_component.super.collm_version;

    gpuring_pvar_previous_text = gpuring_module_previous_text;
    if (gpuring_params_register(version) != GPURING_OK ||
        gpuring_pvars_register(version) != GPURING_OK) {
        return OMPI_ERROR;
    }
    return OMPI_SUCCESS;
}

static int log_file = -1; /* descriptor of coll_gpuring_log_file, or -1 */

/* Log a line `host:pid:rank [dev] gpuring INFO text` to the log file or Open MPI's output. Errors
 * and warnings go to both. */
static void log_line(enum gpuring_log_level level, const char *text)
{
    char rank[16] = "-", line[1152];

    if (gpuring_process.world_rank >= 0) {
        snprintf(rank, sizeof rank, "%d", gpuring_process.world_rank);
    }
    snprintf(line, sizeof line, "%s:%d:%s [%s] gpuring %s %s", gpuring_process.hostname,
             (int) getpid(), rank,
             gpuring_process.device_ops != NULL ? gpuring_process.device_ops->name : "-",
             gpuring_log_level_name(level), text);
    if (log_file >= 0) {
        gpuring_log_file_write(log_file, line);
    }
    if (log_file < 0 || level <= GPURING_LOG_WARN) {
        opal_output(gpuring_process.output, "%s", line);
    }
}

static void log_file_open(void)
{
    char path[PATH_MAX];

    if (!gpuring_param_given(gpuring_params.log_file)) {
        return;
    }
    if (gpuring_log_file_path(gpuring_params.log_file, gpuring_process.hostname, path,
                              sizeof path) != GPURING_OK) {
        gpuring_warn("[log-file] coll_gpuring_log_file=%s is not a valid path: only h, p or "
                     "%% may follow a %%; the log is written to standard error",
                     gpuring_params.log_file);
        return;
    }
    log_file = gpuring_log_file_open(path);
    if (log_file < 0) {
        gpuring_warn("[log-file] cannot append to %s: %s; the log is written to standard error",
                     path, strerror(errno));
    }
}

static void log_open(void)
{
    static char no_prefix[] = "";
    opal_output_stream_t stream;

    OBJ_CONSTRUCT(&stream, opal_output_stream_t);
    stream.lds_want_stderr = true;
    stream.lds_prefix = no_prefix; /* log_line adds its own prefix */
    gpuring_process.output = opal_output_open(&stream);
    stream.lds_prefix = NULL; /* the destructor must not free it */
    OBJ_DESTRUCT(&stream);
    gpuring_log_set(log_line, (enum gpuring_log_level)(GPURING_LOG_WARN + gpuring_params.verbose));
    log_file_open();
}

static void log_close(void)
{
    gpuring_log_set(NULL, GPURING_LOG_WARN);
    if (log_file >= 0) {
        close(log_file);
        log_file = -1;
    }
    if (gpuring_process.output >= 0) {
        opal_output_close(gpuring_process.output);
        gpuring_process.output = -1;
    }
}

static int component_open(void)
{
    gpuring_identity_hostname(gpuring_process.hostname, sizeof gpuring_process.hostname);
    log_open();
    gpuring_tasks_open(opal_progress_register, opal_progress_unregister);
    gpuring_compat_on_free_open(gpuring_module_freed);
    gpuring_peers_publish();
    return OMPI_SUCCESS;
}

#define PEERS_MS 2000 /* peers reach this point at about the same time */

/* Open MPI has already destroyed the modules of communicators that the program has leaked, unless a
 * request still holds one of them. */
static int component_close(void)
{
    gpuring_p2p_close();
    gpuring_tasks_close();
    gpuring_stream_finish();
    gpuring_reuse_clear();
    if (gpuring_process.modules > 0) {
        gpuring_warn("[not-freed] the program has not freed all communicators: their connections "
                     "end with the process");
        (void) gpuring_network_stop();
    } else {
        gpuring_stage_buffers_close();
        if (gpuring_network_stop()) {
            gpuring_transport_unlink(PEERS_MS);
            gpuring_network_close();
        }
        gpuring_transport_finish(PEERS_MS);
        gpuring_process_close();
        gpuring_local_topology_close();
    }
    gpuring_compat_errors_forget();
    gpuring_compat_on_free_close();
    log_close();
    return OMPI_SUCCESS;
}

static int component_init_query(bool enable_progress_threads, bool enable_mpi_threads)
{
    (void) enable_progress_threads;
    gpuring_process.threads = enable_mpi_threads;
    if (gpuring_params.priority > 0) {
        gpuring_eligible_init();
        gpuring_process_open_device();
        gpuring_process_open_tuning();
    }
    return OMPI_SUCCESS;
}

struct gpuring_aware_component mca_coll_gpuring_component = {
    .super =
        {
            .collm_version =
                {
                    GPURING_COLL_VERSION,
                    .mca_component_name = "gpuring",
                    MCA_BASE_MAKE_VERSION(component, GPURING_VERSION_MAJOR, GPURING_VERSION_MINOR,
                                          GPURING_VERSION_RELEASE),
                    .mca_open_component = component_open,
                    .mca_close_component = component_close,
                    .mca_register_component_params = component_register,
                },
            .collm_data = {.param_field = MCA_BASE_METADATA_PARAM_NONE},
            .collm_init_query = component_init_query,
            .collm_comm_query = mca_coll_gpuring_comm_query,
        },
    .aware = &gpuring_p2p_aware,
};

#if defined(MCA_BASE_COMPONENT_INIT)
MCA_BASE_COMPONENT_INIT(ompi, coll, gpuring)
#endif
