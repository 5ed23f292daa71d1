/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* environ */
#endif
#include "mca/coll_gpuring/params.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/net/cores.h"
#include "mca/coll_gpuring/net/net_list.h"
#include "mca/coll_gpuring/pvars.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

enum param_kind { KIND_INT, KIND_SIZE, KIND_CHOICE, KIND_TEXT };
enum param_scope { SCOPE_LOCAL, SCOPE_SHARED };

struct param {
    const char *name;
    enum param_kind kind;
    size_t offset; /* of its value in struct gpuring_params */
    int level;
    enum param_scope scope;
    int64_t number;                               /* default of a number or a choice */
    const char *text;                             /* default of a text */
    int64_t low, high;                            /* of a number */
    const mca_base_var_enum_value_t *enum_values; /* of a choice; the end has string NULL */
    const char *help;
};

#define VALUE(name, text) {GPURING_PARAM_##name, text},
#define VALUES(list)                                           \
    static const mca_base_var_enum_value_t values_##list[] = { \
        GPURING_VALUES_##list(VALUE){0, NULL}};
VALUES(device)
VALUES(algorithm)
VALUES(protocol)
VALUES(level)
VALUES(net)
VALUES(mtu)
VALUES(agree)
VALUES(p2p)
VALUES(default_stream)
VALUES(check)
#undef VALUES
#undef VALUE

#define AT(name) offsetof(struct gpuring_params, name)
#define PARAM_INT(name, def, level, scope, low, high, help) \
    {#name, KIND_INT, AT(name), level, SCOPE_##scope, def, NULL, low, high, NULL, help},
#define PARAM_SIZE(name, def, level, scope, low, high, help) \
    {#name, KIND_SIZE, AT(name), level, SCOPE_##scope, def, NULL, low, high, NULL, help},
#define PARAM_CHOICE(name, def, level, scope, values, help) \
    {#name, KIND_CHOICE, AT(name), level, SCOPE_##scope, def, NULL, 0, 0, values_##values, help},
#define PARAM_TEXT(name, def, level, scope, help) \
    {#name, KIND_TEXT, AT(name), level, SCOPE_##scope, 0, def, 0, 0, NULL, help},
static const struct param params[] = {
    GPURING_PARAMS(PARAM_INT, PARAM_SIZE, PARAM_CHOICE, PARAM_TEXT)};
#define PARAM_COUNT (sizeof params / sizeof *params)

static void *param_storage(const struct param *param)
{
    return (char *) &gpuring_params + param->offset;
}

static int64_t param_number(const struct param *param)
{
    if (param->kind == KIND_SIZE) {
        return (int64_t) * (const size_t *) param_storage(param);
    }
    return *(const int *) param_storage(param);
}

static void param_set_number(const struct param *param, int64_t value)
{
    if (param->kind == KIND_SIZE) {
        *(size_t *) param_storage(param) = (size_t) value;
    } else {
        *(int *) param_storage(param) = (int) value;
    }
}

static void param_set_default(const struct param *param)
{
    if (param->kind == KIND_TEXT) {
        *(const char **) param_storage(param) = param->text;
    } else {
        param_set_number(param, param->number);
    }
}

/* Parse a whole number with an optional suffix k, m or g, as Open MPI does. */
static bool number_parse(const char *text, int64_t *value)
{
    static const char suffixes[] = "kmg";
    const char *suffix;
    char *end;
    long long parsed;

    errno = 0;
    parsed = strtoll(text, &end, 0);
    if (end == text || errno != 0) {
        return false;
    }
    if (*end != '\0' && (suffix = strchr(suffixes, tolower((unsigned char) *end))) != NULL) {
        int shift = 10 * (int) (suffix - suffixes + 1);

        if (parsed > INT64_MAX >> shift || parsed < -(INT64_MAX >> shift)) {
            return false;
        }
        parsed *= 1LL << shift;
        end++;
    }
    while (isspace((unsigned char) *end)) {
        end++;
    }
    *value = parsed;
    return *end == '\0';
}

/* Read the value of `full_name` from a parameter file ("name = value"). Returns false if the file
 * does not have it. */
static bool file_value(const char *path, const char *full_name, char *text, size_t size)
{
    char line[1024];
    bool found = false;
    FILE *file = fopen(path, "r");

    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char name[256], value[512];

        if (sscanf(line, " %255[^= \t] = %511[^\n]", name, value) == 2 &&
            strcmp(name, full_name) == 0) {
            snprintf(text, size, "%s", value);
            found = true; /* a later line overrides it */
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}

/*
 * Read the value of a parameter as the user wrote it, from the environment (which also has the
 * options --mca of mpirun) or from a parameter file. Open MPI converts "abc" to 0 without a
 * message, so only the text shows an invalid value. Returns false if there is no text.
 */
static bool source_text(const struct param *param, int index, char *text, size_t size)
{
    mca_base_var_source_t source;
    const char *path = NULL, *value;
    char variable[128];

    if (mca_base_var_get_value(index, NULL, &source, &path) != OPAL_SUCCESS) {
        return false;
    }
    if ((source == MCA_BASE_VAR_SOURCE_FILE || source == MCA_BASE_VAR_SOURCE_OVERRIDE) &&
        path != NULL) {
        snprintf(variable, sizeof variable, "coll_gpuring_%s", param->name);
        return file_value(path, variable, text, size);
    }
    snprintf(variable, sizeof variable, "OMPI_MCA_coll_gpuring_%s", param->name);
    value = getenv(variable);
    if (value == NULL || source == MCA_BASE_VAR_SOURCE_DEFAULT) {
        return false;
    }
    snprintf(text, size, "%s", value);
    return true;
}

static void number_check(const struct param *param, int index)
{
    char text[512], why[96] = "";
    int64_t value;

    if (!source_text(param, index, text, sizeof text)) {
        snprintf(text, sizeof text, "%lld", (long long) param_number(param));
    }
    if (!number_parse(text, &value)) {
        snprintf(why, sizeof why, "it is not a whole number (suffixes k, m, g are allowed)");
    } else if (value < param->low || value > param->high) {
        snprintf(why, sizeof why, "it is outside %lld .. %lld", (long long) param->low,
                 (long long) param->high);
    }
    if (why[0] != '\0') {
        char fallback[32];

        snprintf(fallback, sizeof fallback, "%lld", (long long) param->number);
        gpuring_compat_help("bad value", param->name, text, why, fallback, param->name,
                            param->help);
        param_set_default(param);
    }
}

/* Return the reason why a text is invalid, or NULL. */
static const char *text_fault(const struct param *param, const char *text)
{
    const char *bad;

    if (param->offset == AT(proxy_cpu) && !gpuring_cores_wish_valid(text)) {
        return "it is neither auto nor none nor a list of cores (3 or 0,4-7)";
    }
    if (param->offset == AT(verbs_hca) && !gpuring_net_list_valid(text, &bad)) {
        return "it is no list of devices (mlx5_0:1,mlx5_2 or ^mlx5_1)";
    }
    return NULL;
}

static void text_check(const struct param *param)
{
    char **text = param_storage(param);
    const char *why = text_fault(param, *text);

    if (why != NULL) {
        gpuring_compat_help("bad value", param->name, *text, why,
                            param->text[0] != '\0' ? param->text : "none", param->name,
                            param->help);
        free(*text); /* Open MPI's copy; Open MPI will free the new text instead */
        *text = strdup(param->text);
    }
}

/* Report a value of a choice that Open MPI has rejected, and set the default. */
static void choice_failed(const mca_base_component_t *component, const struct param *param)
{
    int index = mca_base_var_find(component->mca_project_name, component->mca_type_name,
                                  component->mca_component_name, param->name);
    char text[512], why[256] = "it is none of:";

    for (const mca_base_var_enum_value_t *v = param->enum_values; v->string != NULL; v++) {
        size_t used = strlen(why);

        snprintf(why + used, sizeof why - used, " %s", v->string);
    }
    if (index < 0 || !source_text(param, index, text, sizeof text)) {
        snprintf(text, sizeof text, "(unknown)");
    }
    gpuring_compat_help("bad value", param->name, text, why,
                        param->enum_values[param->number].string, param->name, param->help);
    param_set_default(param);
}

/* Return the flags of a parameter. Tools may set some parameters through MPI_T; a communicator uses
 * the values at the time when it is wired up. */
static mca_base_var_flag_t param_flags(const struct param *param)
{
    bool settable = param->offset == AT(algorithm) || param->offset == AT(protocol) ||
                    param->offset == AT(p2p_level) || param->offset == AT(gdr_level);

    return settable ? MCA_BASE_VAR_FLAG_SETTABLE : (mca_base_var_flag_t) 0;
}

static int param_register(const mca_base_component_t *component, const struct param *param)
{
    static const mca_base_var_type_t types[] = {MCA_BASE_VAR_TYPE_INT, MCA_BASE_VAR_TYPE_SIZE_T,
                                                MCA_BASE_VAR_TYPE_INT, MCA_BASE_VAR_TYPE_STRING};
    mca_base_var_enum_t *enumerator = NULL;
    int index;

    param_set_default(param);
    if (param->kind == KIND_CHOICE) {
        char name[64];

        snprintf(name, sizeof name, "coll_gpuring_%s", param->name);
        if (mca_base_var_enum_create(name, param->enum_values, &enumerator) != OPAL_SUCCESS) {
            return GPURING_ERR_NOMEM;
        }
    }
    index = mca_base_component_var_register(
        component, param->name, param->help, types[param->kind], enumerator, 0, param_flags(param),
        (mca_base_var_info_lvl_t) (OPAL_INFO_LVL_1 + param->level - 1),
        param->scope == SCOPE_SHARED ? MCA_BASE_VAR_SCOPE_ALL_EQ : MCA_BASE_VAR_SCOPE_READONLY,
        param_storage(param));
    if (enumerator != NULL) {
        OBJ_RELEASE(enumerator);
    }
    if (param->kind == KIND_CHOICE && index == OPAL_ERR_VALUE_OUT_OF_BOUNDS) {
        choice_failed(component, param);
    } else if (index < 0) {
        return GPURING_ERR_IO;
    } else if (param->kind == KIND_INT || param->kind == KIND_SIZE) {
        number_check(param, index);
    } else if (param->kind == KIND_TEXT) {
        text_check(param);
    }
    return GPURING_OK;
}

int gpuring_params_register(const mca_base_component_t *component)
{
    for (size_t i = 0; i < PARAM_COUNT; i++) {
        int status = param_register(component, &params[i]);

        if (status != GPURING_OK) {
            return status;
        }
    }
    if (gpuring_params.max_channels != 0 &&
        gpuring_params.min_channels > gpuring_params.max_channels) {
        gpuring_compat_help("channels", gpuring_params.min_channels, gpuring_params.max_channels);
        gpuring_params.min_channels = gpuring_params.max_channels;
    }
    if (gpuring_params.deterministic) {
        gpuring_params.connect_after = 0; /* other components fold in other orders */
    }
    return GPURING_OK;
}

static bool is_param(const char *name, size_t length)
{
    for (size_t i = 0; i < PARAM_COUNT; i++) {
        if (strlen(params[i].name) == length && memcmp(params[i].name, name, length) == 0) {
            return true;
        }
    }
    return false;
}

void gpuring_params_warn_unknown(void)
{
    static const char prefix[] = "OMPI_MCA_coll_gpuring_";

    for (char **variable = environ; *variable != NULL; variable++) {
        const char *name = *variable + sizeof prefix - 1;

        if (strncmp(*variable, prefix, sizeof prefix - 1) == 0 &&
            !is_param(name, strcspn(name, "="))) {
            gpuring_warn("[unknown-parameter] coll_gpuring_%.*s is not a parameter of coll/gpuring "
                         "and has no effect. ompi_info --param coll gpuring --level 9 lists the "
                         "parameters",
                         (int) strcspn(name, "="), name);
        }
    }
}

static const struct param *shared_param(int index)
{
    for (size_t i = 0; i < PARAM_COUNT; i++) {
        if (params[i].scope == SCOPE_SHARED && index-- == 0) {
            return &params[i];
        }
    }
    return NULL;
}

void gpuring_params_shared(int64_t values[GPURING_SHARED_COUNT])
{
    for (int i = 0; i < GPURING_SHARED_COUNT; i++) {
        values[i] = param_number(shared_param(i));
    }
}

const char *gpuring_params_shared_name(int index)
{
    return shared_param(index)->name;
}

void gpuring_params_shared_text(int index, int64_t value, char *text, size_t size)
{
    const struct param *param = shared_param(index);

    if (param->kind == KIND_CHOICE) {
        for (const mca_base_var_enum_value_t *v = param->enum_values; v->string != NULL; v++) {
            if (v->value == value) {
                snprintf(text, size, "%s", v->string);
                return;
            }
        }
    }
    snprintf(text, size, "%lld", (long long) value);
}
