/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* Messages of the component. */

#include "mca/topo_pci/topo_pci.h"

#include <stdarg.h>
#include <stdio.h>

static int stream;

void topo_pci_report_open(void)
{
    stream = opal_output_open(NULL);
    opal_output_set_verbosity(stream, topo_pci_parameters.verbose);
}

void topo_pci_report_close(void)
{
    opal_output_close(stream);
}

void topo_pci_report(int level, const char *format, ...)
{
    char text[512];
    va_list arguments;

    if (topo_pci_parameters.verbose < level) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    opal_output(stream, "topo/pci: %s", text);
}
