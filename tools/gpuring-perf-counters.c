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

/* Attach to a variable. Do not start a continuous one, which Open MPI starts itself. */
static int counter_attach(int index, enum perf_counter counter, int continuous)
{
    int elements = 0;

    if (MPI_T_pvar_handle_alloc(session, index, NULL, &handles[counter], &elements) !=
        MPI_SUCCESS) {
        perf_message("cannot read the performance variable %s", names[counter]);
        return -1;
    }
    if (elements != 1) {
        perf_message("the performance variable %s has %d elements, not 1", names[counter],
                     elements);
        (void) MPI_T_pvar_handle_free(session, &handles[counter]);
        return -1;
    }
    if (!continuous && MPI_T_pvar_start(session, handles[counter]) != MPI_SUCCESS) {
        perf_message("cannot start the performance variable %s", names[counter]);
        (void) MPI_T_pvar_handle_free(session, &handles[counter]);
        return -1;
    }
    found[counter] = true;
    return 0;
}

int perf_counters_open(void)
{
    int provided, count = 0;

    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS ||
        MPI_T_pvar_session_create(&session) != MPI_SUCCESS ||
        MPI_T_pvar_get_num(&count) != MPI_SUCCESS) {
        perf_message("MPI_T does not start, so it is unknown which component serves the calls");
        return -1;
    }
    is_open = true;
    for (int index = 0; index < count; index++) {
        char name[NAME_ROOM], text[TEXT_ROOM];
        int name_room = NAME_ROOM, text_room = TEXT_ROOM;
        int verbosity, class, bind, readonly, continuous, atomic;
        MPI_Datatype type;
        MPI_T_enum enumeration;

        if (MPI_T_pvar_get_info(index, name, &name_room, &verbosity, &class, &type, &enumeration,
                                text, &text_room, &bind, &readonly, &continuous,
                                &atomic) != MPI_SUCCESS ||
            bind != MPI_T_BIND_NO_OBJECT) {
            continue;
        }
        for (int counter = 0; counter < PERF_COUNTER_COUNT; counter++) {
            if (!found[counter] && strcmp(name, names[counter]) == 0 &&
                type == MPI_UNSIGNED_LONG_LONG) {
                (void) counter_attach(index, (enum perf_counter) counter, continuous);
            }
        }
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

/* Write the value of a parameter as text. If it has an enumeration, write the name of the value. */
static void parameter_text(MPI_T_cvar_handle handle, MPI_Datatype type, MPI_T_enum enumeration,
                           char *text, size_t room)
{
    char value[TEXT_ROOM] = "";
    int number = 0, items = 0;

    if (type == MPI_CHAR) {
        if (MPI_T_cvar_read(handle, value) == MPI_SUCCESS) {
            snprintf(text, room, "%s", value);
        }
        return;
    }
    if (type != MPI_INT || MPI_T_cvar_read(handle, &number) != MPI_SUCCESS) {
        return;
    }
    snprintf(text, room, "%d", number);
    if (enumeration == MPI_T_ENUM_NULL) {
        return;
    }
    int value_room = sizeof value;

    if (MPI_T_enum_get_info(enumeration, &items, value, &value_room) != MPI_SUCCESS) {
        return;
    }
    for (int item = 0; item < items; item++) {
        int item_value, item_room = sizeof value;

        if (MPI_T_enum_get_item(enumeration, item, &item_value, value, &item_room) == MPI_SUCCESS &&
            item_value == number) {
            snprintf(text, room, "%s", value);
            return;
        }
    }
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

/* Find the number of an item of an enumeration. */
static int item_number(MPI_T_enum enumeration, const char *wanted, int *number)
{
    char name[TEXT_ROOM];
    int items = 0, room = sizeof name;

    if (MPI_T_enum_get_info(enumeration, &items, name, &room) != MPI_SUCCESS) {
        return -1;
    }
    for (int item = 0; item < items; item++) {
        room = sizeof name;
        if (MPI_T_enum_get_item(enumeration, item, number, name, &room) == MPI_SUCCESS &&
            strcmp(name, wanted) == 0) {
            return 0;
        }
    }
    return -1;
}

int perf_counters_set(const char *parameter, const char *value)
{
    char wanted[NAME_ROOM], name[NAME_ROOM], about[TEXT_ROOM];
    int index, number, elements, name_room = sizeof name, about_room = sizeof about;
    int verbosity, bind, scope, status = -1;
    MPI_Datatype type;
    MPI_T_enum enumeration = MPI_T_ENUM_NULL;
    MPI_T_cvar_handle handle;

    snprintf(wanted, sizeof wanted, PREFIX "%s", parameter);
    if (MPI_T_cvar_get_index(wanted, &index) == MPI_SUCCESS &&
        MPI_T_cvar_get_info(index, name, &name_room, &verbosity, &type, &enumeration, about,
                            &about_room, &bind, &scope) == MPI_SUCCESS &&
        enumeration != MPI_T_ENUM_NULL && item_number(enumeration, value, &number) == 0 &&
        MPI_T_cvar_handle_alloc(index, NULL, &handle, &elements) == MPI_SUCCESS) {
        status = MPI_T_cvar_write(handle, &number) == MPI_SUCCESS ? 0 : -1;
        (void) MPI_T_cvar_handle_free(&handle);
    }
    if (status != 0) {
        perf_message("the parameter %s cannot be set to %s", wanted, value);
    }
    return status;
}

void perf_counters_parameter(const char *parameter, char *text, size_t room)
{
    char wanted[NAME_ROOM], name[NAME_ROOM], about[TEXT_ROOM];
    int count = 0;

    text[0] = '\0';
    snprintf(wanted, sizeof wanted, PREFIX "%s", parameter);
    if (!is_open || MPI_T_cvar_get_num(&count) != MPI_SUCCESS) {
        return;
    }
    for (int index = 0; index < count; index++) {
        int name_room = NAME_ROOM, about_room = TEXT_ROOM, verbosity, bind, scope, elements;
        MPI_Datatype type;
        MPI_T_enum enumeration;
        MPI_T_cvar_handle handle;

        if (MPI_T_cvar_get_info(index, name, &name_room, &verbosity, &type, &enumeration, about,
                                &about_room, &bind, &scope) != MPI_SUCCESS ||
            strcmp(name, wanted) != 0) {
            continue;
        }
        if (MPI_T_cvar_handle_alloc(index, NULL, &handle, &elements) == MPI_SUCCESS) {
            if (type != MPI_CHAR || elements <= TEXT_ROOM) {
                parameter_text(handle, type, enumeration, text, room);
            }
            (void) MPI_T_cvar_handle_free(&handle);
        }
        return;
    }
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
