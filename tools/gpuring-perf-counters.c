/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Performance variables and parameters of coll/gpuring, read through MPI_T. */
#include "gpuring-perf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX    "coll_gpuring_"
#define NAME_ROOM 256
#define TEXT_ROOM 1024

static MPI_T_pvar_session session;
static MPI_T_pvar_handle handles[PERF_COUNTER_COUNT];
static bool found[PERF_COUNTER_COUNT];
static bool is_open;

static const char *const names[] = {
#define COUNTER_NAME(name) PREFIX #name,
    PERF_COUNTERS(COUNTER_NAME)
#undef COUNTER_NAME
};

/* Attach to the variable of a counter, if this component has it. All of them are continuous and
 * have one element. */
static void counter_attach(enum perf_counter counter)
{
    int index, elements = 0;

    if (MPI_T_pvar_get_index(names[counter], MPI_T_PVAR_CLASS_COUNTER, &index) != MPI_SUCCESS) {
        return;
    }
    found[counter] =
        MPI_T_pvar_handle_alloc(session, index, NULL, &handles[counter], &elements) == MPI_SUCCESS;
    if (!found[counter]) {
        perf_message("cannot read the performance variable %s", names[counter]);
    }
}

int perf_counters_open(void)
{
    int provided;

    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS ||
        MPI_T_pvar_session_create(&session) != MPI_SUCCESS) {
        return perf_message(
            "MPI_T does not start, so it is unknown which component serves the calls");
    }
    is_open = true;
    for (int counter = 0; counter < PERF_COUNTER_COUNT; counter++) {
        counter_attach((enum perf_counter) counter);
    }
    return 0;
}

void perf_counters_close(void)
{
    if (!is_open) {
        return;
    }
    /* Free the handles before MPI_Finalize. Open MPI 4.1 crashes if they exist later. */
    for (int counter = 0; counter < PERF_COUNTER_COUNT; counter++) {
        if (found[counter]) {
            (void) MPI_T_pvar_handle_free(session, &handles[counter]);
            found[counter] = false;
        }
    }
    (void) MPI_T_pvar_session_free(&session);
    (void) MPI_T_finalize();
    is_open = false;
}

bool perf_counters_present(void)
{
    return found[PERF_COUNTER_calls];
}

int perf_counters_read(struct perf_counts *counts)
{
    memset(counts, 0, sizeof *counts);
    for (int counter = 0; counter < PERF_COUNTER_COUNT; counter++) {
        unsigned long long value = 0;

        if (!found[counter]) {
            continue;
        }
        if (MPI_T_pvar_read(session, handles[counter], &value) != MPI_SUCCESS) {
            perf_message("cannot read the performance variable %s", names[counter]);
            return -1;
        }
        counts->value[counter] = value;
    }
    return 0;
}

int perf_counters_nodes(void)
{
    MPI_T_pvar_handle handle;
    unsigned long long nodes = 0;
    int index, elements = 0;

    if (!is_open ||
        MPI_T_pvar_get_index(PREFIX "nodes", MPI_T_PVAR_CLASS_LEVEL, &index) != MPI_SUCCESS ||
        MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &elements) != MPI_SUCCESS) {
        return -1;
    }
    if (MPI_T_pvar_read(session, handle, &nodes) != MPI_SUCCESS) {
        nodes = 0;
    }
    (void) MPI_T_pvar_handle_free(session, &handle);
    return nodes > 0 ? (int) nodes : -1;
}

int perf_counters_since(const struct perf_counts *before, struct perf_counts *since)
{
    int status = perf_counters_read(since);

    for (int counter = 0; counter < PERF_COUNTER_COUNT; counter++) {
        since->value[counter] -= before->value[counter];
    }
    return status;
}

/* Return the text of a performance variable, to be freed, or NULL if there is none. */
static char *read_text(const char *name)
{
    MPI_T_pvar_handle handle;
    char *text = NULL;
    int index, room = 0;

    if (!is_open || MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_GENERIC, &index) != MPI_SUCCESS ||
        MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &room) != MPI_SUCCESS) {
        return NULL;
    }
    text = calloc(1, (size_t) room + 1);
    if (text != NULL && MPI_T_pvar_read(session, handle, text) != MPI_SUCCESS) {
        text[0] = '\0';
    }
    (void) MPI_T_pvar_handle_free(session, &handle);
    return text;
}

void perf_counters_previous(const char *collective, char *text, size_t room)
{
    char *all = read_text(PREFIX "previous"), *rest = all, *word;
    size_t length = strlen(collective);

    snprintf(text, room, "previous");
    while (rest != NULL && (word = strsep(&rest, " ")) != NULL) {
        if (strncmp(word, collective, length) == 0 && word[length] == '=') {
            snprintf(text, room, "%s", word + length + 1);
        }
    }
    free(all);
}

/* A parameter of coll/gpuring. */
struct parameter {
    char name[NAME_ROOM];
    MPI_T_cvar_handle handle;
    MPI_Datatype type;
    MPI_T_enum enumeration; /* or MPI_T_ENUM_NULL */
    int elements;
};

/* Find a parameter. If it is found, the caller frees its handle. */
static bool parameter_open(const char *name, struct parameter *parameter)
{
    char about[TEXT_ROOM];
    int index, room = NAME_ROOM, about_room = sizeof about, verbosity, bind, scope;

    snprintf(parameter->name, sizeof parameter->name, PREFIX "%s", name);
    return is_open && MPI_T_cvar_get_index(parameter->name, &index) == MPI_SUCCESS &&
           MPI_T_cvar_get_info(index, parameter->name, &room, &verbosity, &parameter->type,
                               &parameter->enumeration, about, &about_room, &bind,
                               &scope) == MPI_SUCCESS &&
           MPI_T_cvar_handle_alloc(index, NULL, &parameter->handle, &parameter->elements) ==
               MPI_SUCCESS;
}

/* Find the item of an enumeration with this name, or if `name` is "", with this number. */
static bool find_item(MPI_T_enum enumeration, char name[TEXT_ROOM], int *number)
{
    char found_name[TEXT_ROOM];
    int items = 0, room = sizeof found_name, found_number;

    if (enumeration == MPI_T_ENUM_NULL ||
        MPI_T_enum_get_info(enumeration, &items, found_name, &room) != MPI_SUCCESS) {
        return false;
    }
    for (int item = 0; item < items; item++) {
        room = sizeof found_name;
        if (MPI_T_enum_get_item(enumeration, item, &found_number, found_name, &room) ==
                MPI_SUCCESS &&
            (name[0] != '\0' ? strcmp(found_name, name) == 0 : found_number == *number)) {
            memcpy(name, found_name, sizeof found_name);
            *number = found_number;
            return true;
        }
    }
    return false;
}

int perf_counters_set(const char *name, const char *value)
{
    struct parameter parameter;
    char item[TEXT_ROOM];
    int number, status = -1;

    snprintf(item, sizeof item, "%s", value);
    if (parameter_open(name, &parameter)) {
        if (find_item(parameter.enumeration, item, &number) &&
            MPI_T_cvar_write(parameter.handle, &number) == MPI_SUCCESS) {
            status = 0;
        }
        (void) MPI_T_cvar_handle_free(&parameter.handle);
    }
    if (status != 0) {
        perf_message("the parameter %s cannot be set to %s", parameter.name, value);
    }
    return status;
}

void perf_counters_parameter(const char *name, char *text, size_t room)
{
    struct parameter parameter;
    char value[TEXT_ROOM] = "";
    int number = 0;

    text[0] = '\0';
    if (!parameter_open(name, &parameter)) {
        return;
    }
    if (parameter.type == MPI_CHAR && parameter.elements <= TEXT_ROOM &&
        MPI_T_cvar_read(parameter.handle, value) == MPI_SUCCESS) {
        snprintf(text, room, "%s", value);
    } else if (parameter.type == MPI_INT &&
               MPI_T_cvar_read(parameter.handle, &number) == MPI_SUCCESS) {
        snprintf(text, room, "%d", number);
        if (find_item(parameter.enumeration, value, &number)) {
            snprintf(text, room, "%s", value);
        }
    }
    (void) MPI_T_cvar_handle_free(&parameter.handle);
}

const char *perf_counters_absent(void)
{
    static char text[TEXT_ROOM];
    const char *path = getenv("OMPI_MCA_mca_base_component_path");

    snprintf(text, sizeof text,
             "coll/gpuring is not loaded: Open MPI looks for components in %s "
             "(mca_base_component_path). Run with gpuring-run, which adds the folder of "
             "coll/gpuring",
             path != NULL ? path : "its own folders only");
    return text;
}
