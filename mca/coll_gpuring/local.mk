# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# The core (libgpuring_core: all that knows nothing of Open MPI; the tools and the unit tests link
# it, too) and the component coll/gpuring.

noinst_LTLIBRARIES += libgpuring_core.la
libgpuring_core_la_CPPFLAGS = $(base_cppflags)
libgpuring_core_la_LIBADD = libgpuring_kernels.la -ldl -lpthread -lrt -lm
libgpuring_core_la_SOURCES =

# plan
libgpuring_core_la_SOURCES += \
    mca/coll_gpuring/plan/build.c \
    mca/coll_gpuring/plan/build.h \
    mca/coll_gpuring/plan/writer.c \
    mca/coll_gpuring/plan/build_chain.c \
    mca/coll_gpuring/plan/build_direct.c \
    mca/coll_gpuring/plan/build_exchange.c \
    mca/coll_gpuring/plan/build_nodes.c \
    mca/coll_gpuring/plan/build_ring.c \
    mca/coll_gpuring/plan/build_tree.c \
    mca/coll_gpuring/plan/plan_check.c \
    mca/coll_gpuring/plan/network.c \
    mca/coll_gpuring/plan/network.h \
    mca/coll_gpuring/plan/postcondition.c \
    mca/coll_gpuring/plan/postcondition.h \
    mca/coll_gpuring/plan/plan.c \
    mca/coll_gpuring/plan/plan.h

# device
libgpuring_core_la_SOURCES += \
    mca/coll_gpuring/device/device.h \
    mca/coll_gpuring/device/host.c \
    mca/coll_gpuring/device/runs.c \
    mca/coll_gpuring/device/runs.h
if GPURING_HAVE_CUDA
libgpuring_core_la_CPPFLAGS += $(CUDA_CPPFLAGS)
libgpuring_core_la_SOURCES += \
    mca/coll_gpuring/device/cuda/context.c \
    mca/coll_gpuring/device/cuda/cuda_copy.c \
    mca/coll_gpuring/device/cuda/cuda.c \
    mca/coll_gpuring/device/cuda/default_stream.c \
    mca/coll_gpuring/device/cuda/driver.c \
    mca/coll_gpuring/device/cuda/driver.h \
    mca/coll_gpuring/device/cuda/enqueue.c \
    mca/coll_gpuring/device/cuda/cuda_internal.h \
    mca/coll_gpuring/device/cuda/ipc.c \
    mca/coll_gpuring/device/cuda/graph.c \
    mca/coll_gpuring/device/cuda/launch.c \
    mca/coll_gpuring/device/cuda/linger.c \
    mca/coll_gpuring/device/cuda/move.c \
    mca/coll_gpuring/device/cuda/nic.c \
    mca/coll_gpuring/device/cuda/order.c \
    mca/coll_gpuring/device/cuda/pointer.c
endif

# transport
libgpuring_core_la_SOURCES += \
    mca/coll_gpuring/transport/activity.c \
    mca/coll_gpuring/transport/connect_info.c \
    mca/coll_gpuring/transport/first_chunk.c \
    mca/coll_gpuring/transport/health.c \
    mca/coll_gpuring/transport/transport_internal.h \
    mca/coll_gpuring/transport/peer.c \
    mca/coll_gpuring/transport/line_test.c \
    mca/coll_gpuring/transport/probe.c \
    mca/coll_gpuring/transport/region.c \
    mca/coll_gpuring/transport/lingering.c \
    mca/coll_gpuring/transport/remote.c \
    mca/coll_gpuring/transport/tables.c \
    mca/coll_gpuring/transport/transport.c \
    mca/coll_gpuring/transport/transport.h \
    mca/coll_gpuring/transport/votes.c

# net; the libraries of verbs and UCX are loaded at run time, only their headers are needed here
libgpuring_core_la_SOURCES += \
    mca/coll_gpuring/net/base.c \
    mca/coll_gpuring/net/base.h \
    mca/coll_gpuring/net/cores.c \
    mca/coll_gpuring/net/cores.h \
    mca/coll_gpuring/net/gate.h \
    mca/coll_gpuring/net/net_list.c \
    mca/coll_gpuring/net/net_list.h \
    mca/coll_gpuring/net/mpi/mpi_messages.c \
    mca/coll_gpuring/net/mpi/mpi_net.c \
    mca/coll_gpuring/net/mpi/mpi_net.h \
    mca/coll_gpuring/net/mpi/settle.c \
    mca/coll_gpuring/net/net.h \
    mca/coll_gpuring/net/nics.c \
    mca/coll_gpuring/net/proxy/proxy_internal.h \
    mca/coll_gpuring/net/proxy/drive.c \
    mca/coll_gpuring/net/proxy/proxy.c \
    mca/coll_gpuring/net/proxy/proxy.h \
    mca/coll_gpuring/net/proxy/pump.c \
    mca/coll_gpuring/net/proxy/thread.c
if GPURING_HAVE_VERBS
libgpuring_core_la_CPPFLAGS += $(VERBS_CPPFLAGS)
libgpuring_core_la_SOURCES += \
    mca/coll_gpuring/net/verbs/complete.c \
    mca/coll_gpuring/net/verbs/endpoint.c \
    mca/coll_gpuring/net/verbs/failover.c \
    mca/coll_gpuring/net/verbs/flush.c \
    mca/coll_gpuring/net/verbs/verbs_fail.c \
    mca/coll_gpuring/net/verbs/verbs_link.c \
    mca/coll_gpuring/net/verbs/verbs_load.c \
    mca/coll_gpuring/net/verbs/memory.c \
    mca/coll_gpuring/net/verbs/port.c \
    mca/coll_gpuring/net/verbs/post.c \
    mca/coll_gpuring/net/verbs/rail.c \
    mca/coll_gpuring/net/verbs/verbs.c \
    mca/coll_gpuring/net/verbs/verbs_internal.h \
    mca/coll_gpuring/net/verbs/events.c
endif
if GPURING_HAVE_UCX
libgpuring_core_la_CPPFLAGS += $(UCX_CPPFLAGS)
libgpuring_core_la_SOURCES += \
    mca/coll_gpuring/net/ucx/data.c \
    mca/coll_gpuring/net/ucx/ucx_link.c \
    mca/coll_gpuring/net/ucx/ucx_load.c \
    mca/coll_gpuring/net/ucx/ucx.c \
    mca/coll_gpuring/net/ucx/ucx_internal.h
endif

# engine, topology, and what else needs no Open MPI
libgpuring_core_la_SOURCES += \
    mca/coll_gpuring/engine/bounce.c \
    mca/coll_gpuring/engine/bounce.h \
    mca/coll_gpuring/engine/call.h \
    mca/coll_gpuring/engine/engine.c \
    mca/coll_gpuring/engine/engine.h \
    mca/coll_gpuring/engine/mapping.c \
    mca/coll_gpuring/engine/mapping.h \
    mca/coll_gpuring/engine/operation.c \
    mca/coll_gpuring/engine/program.c \
    mca/coll_gpuring/engine/program.h \
    mca/coll_gpuring/engine/queued.c \
    mca/coll_gpuring/engine/select.c \
    mca/coll_gpuring/engine/select_doubling.c \
    mca/coll_gpuring/engine/select_blocking.c \
    mca/coll_gpuring/engine/select_mapped.c \
    mca/coll_gpuring/engine/select.h \
    mca/coll_gpuring/engine/tuning.c \
    mca/coll_gpuring/engine/transports.c \
    mca/coll_gpuring/engine/tuning.h \
    mca/coll_gpuring/oob/oob.c \
    mca/coll_gpuring/oob/oob.h \
    mca/coll_gpuring/params.h \
    mca/coll_gpuring/params_default.c \
    mca/coll_gpuring/module_state.h \
    mca/coll_gpuring/progress/task.c \
    mca/coll_gpuring/progress/task.h \
    mca/coll_gpuring/engine/reason.c \
    mca/coll_gpuring/engine/reason.h \
    mca/coll_gpuring/serve/decide.h \
    mca/coll_gpuring/serve/queue.c \
    mca/coll_gpuring/serve/queue.h \
    mca/coll_gpuring/serve/verify.c \
    mca/coll_gpuring/serve/verify.h \
    mca/coll_gpuring/topology/job_channels.c \
    mca/coll_gpuring/topology/channels.h \
    mca/coll_gpuring/topology/format.h \
    mca/coll_gpuring/topology/identity.c \
    mca/coll_gpuring/topology/identity.h \
    mca/coll_gpuring/topology/local_channels.c \
    mca/coll_gpuring/topology/local_channels.h \
    mca/coll_gpuring/topology/model_choice.c \
    mca/coll_gpuring/topology/model_choice.h \
    mca/coll_gpuring/topology/net_choice.c \
    mca/coll_gpuring/topology/net_choice.h \
    mca/coll_gpuring/topology/nic_select.c \
    mca/coll_gpuring/topology/nic_select.h \
    mca/coll_gpuring/topology/node_map.c \
    mca/coll_gpuring/topology/node_map.h \
    mca/coll_gpuring/topology/node_topology.c \
    mca/coll_gpuring/topology/node_topology.h \
    mca/coll_gpuring/wireup/engine_config.c \
    mca/coll_gpuring/wireup/plans.h \
    mca/coll_gpuring/wireup/pool.c \
    mca/coll_gpuring/wireup/pool.h \
    mca/coll_gpuring/wireup/survey.c \
    mca/coll_gpuring/wireup/survey_share.c \
    mca/coll_gpuring/wireup/survey.h

# The component.
component_LTLIBRARIES += mca_coll_gpuring.la
mca_coll_gpuring_la_CPPFLAGS = $(base_cppflags) $(MPI_CPPFLAGS) $(HWLOC_CPPFLAGS)
mca_coll_gpuring_la_LDFLAGS = -module $(AM_LDFLAGS) $(GPURING_MODULE_LDFLAGS) \
    -export-symbols-regex '^mca_coll_gpuring_(component|stream)$$'
mca_coll_gpuring_la_LIBADD = libgpuring_core.la libpcigraph.la $(MPI_LIBS) -ldl -lpthread -lm
mca_coll_gpuring_la_SOURCES = \
    mca/coll_gpuring/agree/agree.c \
    mca/coll_gpuring/agree/agree.h \
    mca/coll_gpuring/agree/pending.h \
    mca/coll_gpuring/calls/calls.h \
    mca/coll_gpuring/calls/calls_begin.c \
    mca/coll_gpuring/calls/collective.c \
    mca/coll_gpuring/calls/calls_request.c \
    mca/coll_gpuring/calls/describe.c \
    mca/coll_gpuring/collectives.h \
    mca/coll_gpuring/compat.c \
    mca/coll_gpuring/compat.h \
    mca/coll_gpuring/compat_error.c \
    mca/coll_gpuring/component.c \
    mca/coll_gpuring/module.c \
    mca/coll_gpuring/module.h \
    mca/coll_gpuring/module_state.c \
    mca/coll_gpuring/oob/oob_message.c \
    mca/coll_gpuring/params.c \
    mca/coll_gpuring/process.c \
    mca/coll_gpuring/process.h \
    mca/coll_gpuring/pvars.c \
    mca/coll_gpuring/pvars.h \
    mca/coll_gpuring/request.c \
    mca/coll_gpuring/request.h \
    mca/coll_gpuring/p2p/aware.c \
    mca/coll_gpuring/p2p/aware.h \
    mca/coll_gpuring/p2p/entries.c \
    mca/coll_gpuring/p2p/p2p_message.c \
    mca/coll_gpuring/p2p/p2p_message.h \
    mca/coll_gpuring/p2p/fetch.c \
    mca/coll_gpuring/p2p/offer.h \
    mca/coll_gpuring/p2p/p2p.h \
    mca/coll_gpuring/p2p/p2p_peers.c \
    mca/coll_gpuring/p2p/peers.h \
    mca/coll_gpuring/p2p/p2p_state.c \
    mca/coll_gpuring/p2p/p2p_state.h \
    mca/coll_gpuring/p2p/probed.c \
    mca/coll_gpuring/p2p/probed.h \
    mca/coll_gpuring/p2p/p2p_phases.c \
    mca/coll_gpuring/p2p/p2p_request.c \
    mca/coll_gpuring/p2p/p2p_request.h \
    mca/coll_gpuring/p2p/sending.c \
    mca/coll_gpuring/p2p/shared.c \
    mca/coll_gpuring/p2p/shared.h \
    mca/coll_gpuring/serve/check.c \
    mca/coll_gpuring/serve/differ.c \
    mca/coll_gpuring/serve/differ.h \
    mca/coll_gpuring/serve/eligible.c \
    mca/coll_gpuring/serve/execute.c \
    mca/coll_gpuring/serve/execute_wait.c \
    mca/coll_gpuring/serve/mixed_memory.c \
    mca/coll_gpuring/serve/note.c \
    mca/coll_gpuring/serve/offers.c \
    mca/coll_gpuring/serve/offers.h \
    mca/coll_gpuring/serve/note.h \
    mca/coll_gpuring/serve/progress.c \
    mca/coll_gpuring/serve/serve.c \
    mca/coll_gpuring/serve/serve.h \
    mca/coll_gpuring/serve/tracks.c \
    mca/coll_gpuring/serve/tracks.h \
    mca/coll_gpuring/serve/watchdog.c \
    mca/coll_gpuring/stage/buffers.c \
    mca/coll_gpuring/stage/buffers.h \
    mca/coll_gpuring/stage/stage_call.c \
    mca/coll_gpuring/stage/stage_call.h \
    mca/coll_gpuring/stage/stage_describe.c \
    mca/coll_gpuring/stage/part.h \
    mca/coll_gpuring/stage/stage_request.c \
    mca/coll_gpuring/stream/stream_calls.h \
    mca/coll_gpuring/stream/stream_connect.c \
    mca/coll_gpuring/stream/stream_describe.c \
    mca/coll_gpuring/stream/stream_enqueue.c \
    mca/coll_gpuring/stream/stream_exchange.c \
    mca/coll_gpuring/stream/stream_headers.c \
    mca/coll_gpuring/stream/stream_headers.h \
    mca/coll_gpuring/stream/stream_notes.c \
    mca/coll_gpuring/stream/stream_state.h \
    mca/coll_gpuring/stream/stream_watch.c \
    mca/coll_gpuring/wireup/connect.c \
    mca/coll_gpuring/wireup/probes.c \
    mca/coll_gpuring/wireup/rank_info.c \
    mca/coll_gpuring/wireup/net_select.c \
    mca/coll_gpuring/wireup/peers.c \
    mca/coll_gpuring/wireup/reuse.c \
    mca/coll_gpuring/wireup/state.c \
    mca/coll_gpuring/wireup/state.h \
    mca/coll_gpuring/wireup/wireup.c \
    mca/coll_gpuring/wireup/wireup.h

dist_pkgdata_DATA += mca/coll_gpuring/help-mpi-coll-gpuring.txt

# Next to the component that was just built, so that the tests see the texts, and in it. The object
# by a variable: automake would take a plain target for a rule that replaces its own.
help_object = mca/coll_gpuring/mca_coll_gpuring_la-compat.lo
$(help_object): .libs/help-mpi-coll-gpuring.txt
all-local: .libs/help-mpi-coll-gpuring.txt
.libs/help-mpi-coll-gpuring.txt: mca/coll_gpuring/help-mpi-coll-gpuring.txt
	$(AM_V_at)$(MKDIR_P) .libs
	$(AM_V_at)cp $(top_srcdir)/mca/coll_gpuring/help-mpi-coll-gpuring.txt $@
CLEANFILES += .libs/help-mpi-coll-gpuring.txt
