/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Proof of channels against their fabric; shares no code with the search. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/unit/pci_proof.h"

#define TOLERANCE 1e-6

int pci_proof_refuse(char *why, size_t size, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(why, size, format, args);
    va_end(args);
    return -EINVAL;
}

struct check {
    const struct pci_fabric *fabric;
    const struct pci_channels *channels;
    double *load; /* link -> GB/s */
    bool *seen;   /* GPU is in this channel */
    char *why;
    size_t size;
};

#define refuse(check, ...) pci_proof_refuse((check)->why, (check)->size, __VA_ARGS__)

static bool without_nets(const struct pci_channels *channels)
{
    return 1 == channels->nodes || PCI_NO_NET == channels->nets[0][0];
}

static int check_order(struct check *check, uint32_t c)
{
    uint32_t n = check->channels->ngpus;
    const uint32_t *order = check->channels->intra + (size_t) c * n;

    memset(check->seen, 0, n * sizeof(*check->seen));
    for (uint32_t i = 0; i < n; i++) {
        if (order[i] >= n) {
            return refuse(check, "channel %u names GPU %u of %u", c, order[i], n);
        }
        if (check->seen[order[i]]) {
            return refuse(check, "channel %u visits GPU %u twice", c, order[i]);
        }
        check->seen[order[i]] = true;
    }
    return 0;
}

static int check_nets(struct check *check, uint32_t c)
{
    const struct pci_channels *channels = check->channels;
    const uint32_t *nets = channels->nets[c];
    uint32_t nnets = check->fabric->nnets;

    if (without_nets(channels)) {
        return PCI_NO_NET == nets[0] && PCI_NO_NET == nets[1]
                   ? 0
                   : refuse(check, "channel %u names a NIC where none takes part", c);
    }
    if (nets[0] >= nnets || nets[1] >= nnets) {
        return refuse(check, "channel %u names a NIC that does not exist", c);
    }
    if (0 == channels->cross_nic && nets[0] != nets[1]) {
        return refuse(check, "channel %u enters by NIC %u and leaves by NIC %u", c, nets[0],
                      nets[1]);
    }
    if (2 == channels->cross_nic) {
        const uint32_t *partner = channels->nets[c ^ 1u];

        if (0 != channels->nchannels % 2 || nets[0] != partner[1] || nets[1] != partner[0]) {
            return refuse(check, "channels %u and %u do not swap their NICs", c & ~1u, c | 1u);
        }
    }
    return 0;
}

static int check_ways(struct check *check, uint32_t c)
{
    const struct pci_channels *channels = check->channels;
    struct pci_leg leg;

    for (uint32_t i = 0; pci_channel_leg(check->fabric, channels, c, i, &leg); i++) {
        double speed = leg.part * (leg.inside ? channels->bw_intra : channels->bw_inter);
        enum pci_path_class type = leg.inside ? channels->type_intra : channels->type_inter;

        if (leg.way->class > type) {
            return refuse(check, "channel %u uses a path of class %s, farther than %s", c,
                          pci_path_class_name(leg.way->class), pci_path_class_name(type));
        }
        if (PCI_PATH_DIS == leg.way->class &&
            speed > PCI_CHANNELS_BW_UNREACHABLE * (1 + TOLERANCE)) {
            return refuse(check, "channel %u claims a speed where there is no path", c);
        }
        for (uint32_t k = 0; k < leg.way->count; k++) {
            const struct pci_use *use = &check->fabric->uses[leg.way->first + k];

            check->load[use->link] += speed * use->factor;
        }
    }
    return 0;
}

static int check_all(struct check *check)
{
    const struct pci_channels *channels = check->channels;
    int rc = 0;

    if (channels->ngpus != check->fabric->ngpus) {
        return refuse(check, "the channels are of %u GPUs, the machine has %u", channels->ngpus,
                      check->fabric->ngpus);
    }
    if (0 == channels->ngpus) {
        return 0 == channels->nchannels ? 0 : refuse(check, "channels without a GPU");
    }
    if (0 == channels->nchannels || !(channels->bw_intra > 0) || !(channels->bw_inter > 0)) {
        return refuse(check, "%u channels of %g and %g GB/s", channels->nchannels,
                      channels->bw_intra, channels->bw_inter);
    }
    for (uint32_t c = 0; 0 == rc && c < channels->nchannels; c++) {
        rc = check_order(check, c);
        rc = 0 == rc ? check_nets(check, c) : rc;
        rc = 0 == rc ? check_ways(check, c) : rc;
    }
    if (0 == rc && PCI_CHANNELS_BW_UNREACHABLE == channels->bw_intra &&
        PCI_CHANNELS_BW_UNREACHABLE == channels->bw_inter) {
        return 0; /* the answer where there are no channels: it promises no bandwidth */
    }
    for (uint32_t link = 0; 0 == rc && link < check->fabric->nlinks; link++) {
        if (check->load[link] > check->fabric->capacity[link] * (1 + TOLERANCE) + TOLERANCE) {
            rc = refuse(check, "link %u carries %g of %g GB/s", link, check->load[link],
                        check->fabric->capacity[link]);
        }
    }
    return rc;
}

int pci_channels_check(const struct pci_fabric *fabric, const struct pci_channels *channels,
                       char *why, size_t size)
{
    struct check check = {.fabric = fabric, .channels = channels, .why = why, .size = size};
    int rc = -ENOMEM;

    if (size > 0) {
        snprintf(why, size, "not enough memory");
    }
    check.load = calloc((size_t) fabric->nlinks + 1, sizeof(*check.load));
    check.seen = calloc((size_t) fabric->ngpus + channels->ngpus + 1, sizeof(*check.seen));
    if (NULL != check.load && NULL != check.seen) {
        rc = check_all(&check);
        if (0 == rc && size > 0) {
            why[0] = '\0';
        }
    }
    free(check.load);
    free(check.seen);
    return rc;
}
