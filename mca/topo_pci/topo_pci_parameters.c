/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/*
 * Parameters. Open MPI silently reads an integer such as "abc" as 0. An enumerator that accepts the
 * integers of a range makes it reject such values with a message that contains them.
 */

#include "mca/topo_pci/topo_pci.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

struct topo_pci_parameters topo_pci_parameters;

typedef struct {
    mca_base_var_enum_t super;
    int low;
    int high;
} range_t;

static int range_count(mca_base_var_enum_t *self, int *count)
{
    (void) self;
    *count = 0;
    return OPAL_SUCCESS;
}

static int range_from_string(mca_base_var_enum_t *self, const char *string, int *value)
{
    const range_t *range = (const range_t *) self;
    char *end;
    long parsed;

    errno = 0;
    parsed = strtol(string, &end, 0);
    if (errno != 0 || end == string || *end != '\0' || parsed < range->low ||
        parsed > range->high) {
        return OPAL_ERR_VALUE_OUT_OF_BOUNDS;
    }
    if (value) {
        *value = (int) parsed;
    }
    return OPAL_SUCCESS;
}

static int range_to_string(mca_base_var_enum_t *self, const int value, char **string)
{
    const range_t *range = (const range_t *) self;

    if (value < range->low || value > range->high) {
        return OPAL_ERR_VALUE_OUT_OF_BOUNDS;
    }
    if (string && asprintf(string, "%d", value) < 0) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    return OPAL_SUCCESS;
}

static int range_dump(TOPO_PCI_DUMP_ARGUMENTS)
{
    const range_t *range = (const range_t *) self;

    TOPO_PCI_DUMP_UNUSED;
    return asprintf(out, "an integer from %d to %d", range->low, range->high) < 0
               ? OPAL_ERR_OUT_OF_RESOURCE
               : OPAL_SUCCESS;
}

static void range_construct(range_t *range)
{
    range->super.get_count = range_count;
    range->super.value_from_string = range_from_string;
    range->super.string_from_value = range_to_string;
    range->super.dump = range_dump;
    range->low = INT_MIN;
    range->high = INT_MAX;
}

static OBJ_CLASS_INSTANCE(range_t, mca_base_var_enum_t, range_construct, NULL);

static int integer_register(const mca_base_component_t *component, const char *name,
                            const char *text, int low, int high, mca_base_var_info_lvl_t level,
                            int *storage)
{
    range_t *range = OBJ_NEW(range_t);
    int rc;

    if (!range) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    range->low = low;
    range->high = high;
    rc =
        mca_base_component_var_register(component, name, text, MCA_BASE_VAR_TYPE_INT, &range->super,
                                        0, 0, level, MCA_BASE_VAR_SCOPE_READONLY, storage);
    OBJ_RELEASE(range);
    return rc < 0 ? rc : OMPI_SUCCESS;
}

int topo_pci_parameters_register(const mca_base_component_t *component)
{
    int rc = OMPI_SUCCESS;

#define REGISTER(NAME, DEFAULT, LOW, HIGH, LEVEL, TEXT)                                            \
    if (rc == OMPI_SUCCESS) {                                                                      \
        topo_pci_parameters.NAME = DEFAULT;                                                        \
        rc =                                                                                       \
            integer_register(component, #NAME, TEXT, LOW, HIGH, LEVEL, &topo_pci_parameters.NAME); \
    }
    TOPO_PCI_INT_PARAMETERS(REGISTER)
#undef REGISTER
    if (rc == OMPI_SUCCESS) {
        topo_pci_parameters.hostid = NULL;
        rc = mca_base_component_var_register(
            component, "hostid",
            "Identity of this process's host, any text; empty (default) selects the running "
            "kernel, and different texts on one machine simulate several hosts.",
            MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0, OPAL_INFO_LVL_6, MCA_BASE_VAR_SCOPE_READONLY,
            &topo_pci_parameters.hostid);
        rc = rc < 0 ? rc : OMPI_SUCCESS;
    }
    return rc;
}
