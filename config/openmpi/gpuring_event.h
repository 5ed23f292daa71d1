/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Replacement for the header of the libevent component in Open MPI 4.1, with the types that other
 * headers use (see opal_config.h). The structure of an event is larger than libevent's, which is
 * not needed for the build. Structures that contain one belong to Open MPI's runtime; no component
 * here uses them.
 */
#ifndef GPURING_EVENT_H
#define GPURING_EVENT_H

typedef struct event_base opal_event_base_t;
typedef struct {
    void *libevent[32];
} opal_event_t;
typedef void (*opal_event_cbfunc_t)(int, short, void *);

#endif
