# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# The core (libgpuring_core: plans, devices, transports, nets, executors; no Open MPI) and the
# component coll/gpuring.

noinst_LTLIBRARIES += libgpuring_core.la
libgpuring_core_la_CPPFLAGS = $(AM_CPPFLAGS)
libgpuring_core_la_LIBADD = -ldl -lpthread -lrt -lm
libgpuring_core_la_SOURCES =

# util
libgpuring_core_la_SOURCES += \
    mca/coll_gpuring/util/clock.h \
    mca/coll_gpuring/util/log.c \
    mca/coll_gpuring/util/log.h \
    mca/coll_gpuring/util/status.c \
    mca/coll_gpuring/util/status.h

# plan
libgpuring_core_la_SOURCES += \
    mca/coll_gpuring/plan/build_direct.c \
    mca/coll_gpuring/plan/build_ring.c \
    mca/coll_gpuring/plan/build_tree.c \
    mca/coll_gpuring/plan/check.c \
    mca/coll_gpuring/plan/network.c \
    mca/coll_gpuring/plan/network.h \
    mca/coll_gpuring/plan/plan.c \
    mca/coll_gpuring/plan/plan.h \
    mca/coll_gpuring/plan/simulate.c \
    mca/coll_gpuring/plan/simulate.h \
    mca/coll_gpuring/plan/step.h \
    mca/coll_gpuring/plan/writer.c \
    mca/coll_gpuring/plan/writer.h

# device
libgpuring_core_la_SOURCES += \
    mca/coll_gpuring/device/device.c \
    mca/coll_gpuring/device/device.h \
    mca/coll_gpuring/device/device_host.c
if GPURING_HAVE_CUDA
libgpuring_core_la_CPPFLAGS += $(CUDA_CPPFLAGS)
libgpuring_core_la_SOURCES += \
    mca/coll_gpuring/device/cuda_context.c \
    mca/coll_gpuring/device/cuda_copy.c \
    mca/coll_gpuring/device/cuda_driver.c \
    mca/coll_gpuring/device/cuda_driver.h \
    mca/coll_gpuring/device/cuda_internal.h \
    mca/coll_gpuring/device/cuda_ipc.c \
    mca/coll_gpuring/device/cuda_launch.c \
    mca/coll_gpuring/device/cuda_nic.c \
    mca/coll_gpuring/device/cuda_pointer.c \
    mca/coll_gpuring/device/device_cuda.c
endif

# transport
libgpuring_core_la_SOURCES += \
    mca/coll_gpuring/transport/blob.c \
    mca/coll_gpuring/transport/blob.h \
    mca/coll_gpuring/transport/fifo.h \
    mca/coll_gpuring/transport/health.c \
    mca/coll_gpuring/transport/internal.h \
    mca/coll_gpuring/transport/layout.c \
    mca/coll_gpuring/transport/peer.c \
    mca/coll_gpuring/transport/probe.c \
    mca/coll_gpuring/transport/region.c \
    mca/coll_gpuring/transport/remote.c \
    mca/coll_gpuring/transport/slots.c \
    mca/coll_gpuring/transport/status_page.c \
    mca/coll_gpuring/transport/status_page.h \
    mca/coll_gpuring/transport/tables.c \
    mca/coll_gpuring/transport/transport.c \
    mca/coll_gpuring/transport/try.c \
    mca/coll_gpuring/transport/transport.h

# net; the libraries of verbs and UCX are loaded at run time, only their headers are needed here
libgpuring_core_la_SOURCES += \
    mca/coll_gpuring/net/cores.c \
    mca/coll_gpuring/net/cores.h \
    mca/coll_gpuring/net/gate.h \
    mca/coll_gpuring/net/net.h \
    mca/coll_gpuring/net/net_base.c \
    mca/coll_gpuring/net/net_base.h \
    mca/coll_gpuring/net/net_choice.c \
    mca/coll_gpuring/net/net_choice.h \
    mca/coll_gpuring/net/net_list.c \
    mca/coll_gpuring/net/net_list.h \
    mca/coll_gpuring/net/nics.c \
    mca/coll_gpuring/net/nics.h \
    mca/coll_gpuring/net/proxy.c \
    mca/coll_gpuring/net/proxy.h \
    mca/coll_gpuring/net/proxy_conn.c \
    mca/coll_gpuring/net/proxy_internal.h \
    mca/coll_gpuring/net/proxy_thread.c \
    mca/coll_gpuring/net/proxy_thread.h
if GPURING_HAVE_VERBS
libgpuring_core_la_CPPFLAGS += $(VERBS_CPPFLAGS)
libgpuring_core_la_SOURCES += \
    mca/coll_gpuring/net/net_verbs.c \
    mca/coll_gpuring/net/net_verbs.h \
    mca/coll_gpuring/net/net_verbs_complete.c \
    mca/coll_gpuring/net/net_verbs_error.c \
    mca/coll_gpuring/net/net_verbs_failover.c \
    mca/coll_gpuring/net/net_verbs_gdr.c \
    mca/coll_gpuring/net/net_verbs_lib.c \
    mca/coll_gpuring/net/net_verbs_lib.h \
    mca/coll_gpuring/net/net_verbs_link.c \
    mca/coll_gpuring/net/net_verbs_memory.c \
    mca/coll_gpuring/net/net_verbs_port.c \
    mca/coll_gpuring/net/net_verbs_post.c \
    mca/coll_gpuring/net/net_verbs_rail.c \
    mca/coll_gpuring/net/net_verbs_watch.c \
    mca/coll_gpuring/net/net_verbs_wire.h
endif
if GPURING_HAVE_UCX
libgpuring_core_la_CPPFLAGS += $(UCX_CPPFLAGS)
libgpuring_core_la_SOURCES += \
    mca/coll_gpuring/net/net_ucx.c \
    mca/coll_gpuring/net/net_ucx.h \
    mca/coll_gpuring/net/net_ucx_data.c \
    mca/coll_gpuring/net/net_ucx_lib.c \
    mca/coll_gpuring/net/net_ucx_lib.h \
    mca/coll_gpuring/net/net_ucx_link.c \
    mca/coll_gpuring/net/net_ucx_peer.c
endif

# The component.
component_LTLIBRARIES += mca_coll_gpuring.la
mca_coll_gpuring_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS) $(HWLOC_CPPFLAGS)
mca_coll_gpuring_la_LDFLAGS = -module $(AM_LDFLAGS) $(GPURING_MODULE_LDFLAGS) \
    -export-symbols-regex '^mca_coll_gpuring_component$$'
mca_coll_gpuring_la_LIBADD = libgpuring_core.la libpcigraph.la $(MPI_LIBS) -ldl -lpthread -lm
mca_coll_gpuring_la_SOURCES = \
    mca/coll_gpuring/advice.c \
    mca/coll_gpuring/advice.h \
    mca/coll_gpuring/agree.c \
    mca/coll_gpuring/agree.h \
    mca/coll_gpuring/allreduce.c \
    mca/coll_gpuring/allreduce_init.c \
    mca/coll_gpuring/bounce.c \
    mca/coll_gpuring/bounce.h \
    mca/coll_gpuring/choice.c \
    mca/coll_gpuring/choice.h \
    mca/coll_gpuring/compare.c \
    mca/coll_gpuring/compare.h \
    mca/coll_gpuring/compat.c \
    mca/coll_gpuring/compat.h \
    mca/coll_gpuring/component.c \
    mca/coll_gpuring/eligible.c \
    mca/coll_gpuring/eligible.h \
    mca/coll_gpuring/exchange.c \
    mca/coll_gpuring/exchange.h \
    mca/coll_gpuring/fallback.c \
    mca/coll_gpuring/fallback.h \
    mca/coll_gpuring/gathered.c \
    mca/coll_gpuring/gathered.h \
    mca/coll_gpuring/gpuring.h \
    mca/coll_gpuring/help.c \
    mca/coll_gpuring/help.h \
    mca/coll_gpuring/iallreduce.c \
    mca/coll_gpuring/identity.c \
    mca/coll_gpuring/identity.h \
    mca/coll_gpuring/layout.c \
    mca/coll_gpuring/layout.h \
    mca/coll_gpuring/layout_service.c \
    mca/coll_gpuring/layout_service.h \
    mca/coll_gpuring/left.c \
    mca/coll_gpuring/left.h \
    mca/coll_gpuring/letters.c \
    mca/coll_gpuring/letters.h \
    mca/coll_gpuring/log_lines.c \
    mca/coll_gpuring/machine.c \
    mca/coll_gpuring/members.c \
    mca/coll_gpuring/members.h \
    mca/coll_gpuring/memory.c \
    mca/coll_gpuring/memory.h \
    mca/coll_gpuring/message.c \
    mca/coll_gpuring/message.h \
    mca/coll_gpuring/mixed.c \
    mca/coll_gpuring/mixed.h \
    mca/coll_gpuring/module.c \
    mca/coll_gpuring/network.c \
    mca/coll_gpuring/network.h \
    mca/coll_gpuring/offer.c \
    mca/coll_gpuring/offer.h \
    mca/coll_gpuring/operation.c \
    mca/coll_gpuring/params.c \
    mca/coll_gpuring/params.h \
    mca/coll_gpuring/params_default.c \
    mca/coll_gpuring/params_register.h \
    mca/coll_gpuring/pause.c \
    mca/coll_gpuring/pause.h \
    mca/coll_gpuring/process.c \
    mca/coll_gpuring/process.h \
    mca/coll_gpuring/pvars.c \
    mca/coll_gpuring/pvars.h \
    mca/coll_gpuring/queue.c \
    mca/coll_gpuring/queue.h \
    mca/coll_gpuring/request.c \
    mca/coll_gpuring/request.h \
    mca/coll_gpuring/routes.c \
    mca/coll_gpuring/routes.h \
    mca/coll_gpuring/run.c \
    mca/coll_gpuring/run.h \
    mca/coll_gpuring/service.c \
    mca/coll_gpuring/service.h \
    mca/coll_gpuring/simple.c \
    mca/coll_gpuring/simple.h \
    mca/coll_gpuring/stage.c \
    mca/coll_gpuring/stage.h \
    mca/coll_gpuring/stage_abandon.c \
    mca/coll_gpuring/stage_abandon.h \
    mca/coll_gpuring/stage_agree.c \
    mca/coll_gpuring/stage_agree.h \
    mca/coll_gpuring/stage_blocks.c \
    mca/coll_gpuring/stage_calls.c \
    mca/coll_gpuring/stage_copy.c \
    mca/coll_gpuring/stage_copy.h \
    mca/coll_gpuring/stage_cut.c \
    mca/coll_gpuring/stage_cut.h \
    mca/coll_gpuring/stage_describe.c \
    mca/coll_gpuring/stage_layout.c \
    mca/coll_gpuring/stage_layout.h \
    mca/coll_gpuring/stage_list.h \
    mca/coll_gpuring/stage_memory.c \
    mca/coll_gpuring/stage_memory.h \
    mca/coll_gpuring/stage_notice.c \
    mca/coll_gpuring/stage_notice.h \
    mca/coll_gpuring/stage_notice_box.c \
    mca/coll_gpuring/stage_notice_box.h \
    mca/coll_gpuring/stage_notice_mail.c \
    mca/coll_gpuring/stage_notice_mail.h \
    mca/coll_gpuring/stage_open.c \
    mca/coll_gpuring/stage_pipeline.c \
    mca/coll_gpuring/stage_pipeline.h \
    mca/coll_gpuring/stage_request.c \
    mca/coll_gpuring/stage_request.h \
    mca/coll_gpuring/stage_request_make.c \
    mca/coll_gpuring/stage_request_state.h \
    mca/coll_gpuring/stage_sink.c \
    mca/coll_gpuring/stage_sink.h \
    mca/coll_gpuring/tuned.c \
    mca/coll_gpuring/tuning.c \
    mca/coll_gpuring/tuning.h \
    mca/coll_gpuring/turn.c \
    mca/coll_gpuring/turn.h \
    mca/coll_gpuring/view.c \
    mca/coll_gpuring/view.h \
    mca/coll_gpuring/views.c \
    mca/coll_gpuring/views.h \
    mca/coll_gpuring/watchdog.c \
    mca/coll_gpuring/watchdog.h \
    mca/coll_gpuring/wireup.c \
    mca/coll_gpuring/wireup.h \
    mca/coll_gpuring/wireup_check.c \
    mca/coll_gpuring/wireup_check.h \
    mca/coll_gpuring/wireup_devices.c \
    mca/coll_gpuring/wireup_devices.h \
    mca/coll_gpuring/wireup_format.h \
    mca/coll_gpuring/wireup_hello.c \
    mca/coll_gpuring/wireup_hello.h \
    mca/coll_gpuring/wireup_service.c \
    mca/coll_gpuring/wireup_service.h \
    mca/coll_gpuring/wireup_views.c \
    mca/coll_gpuring/wireup_views.h

dist_pkgdata_DATA += mca/coll_gpuring/help-mpi-coll-gpuring.txt

# Next to the component that was just built, so that the tests see the texts, and in it. The object
# by a variable: automake would take a plain target for a rule that replaces its own.
help_object = mca/coll_gpuring/la-help.lo
$(help_object): .libs/help-mpi-coll-gpuring.txt
all-local: .libs/help-mpi-coll-gpuring.txt
.libs/help-mpi-coll-gpuring.txt: mca/coll_gpuring/help-mpi-coll-gpuring.txt
	$(AM_V_at)$(MKDIR_P) .libs
	$(AM_V_at)cp $(top_srcdir)/mca/coll_gpuring/help-mpi-coll-gpuring.txt $@
CLEANFILES += .libs/help-mpi-coll-gpuring.txt
