# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# The stand-in for libibverbs.so.1. It is only for tests and never installed.

if GPURING_HAVE_VERBS
check_LTLIBRARIES += test/wire/libibverbs.la
test_wire_libibverbs_la_SOURCES = \
    test/wire/data.c \
    test/wire/internal.h \
    test/wire/objects.c \
    test/wire/sys.c \
    test/wire/wire.h
test_wire_libibverbs_la_LDFLAGS = $(AM_LDFLAGS) -shared -version-info 1:0:0 -rpath /nowhere
test_wire_libibverbs_la_LIBADD = -lpthread -ldl
endif

check_PROGRAMS += test/wire/crowd test/wire/grow test/wire/late test/wire/owed
test_wire_crowd_SOURCES = test/wire/crowd.c test/wire/exists.h
test_wire_crowd_LDADD = $(mpi_test_libs) -ldl
test_wire_grow_SOURCES = test/wire/exists.h test/wire/grow.c
test_wire_grow_LDADD = $(mpi_test_libs) -ldl
test_wire_late_LDADD = $(mpi_test_libs)
test_wire_owed_SOURCES = test/wire/exists.h test/wire/owed.c
test_wire_owed_LDADD = $(mpi_test_libs) -ldl -lpthread

TESTS += test/wire/test_wire.sh
EXTRA_DIST += test/wire/test_wire.sh
