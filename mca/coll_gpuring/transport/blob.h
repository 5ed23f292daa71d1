/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What a rank tells a neighbour about their connections: the blob in a letter.
 *
 *   | header | entry | entry | ... | process handle | link handles ... |
 *
 * Entries name a block (peer entries: offset in the peer region; remote entries: position and
 * length of the link's handle in the blob). Little endian hosts only meet little endian hosts
 * (AllGather 1 compares), so fields travel as they are.
 */
#ifndef GPURING_TRANSPORT_BLOB_H
#define GPURING_TRANSPORT_BLOB_H

#include <stddef.h>
#include <stdint.h>

#include "mca/coll_gpuring/transport/internal.h"

#define GPURING_BLOB_MAGIC UINT32_C(0x67707231) /* "gpr1" */

/*
 *  0       4         8     12      16      32         96    112      192      272    352
 *  | magic | entries | pid | (pad) | id[2] | hostname | gpu | region | staged | page | process |
 */
struct gpuring_blob_header {
    uint32_t magic;
    uint32_t nentries;
    uint32_t pid;
    uint32_t reserved;
    uint64_t id[2];
    char hostname[GPURING_HOSTNAME_BYTES];
    char gpu[16]; /* PCI bus id, for messages */
    struct gpuring_device_handle region;
    struct gpuring_device_handle staged;
    struct gpuring_device_handle page;
    uint32_t process_offset; /* from the blob's start */
    uint32_t process_bytes;
};
_Static_assert(sizeof(struct gpuring_blob_header) == 360, "travels between ranks");

struct gpuring_blob_entry {
    uint16_t end; /* enum gpuring_end of the owner */
    uint16_t plan;
    uint32_t peer; /* the rank at the other end */
    uint32_t key;
    uint32_t handle_bytes; /* remote: length of the link's handle */
    uint64_t offset;       /* local: block in the peer region; remote: handle in the blob */
};
_Static_assert(sizeof(struct gpuring_blob_entry) == 24, "travels between ranks");

/* The most that a letter has that tells of so many connections. */
size_t gpuring_blob_room(uint32_t nentries, bool remote);

/* Build the letters to all peers, in transport->blob. */
int gpuring_blob_build(struct gpuring_transport *transport);

/* Check a received blob's header (magic, id, lengths) and copy it out. 0 or GPURING_ERR_PEER. */
int gpuring_blob_header(const struct gpuring_transport *transport, int rank, const uint8_t *blob,
                        size_t bytes, struct gpuring_blob_header *header);

/* The entry of the peer's blob for the other end of `conn`, or GPURING_ERR_PEER with a log line. */
int gpuring_blob_find(const struct gpuring_transport *transport, const struct gpuring_conn *conn,
                      const uint8_t *blob, size_t bytes, struct gpuring_blob_entry *entry);

#endif
