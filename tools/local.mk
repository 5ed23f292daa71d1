# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# The tools: gpuring-topo (no MPI), and gpuring-perf (an MPI program).

bin_PROGRAMS += tools/gpuring-perf
tools_gpuring_perf_CPPFLAGS = $(base_cppflags) $(MPI_CPPFLAGS) $(JANSSON_CPPFLAGS)
tools_gpuring_perf_LDADD = libgpuring_core.la libpcigraph.la $(MPI_LIBS) $(JANSSON_LIBS) -ldl -lm
tools_gpuring_perf_SOURCES = \
    tools/gpuring-argument.c \
    tools/gpuring-argument.h \
    tools/gpuring-perf.c \
    tools/gpuring-perf.h \
    tools/gpuring-perf-bench.c \
    tools/gpuring-perf-collective.c \
    tools/gpuring-perf-compare.c \
    tools/gpuring-perf-counters.c \
    tools/gpuring-perf-data.c \
    tools/gpuring-perf-enqueue.c \
    tools/gpuring-perf-json.c \
    tools/gpuring-perf-memory.c \
    tools/gpuring-perf-message.c \
    tools/gpuring-perf-options.c \
    tools/gpuring-perf-report.c \
    tools/gpuring-perf-rules.c \
    tools/gpuring-perf-selftest.c \
    tools/gpuring-perf-selftest.h \
    tools/gpuring-perf-selftest-data.c \
    tools/gpuring-perf-selftest-table.c \
    tools/gpuring-perf-tune.c \
    tools/gpuring-perf-values.c \
    tools/gpuring-perf-variants.c \
    $(stream_sources)
dist_man1_MANS += doc/man/gpuring-perf.1

# Preloaded into programs by gpuring-run.
pkglib_LTLIBRARIES += tools/libgpuring_aware.la
tools_libgpuring_aware_la_SOURCES = \
    tools/gpuring-aware.c \
    tools/gpuring-aware-calls.h \
    tools/gpuring-aware-refused.h
tools_libgpuring_aware_la_CPPFLAGS = $(base_cppflags) $(MPI_CPPFLAGS)
tools_libgpuring_aware_la_LDFLAGS = -module $(AM_LDFLAGS) $(GPURING_MODULE_LDFLAGS)
tools_libgpuring_aware_la_LIBADD = $(MPI_LIBS) -ldl

# Linked into programs that make calls in CUDA streams.
lib_LTLIBRARIES += tools/libgpuring_stream.la
include_HEADERS += tools/gpuring_stream.h
stream_sources = \
    tools/gpuring-stream.c \
    tools/gpuring-stream.h \
    tools/gpuring-stream-messages.c \
    tools/gpuring_stream.h
tools_libgpuring_stream_la_SOURCES = $(stream_sources)
tools_libgpuring_stream_la_CPPFLAGS = $(base_cppflags) $(MPI_CPPFLAGS)
tools_libgpuring_stream_la_LDFLAGS = $(AM_LDFLAGS) -shared -no-undefined -Wl,-z,now -version-info 0:0:0 \
    -export-symbols-regex '^P?MPIX_'
tools_libgpuring_stream_la_LIBADD = $(MPI_LIBS) -ldl -lpthread

bin_SCRIPTS += tools/gpuring-run
CLEANFILES += tools/gpuring-run
EXTRA_DIST += tools/gpuring-run.in
tools/gpuring-run: $(srcdir)/tools/gpuring-run.in Makefile
	$(AM_V_GEN)$(MKDIR_P) tools && $(SED) -e 's,[@]pkglibdir[@],$(pkglibdir),' \
	    -e 's,[@]componentdir[@],$(componentdir),' -e 's,[@]PACKAGE[@],$(PACKAGE),' \
	    -e 's,[@]VERSION[@],$(VERSION),' -e 's,[@]MPIRUN[@],$(MPIRUN),' \
	    -e 's,[@]ompi_componentdir[@],$(GPURING_OMPI_COMPONENTDIR),' \
	    -e 's,[@]pmix_componentdir[@],$(GPURING_PMIX_COMPONENTDIR),' \
	    $(srcdir)/tools/gpuring-run.in >$@.new && chmod +x $@.new && mv $@.new $@
dist_man1_MANS += doc/man/gpuring-run.1

bin_SCRIPTS += tools/gpuring-report
CLEANFILES += tools/gpuring-report
EXTRA_DIST += tools/gpuring-report.in
tools/gpuring-report: $(srcdir)/tools/gpuring-report.in Makefile
	$(AM_V_GEN)$(MKDIR_P) tools && $(SED) -e 's,[@]VERSION[@],$(VERSION),' \
	    $(srcdir)/tools/gpuring-report.in >$@.new && chmod +x $@.new && mv $@.new $@
dist_man1_MANS += doc/man/gpuring-report.1

# Text and pictures of a machine.
noinst_LTLIBRARIES += libgpuring_render.la
libgpuring_render_la_CPPFLAGS = $(base_cppflags)
libgpuring_render_la_SOURCES = \
    tools/render/matrix.c \
    tools/render/pci_render.h \
    tools/render/svg.c \
    tools/render/svg.h \
    tools/render/svg_curves.c \
    tools/render/svg_layout.c \
    tools/render/svg_layout.h \
    tools/render/svg_machine.c \
    tools/render/svg_page.c \
    tools/render/svg_panel.c \
    tools/render/text.c

bin_PROGRAMS += tools/gpuring-topo
tools_gpuring_topo_CPPFLAGS = $(base_cppflags) $(JANSSON_CPPFLAGS)
tools_gpuring_topo_LDADD = libgpuring_render.la libgpuring_core.la libpcigraph.la $(JANSSON_LIBS) -lm
tools_gpuring_topo_SOURCES = \
    tools/gpuring-argument.c \
    tools/gpuring-argument.h \
    tools/gpuring-topo.c \
    tools/gpuring-topo.h \
    tools/gpuring-topo-html.c \
    tools/gpuring-topo-json.c \
    tools/gpuring-topo-json.h \
    tools/gpuring-topo-job.c \
    tools/gpuring-topo-job.h \
    tools/gpuring-topo-json-channels.c \
    tools/gpuring-topo-json-machine.c \
    tools/gpuring-topo-machine.c \
    tools/gpuring-topo-machine.h \
    tools/gpuring-topo-notes.c \
    tools/gpuring-topo-omitted.c \
    tools/gpuring-topo-options.c \
    tools/gpuring-topo-simulate.c \
    tools/gpuring-topo-sizes.c \
    tools/gpuring-topo-svg.c \
    tools/gpuring-topo-text.c
