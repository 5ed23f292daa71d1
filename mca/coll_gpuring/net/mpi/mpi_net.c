/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The net `mpi`: MPI messages between the ranks of one communicator. A post is a send, and the
 * receives are posted directly into free slots. It works on every network that MPI supports, with
 * the devices that MPI uses. It has no thread: threads that wait for an operation progress it.
 *
 * Each end of a link has five tags of its own, on which it receives:
 *
 *   receiving end   tags 0 .. 2: the slots of a protocol, in the order of their steps
 *                   tag 4: chunks of Simple that the lane must want first (kernels/fifo.h)
 *   both ends       tag 3: a status: the end of the connection
 *
 * An empty message on tag 0 means that the chunk of this step is on tag 4. Its receive is posted
 * when the lane wants the chunk, usually with an address in the user's buffer.
 *
 * Only protocols in use have posted receives, and few of them, because MPI compares each message of
 * the same peer with all of them. MPI stores messages that arrive before their receive is posted.
 * Credits are not sent. Instead, the last message of a window is complete only when the receiver
 * has posted its receive, so that the sender cannot run further ahead. Unlike a credit, such a
 * message leaves nothing in flight that could arrive after MPI_Comm_free.
 *
 * Each receive that is posted holds the communicator. MPI_Comm_free therefore withdraws them. The
 * receives of tracks are withdrawn after each operation, because MPI compares all messages of the
 * communicator with them, and tracks may be idle for long (gpuring_proxy_unpost). The net may then
 * continue on another communicator of the same ranks, because a call leaves nothing in flight.
 * Everything here runs under the gate.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/net/mpi/mpi_net.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* The bytes of a window, which the receiver's MPI may have to store for each protocol of a link. A
 * shorter message than WINDOW_SHORT counts as that. */
#define WINDOW       (2 << 20)
#define WINDOW_SHORT 2048
#define POSTED       4 /* receives per protocol of a link, at most */

/* Look for the peer's report that it has given up after this number of looks. Most operations end
 * before. With a long chunk in flight, look immediately: the peer returns an error only when it
 * knows that MPI no longer reads its memory, and a program may call MPI seldom. */
#define LOOKS_BEFORE_END 16

/* Non-blocking collectives of Open MPI, which count their tags down, recycle them at
 * GPURING_TAGS_OF_MPI. The last one may count a few tags further. */
#define TAGS_OF_LAST 1000

static int mpi_open(const struct gpuring_net_config *config, struct gpuring_net **result)
{
    struct gpuring_net *net = calloc(1, sizeof *net);

    if (net == NULL) {
        gpuring_error("out of memory for the network mpi");
        return GPURING_ERR_NOMEM;
    }
    gpuring_net_base_init(&net->base, &gpuring_net_mpi, config);
    net->messages = config->messages;
    net->comm = config->comm;
    net->rank = config->rank;
    net->track = config->track;
    net->number = config->number;
    net->lowest_tag = config->messages->lowest_tag() + GPURING_OOB_TAGS;
    *result = net;
    return GPURING_OK;
}

static void mpi_close(struct gpuring_net *net)
{
    gpuring_net_base_destroy(&net->base);
    if (!net->held) {
        free(net);
    }
}

static const struct gpuring_net_devices *mpi_devices(const struct gpuring_net *net)
{
    return &net->devices;
}

static int mpi_process_handle(struct gpuring_net *net, void *handle, size_t *bytes)
{
    const int32_t rank = net->rank;

    memcpy(handle, &rank, sizeof rank);
    *bytes = sizeof rank;
    return GPURING_OK;
}

static void free_link(struct gpuring_net_link *link)
{
    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        free(link->ring[p].messages);
    }
    free(link->wanted);
    free(link);
}

static int mpi_link_create(struct gpuring_net *net, int device, const struct gpuring_net_peer *peer,
                           enum gpuring_net_direction direction,
                           const struct gpuring_net_memory *memory,
                           struct gpuring_net_link **result)
{
    struct gpuring_net_link *link = calloc(1, sizeof *link);
    int status = link != NULL ? GPURING_OK : GPURING_ERR_NOMEM;

    (void) device;
    (void) peer;
    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT && status == GPURING_OK; p++) {
        link->ring[p].messages = calloc(memory->ring[p].nslots + 1, sizeof *link->ring[p].messages);
        status = link->ring[p].messages != NULL ? GPURING_OK : GPURING_ERR_NOMEM;
    }
    if (status == GPURING_OK && memory->any) {
        link->any = true;
        link->wanted =
            calloc(memory->ring[GPURING_PROTOCOL_SIMPLE].nslots + 1, sizeof *link->wanted);
        status = link->wanted != NULL ? GPURING_OK : GPURING_ERR_NOMEM;
    }
    if (status == GPURING_OK) {
        gpuring_gate_enter(net->base.gate);
        status = gpuring_net_base_add(&net->base, &link->base, direction, memory);
        gpuring_gate_leave(net->base.gate);
    } else {
        gpuring_error("out of memory for a connection of the network mpi");
    }
    if (status != GPURING_OK) {
        if (link != NULL) {
            free_link(link);
        }
        return status;
    }
    for (unsigned p = 0; direction == GPURING_NET_RECV && p < GPURING_PROTOCOL_COUNT; p++) {
        link->base.count[p].window = UINT32_MAX; /* no credit is ever due */
    }
    link->peer = -1;
    *result = link;
    return GPURING_OK;
}

static size_t mpi_link_handle(const struct gpuring_net_link *link, void *handle)
{
    const int32_t tags = own_tags(link);

    memcpy(handle, &tags, sizeof tags);
    return sizeof tags;
}

static int mpi_link_connect(struct gpuring_net_link *link, const void *process_handle,
                            size_t process_bytes, const void *handle, size_t bytes,
                            const char *peer_name)
{
    struct gpuring_net *net = net_of(link);
    int highest = GPURING_TAGS_OF_MPI(net->messages->lowest_tag()) - TAGS_OF_LAST;
    int32_t rank, tags;

    if (process_bytes != sizeof rank || bytes != sizeof tags) {
        gpuring_error("%s announced an unknown kind of connection: all ranks must load the "
                      "same version of coll/gpuring",
                      peer_name);
        return GPURING_ERR_PEER;
    }
    memcpy(&rank, process_handle, sizeof rank);
    memcpy(&tags, handle, sizeof tags);
    if (tags < 0 || tags >= (highest - net->lowest_tag) / (TAGS * (GPURING_TRACKS + 1) * NETS)) {
        gpuring_error(
            "[few-tags] MPI has too few tags for the connections of %s: use fewer channels "
            "(coll_gpuring_max_channels)",
            peer_name);
        return GPURING_ERR_UNSUPPORTED;
    }
    link->peer = rank;
    link->peer_tags = tags;
    snprintf(link->base.peer_name, sizeof link->base.peer_name, "%s", peer_name);
    return GPURING_OK;
}

/* Post the receive on the control tag, and check whether it has completed. A message on this tag
 * ends the connection. */
static void look_at_control(struct gpuring_net_link *link)
{
    struct control_message *in = &link->in;
    char why[160];

    if (in->message.request == NULL) {
        in->message = (struct gpuring_message){.data = &in->status, .bytes = sizeof in->status};
        if (gpuring_mpi_net_start(link, TAG_CONTROL, &in->message) != GPURING_OK) {
            return;
        }
    }
    if (!gpuring_mpi_net_finished(link, &in->message)) {
        return;
    }
    link->ended = true;
    if (in->message.bytes != sizeof in->status) {
        gpuring_mpi_net_fail(link, GPURING_ERR_PEER,
                             "the peer sent an impossible message: does it run the same version of "
                             "coll/gpuring?");
        return;
    }
    snprintf(why, sizeof why,
             "[peer-gave-up] the peer reported that the communicator failed: %s; see its output",
             gpuring_status_text(in->status));
    gpuring_mpi_net_fail(link, GPURING_ERR_ABORTED, why);
}

/* Report the slots that were sent. */
static void look_at_sends(struct gpuring_net_link *link, unsigned p)
{
    const struct gpuring_net_count *count = &link->base.count[p];

    while (count->done < count->posted && link->base.status == GPURING_OK) {
        uint64_t index = count->done % count->memory.nslots;
        struct gpuring_message *message = &link->ring[p].messages[index];

        if (message->request != NULL && !gpuring_mpi_net_finished(link, message)) {
            return;
        }
        if (link->any && p == GPURING_PROTOCOL_SIMPLE && link->wanted[index].request != NULL &&
            !gpuring_mpi_net_finished(link, &link->wanted[index])) {
            return;
        }
        gpuring_net_base_done(&link->base, p, count->done);
        gpuring_net_base_credit(&link->base, p, count->done);
    }
}

/* Return true if the lane waits for the next slot. A kernel does not report this. */
static bool is_wanted(const struct gpuring_net_link *link, unsigned p)
{
    const struct gpuring_net_count *count = &link->base.count[p];

    /* Partner: the lane's release store, after `to` and `room`. */
    return !link->any ||
           __atomic_load_n(&count->memory.head->wanted, __ATOMIC_ACQUIRE) == count->done + 1;
}

/*
 * Return the number of receives that should be posted. Those of a track are withdrawn when its
 * operation ends. Most operations receive one slot, so another one is only posted when the lane
 * waits for it, and several only after it has arrived.
 */
static uint64_t count_needed(const struct gpuring_net_link *link, unsigned p)
{
    uint64_t received = link->base.count[p].done - link->ring[p].begun;

    return net_of(link)->track == 0 || received > 1 ? POSTED : received == 0 || is_wanted(link, p);
}

/* Return true if MPI may yet cancel the last receive. It is then posted again before any others. */
static bool last_withdrawn(const struct ring *ring, const struct gpuring_net_count *count)
{
    const struct gpuring_message *last =
        &ring->messages[(ring->started - 1) % count->memory.nslots];

    return ring->started > count->done && last->request != NULL && last->withdrawn;
}

/* Post receives into free slots. Return true if the next slot has a receive. */
static bool post_receives(struct gpuring_net_link *link, unsigned p)
{
    const struct gpuring_net_count *count = &link->base.count[p];
    const struct gpuring_net_ring *memory = &count->memory;
    struct ring *ring = &link->ring[p];
    /* Partner: the lane's release store of head after its last read of the slot. */
    uint64_t head = __atomic_load_n(&memory->head->head, __ATOMIC_ACQUIRE);
    uint64_t end = count->done + count_needed(link, p);

    end = end < head + memory->nslots ? end : head + memory->nslots;
    while (ring->started < end && link->base.status == GPURING_OK && !last_withdrawn(ring, count)) {
        uint64_t index = ring->started++ % memory->nslots;

        ring->messages[index] = (struct gpuring_message){
            .data = memory->slots + index * memory->slot_bytes, .bytes = memory->slot_bytes};
        gpuring_mpi_net_start(link, p, &ring->messages[index]);
    }
    return ring->started > count->done && link->base.status == GPURING_OK;
}

/* Post the receive of the chunk that the lane wants if it has at least `least` bytes. Return true
 * if it is posted. */
static bool post_wanted(struct gpuring_net_link *link, uint64_t least)
{
    const struct gpuring_net_count *count = &link->base.count[GPURING_PROTOCOL_SIMPLE];
    const struct gpuring_fifo_head *head = count->memory.head;

    if (link->want == count->done + 1) {
        return true;
    }
    if (!is_wanted(link, GPURING_PROTOCOL_SIMPLE) || head->room < least) {
        return false;
    }
    link->want = count->done + 1;
    link->looks = LOOKS_BEFORE_END;
    link->wanted[0] = (struct gpuring_message){.data = head->to, .bytes = head->room};
    return gpuring_mpi_net_start(link, TAG_WANTED, &link->wanted[0]) == GPURING_OK;
}

/* The message of the next step was received. Return true if it contains its chunk, or if it is
 * empty and the message with the chunk was received, too. Set *bytes to the size of the chunk, or
 * to SIZE_MAX if the chunk is longer than the lane wants. */
static bool has_chunk(struct gpuring_net_link *link, const struct gpuring_message *message,
                      size_t *bytes)
{
    *bytes = message->bytes;
    if (message->bytes > 0) {
        return true;
    }
    if (!post_wanted(link, 0) ||
        (link->wanted[0].request != NULL && !gpuring_mpi_net_finished(link, &link->wanted[0]))) {
        return false;
    }
    *bytes = link->wanted[0].bytes;
    return true;
}

/* Report the slots that have arrived. Post the next receives only afterwards, because a lane waits
 * for the slots. */
static void look_at_receives(struct gpuring_net_link *link, unsigned p)
{
    const struct gpuring_net_count *count = &link->base.count[p];
    const struct gpuring_net_ring *memory = &count->memory;
    struct ring *ring = &link->ring[p];
    bool wants = link->any && p == GPURING_PROTOCOL_SIMPLE;

    while (link->base.status == GPURING_OK) {
        uint64_t index = count->done % memory->nslots;
        struct gpuring_message *message = &ring->messages[index];
        size_t bytes = 0;

        if (count->done == ring->started && !post_receives(link, p)) {
            return;
        }
        if (wants) {
            (void) post_wanted(link, GPURING_FIFO_WANTED + 1);
        }
        if (message->request != NULL && !gpuring_mpi_net_finished(link, message)) {
            (void) post_receives(link, p);
            return;
        }
        if (!wants) {
            bytes = message->bytes;
        } else if (!has_chunk(link, message, &bytes)) {
            return;
        }
        if (message->bytes > memory->slot_bytes) {
            gpuring_mpi_net_fail(link, GPURING_ERR_PEER,
                                 "the peer sent more than a slot: does it run the same version of "
                                 "coll/gpuring?");
            return;
        }
        memory->tail->size[index] = bytes < UINT32_MAX ? (uint32_t) bytes : UINT32_MAX;
        gpuring_net_base_done(&link->base, p, count->done);
    }
}

static void mpi_look(struct gpuring_net_link *link, enum gpuring_protocol protocol)
{
    if (link->left || link->base.status != GPURING_OK) {
        return;
    }
    if (link->in.message.request != NULL || ++link->looks > LOOKS_BEFORE_END) {
        look_at_control(link);
    }
    if (link->base.direction == GPURING_NET_SEND) {
        look_at_sends(link, protocol);
    } else {
        look_at_receives(link, protocol);
    }
}

/* Count a message. Return true if it is the last one of its window. */
static bool ends_window(struct ring *ring, uint32_t bytes)
{
    ring->window += bytes > WINDOW_SHORT ? bytes : WINDOW_SHORT;
    if (ring->window < WINDOW) {
        return false;
    }
    ring->window = 0;
    return true;
}

static int mpi_post(struct gpuring_net_link *link, enum gpuring_protocol protocol, uint64_t step,
                    uint32_t bytes, bool more, uint64_t head)
{
    const struct gpuring_net_ring *memory = &link->base.count[protocol].memory;
    uint64_t index = step % memory->nslots;
    struct gpuring_message *message = &link->ring[protocol].messages[index];
    bool wanted = link->any && protocol == GPURING_PROTOCOL_SIMPLE && bytes > GPURING_FIFO_WANTED;

    (void) more;
    (void) head;
    if (link->left) {
        return GPURING_AGAIN; /* of an abandoned call, whose buffers the program may have freed */
    }
    if (bytes > memory->slot_bytes || message->request != NULL) {
        gpuring_mpi_net_fail(
            link, GPURING_ERR_DATA,
            "a chunk is larger than its slot, or has none: the FIFO's memory is corrupt");
        return link->base.status;
    }
    *message = (struct gpuring_message){.sent = true,
                                        .synchronous = ends_window(&link->ring[protocol], bytes),
                                        .data = gpuring_net_data(memory, step),
                                        .bytes = bytes};
    if (wanted) {
        link->looks = LOOKS_BEFORE_END;
        link->wanted[index] = (struct gpuring_message){.sent = true};
        (void) gpuring_mpi_net_start(link, protocol, &link->wanted[index]);
    }
    if (link->base.status == GPURING_OK &&
        gpuring_mpi_net_start(link, wanted ? TAG_WANTED : (unsigned) protocol, message) ==
            GPURING_OK) {
        look_at_sends(link, protocol); /* most small sends are complete */
    }
    return link->base.status;
}

/* Cancel all messages of a link. Returns false if MPI may still use the memory of any. */
static bool cancel_all(struct gpuring_net_link *link)
{
    bool (*cancel)(struct gpuring_message *) = net_of(link)->messages->cancel;
    bool all = cancel(&link->in.message);

    all = cancel(&link->abort.message) && all;
    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        for (uint32_t i = 0; i < link->base.count[p].memory.nslots; i++) {
            all = cancel(&link->ring[p].messages[i]) && all;
        }
    }
    for (uint32_t i = 0; link->any && i < link->base.count[0].memory.nslots; i++) {
        all = cancel(&link->wanted[i]) && all;
    }
    return all;
}

/* This end does not notify the peer, which posts nothing for which this end has not made room. */
static int mpi_link_leave(struct gpuring_net_link *link)
{
    link->left = true;
    return cancel_all(link) ? GPURING_OK : GPURING_AGAIN;
}

static bool mpi_link_withdraw(struct gpuring_net_link *link)
{
    bool (*withdraw)(struct gpuring_message *) = net_of(link)->messages->withdraw;
    bool all = link->in.message.request == NULL || withdraw(&link->in.message);

    link->looks = 0;
    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        const struct gpuring_net_count *count = &link->base.count[p];
        struct ring *ring = &link->ring[p];

        while (ring->started > count->done) {
            struct gpuring_message *last =
                &ring->messages[(ring->started - 1) % count->memory.nslots];

            if (last->request == NULL || !withdraw(last)) {
                all = false; /* received, but its chunk is not */
                break;
            }
            ring->started--;
        }
        ring->begun = count->done;
    }
    return all;
}

static bool mpi_link_holds(struct gpuring_net_link *link)
{
    struct gpuring_gate *gate = link->base.net->gate;
    bool held;

    gpuring_gate_enter(gate);
    held = !cancel_all(link);
    gpuring_gate_leave(gate);
    return held;
}

static void mpi_attach(struct gpuring_net *net, struct ompi_communicator_t *comm, int track)
{
    net->comm = comm;
    net->track = track;
}

static void mpi_link_close(struct gpuring_net_link *link)
{
    struct gpuring_net *net;

    if (link == NULL) {
        return;
    }
    net = net_of(link);
    gpuring_gate_enter(net->base.gate);
    gpuring_net_base_remove(&link->base);
    if (cancel_all(link)) {
        free_link(link);
    } else {
        net->held = true;
    }
    gpuring_gate_leave(net->base.gate);
}

static int mpi_poll(struct gpuring_net *net)
{
    return gpuring_net_base_events(&net->base);
}

/* The control message of a peer also completes a receive. */
static bool mpi_changed(struct gpuring_net *net)
{
    uint64_t completed = __atomic_load_n(&net->completed, __ATOMIC_RELAXED);
    bool changed = completed != net->seen;

    net->seen = completed;
    return changed;
}

const struct gpuring_net_ops gpuring_net_mpi = {
    .name = "mpi",
    .any_memory = true,
    .open = mpi_open,
    .close = mpi_close,
    .devices = mpi_devices,
    .process_handle = mpi_process_handle,
    .link_create = mpi_link_create,
    .link_handle = mpi_link_handle,
    .link_connect = mpi_link_connect,
    .link_leave = mpi_link_leave,
    .link_withdraw = mpi_link_withdraw,
    .link_holds = mpi_link_holds,
    .link_whole = mpi_link_withdraw,
    .attach = mpi_attach,
    .link_close = mpi_link_close,
    .link_abort = gpuring_mpi_net_abort,
    .link_settle = gpuring_mpi_net_settle,
    .post = mpi_post,
    .look = mpi_look,
    .poll = mpi_poll,
    .changed = mpi_changed,
};
