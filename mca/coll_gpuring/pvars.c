/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/pvars.h"

#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/util/status.h"

unsigned long long gpuring_pvar_values[GPURING_PVAR_COUNT];
void (*gpuring_pvar_previous_text)(char *text, size_t room);

static int get_previous(const struct mca_base_pvar_t *pvar, void *value, void *object)
{
    (void) pvar;
    (void) object;
    ((char *) value)[0] = '\0';
    if (gpuring_pvar_previous_text != NULL) {
        gpuring_pvar_previous_text(value, GPURING_PVAR_TEXT);
    }
    return OPAL_SUCCESS;
}

/* Set the number of characters for which the reader of a text must have room. */
static int text_notify(struct mca_base_pvar_t *pvar, mca_base_pvar_event_t event, void *object,
                       int *count)
{
    (void) pvar;
    (void) object;
    if (event == MCA_BASE_PVAR_HANDLE_BIND) {
        *count = GPURING_PVAR_TEXT;
    }
    return OPAL_SUCCESS;
}

static int text_register(const mca_base_component_t *component, const char *name, const char *help,
                         mca_base_get_value_fn_t get)
{
    return mca_base_component_pvar_register(
        component, name, help, OPAL_INFO_LVL_4, MCA_BASE_PVAR_CLASS_GENERIC,
        MCA_BASE_VAR_TYPE_STRING, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
        MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, get, NULL, text_notify, NULL);
}

static int pvar_register(const mca_base_component_t *component, const char *name, const char *help,
                         int class, mca_base_get_value_fn_t get, void *counter)
{
    return mca_base_component_pvar_register(
        component, name, help, OPAL_INFO_LVL_4, class, MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL,
        MCA_BASE_VAR_BIND_NO_OBJECT, MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS,
        get, NULL, NULL, counter);
}

int gpuring_pvars_register(const mca_base_component_t *component)
{
    bool failed = false;

#define REGISTER(name, help)                                                           \
    failed |= pvar_register(component, #name, help, MCA_BASE_PVAR_CLASS_COUNTER, NULL, \
                            &gpuring_pvar_values[GPURING_PVAR_##name]) < 0;
    GPURING_PVARS(REGISTER)
#undef REGISTER
#define REGISTER(name, help)                                                         \
    failed |= pvar_register(component, #name, help, MCA_BASE_PVAR_CLASS_LEVEL, NULL, \
                            &gpuring_pvar_values[GPURING_PVAR_##name]) < 0;
    GPURING_LEVEL_PVARS(REGISTER)
#undef REGISTER
#define REGISTER(name, help)                                                           \
    failed |= pvar_register(component, #name, help, MCA_BASE_PVAR_CLASS_COUNTER, NULL, \
                            &gpuring_process.net_counts.name) < 0;
    GPURING_NET_PVARS(REGISTER)
#undef REGISTER
#define REGISTER(name, help) failed |= text_register(component, #name, help, get_##name) < 0;
    GPURING_TEXT_PVARS(REGISTER)
#undef REGISTER
    return failed ? GPURING_ERR_IO : GPURING_OK;
}
