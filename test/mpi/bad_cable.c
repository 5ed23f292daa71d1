/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * A bad cable between two network namespaces, which needs no sch_netem in the kernel. This process
 * owns the Ethernet devices (TAP) and copies frames between them: late, twice, in another order, or
 * not at all.
 *
 *   bad_cable NAMESPACE ADDRESS NAMESPACE ADDRESS DEVICE DELAY JITTER LOST DOUBLED REORDERED
 *
 * DEVICE is the name of both devices. DELAY and JITTER are in milliseconds, and the others in
 * percent. A reordered frame is not delayed. The program returns when the devices are up. The cable
 * exists until the namespaces are deleted.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* setns */
#endif
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { DELAY, JITTER, LOST, DOUBLED, REORDERED, NUMBERS };

struct frame {
    double at; /* when it arrives, in milliseconds */
    int to;
    size_t bytes;
    struct frame *next;
    char data[];
};

static int devices[2];
static double numbers[NUMBERS];
static struct frame *under_way; /* by their times */

static void fail(const char *what)
{
    fprintf(stderr, "bad_cable: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec * 1e3 + (double) time.tv_nsec / 1e6;
}

/* Enter a namespace and open a device in it. */
static int open_device(const char *space, const char *address, const char *name)
{
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    char text[256];
    int fd;

    snprintf(text, sizeof text, "/run/netns/%s", space);
    fd = open(text, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) {
        fail(text);
    }
    close(fd);
    fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0) {
        fail("/dev/net/tun");
    }
    snprintf(text, sizeof text, "ip addr add %s/24 dev %s && ip link set %s up", address, name,
             name);
    if (system(text) != 0) {
        fail(text);
    }
    return fd;
}

static bool happens(int number)
{
    return drand48() * 100 < numbers[number];
}

static void send_later(int to, const char *data, size_t bytes)
{
    struct frame *frame = malloc(sizeof *frame + bytes), **place = &under_way;

    if (frame == NULL) {
        fail("malloc");
    }
    frame->at = now();
    if (!happens(REORDERED)) {
        frame->at += numbers[DELAY] + (2 * drand48() - 1) * numbers[JITTER];
    }
    frame->to = to;
    frame->bytes = bytes;
    memcpy(frame->data, data, bytes);
    while (*place != NULL && (*place)->at <= frame->at) {
        place = &(*place)->next;
    }
    frame->next = *place;
    *place = frame;
}

static void take_frames(int from)
{
    static char data[65536];
    ssize_t bytes;

    while ((bytes = read(devices[from], data, sizeof data)) > 0) {
        if (happens(LOST)) {
            continue;
        }
        send_later(1 - from, data, (size_t) bytes);
        if (happens(DOUBLED)) {
            send_later(1 - from, data, (size_t) bytes);
        }
    }
}

static void give_frames(void)
{
    while (under_way != NULL && under_way->at <= now()) {
        struct frame *frame = under_way;

        ssize_t written = write(devices[frame->to], frame->data, frame->bytes);

        (void) written; /* a frame that does not fit is lost, like others */
        under_way = frame->next;
        free(frame);
    }
}

int main(int argc, char **argv)
{
    char there[256];

    if (argc != 6 + NUMBERS) {
        errno = EINVAL;
        fail("arguments");
    }
    devices[0] = open_device(argv[1], argv[2], argv[5]);
    devices[1] = open_device(argv[3], argv[4], argv[5]);
    for (int i = 0; i < NUMBERS; i++) {
        numbers[i] = atof(argv[6 + i]);
    }
    snprintf(there, sizeof there, "/run/netns/%s", argv[3]);
    if (daemon(0, 0) != 0) {
        fail("daemon");
    }
    srand48(1);
    for (;;) {
        struct pollfd wait[2] = {{.fd = devices[0], .events = POLLIN},
                                 {.fd = devices[1], .events = POLLIN}};
        double left = under_way != NULL ? under_way->at - now() : 1000;
        const struct timespec time = {.tv_nsec =
                                          left < 0 ? 0 : (long) (left > 900 ? 9e8 : left * 1e6)};

        if (ppoll(wait, 2, &time, NULL) < 0 || access(there, F_OK) != 0) {
            return 0;
        }
        take_frames(0);
        take_frames(1);
        give_frames();
    }
}
