/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "test/rdma/pair_socket.h"

#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_SECONDS 60

static int problem(const char *what)
{
    perror(what);
    return -1;
}

int pair_local(int fds[2])
{
    return socketpair(AF_UNIX, SOCK_STREAM, 0, fds);
}

static struct addrinfo *resolve(const char *host, const char *port)
{
    const struct addrinfo hints = {.ai_family = AF_INET,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = host == NULL ? AI_PASSIVE : 0};
    struct addrinfo *address;
    int error = getaddrinfo(host, port, &hints, &address);

    if (error != 0) {
        fprintf(stderr, "%s: %s\n", host != NULL ? host : port, gai_strerror(error));
        return NULL;
    }
    return address;
}

int pair_serve(const char *port)
{
    struct addrinfo *address = resolve(NULL, port);
    struct pollfd poller = {.events = POLLIN};
    const int on = 1;
    int fd = -1;

    if (address == NULL) {
        return -1;
    }
    poller.fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(poller.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(poller.fd, address->ai_addr, address->ai_addrlen) != 0 || listen(poller.fd, 1) != 0) {
        problem("listen");
    } else if (poll(&poller, 1, PATIENCE_SECONDS * 1000) <= 0) {
        fprintf(stderr, "nobody called\n");
    } else {
        fd = accept(poller.fd, NULL, NULL);
    }
    freeaddrinfo(address);
    close(poller.fd);
    return fd;
}

int pair_connect(const char *host_and_port)
{
    char host[128];
    const char *colon = strrchr(host_and_port, ':');
    struct addrinfo *address;
    int fd = -1;

    if (colon == NULL || (size_t) (colon - host_and_port) >= sizeof host) {
        fprintf(stderr, "HOST:PORT expected: %s\n", host_and_port);
        return -1;
    }
    snprintf(host, sizeof host, "%.*s", (int) (colon - host_and_port), host_and_port);
    address = resolve(host, colon + 1);
    for (int i = 0; address != NULL && i < PATIENCE_SECONDS * 10; i++) {
        fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, address->ai_addr, address->ai_addrlen) == 0) {
            break;
        }
        close(fd);
        fd = -1;
        usleep(100000);
    }
    if (address != NULL) {
        freeaddrinfo(address);
    }
    if (fd < 0) {
        problem(host_and_port);
    }
    return fd;
}

static int send_all(int fd, const void *data, size_t bytes)
{
    for (const uint8_t *at = data; bytes > 0;) {
        ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL);

        if (n <= 0) {
            return problem("send");
        }
        at += n;
        bytes -= (size_t) n;
    }
    return 0;
}

static int receive_all(int fd, void *data, size_t bytes)
{
    for (uint8_t *at = data; bytes > 0;) {
        ssize_t n = recv(fd, at, bytes, 0);

        if (n <= 0) {
            fprintf(stderr, "the other process is gone\n");
            return -1;
        }
        at += n;
        bytes -= (size_t) n;
    }
    return 0;
}

int pair_exchange(int fd, const struct pair_message *mine, struct pair_message *theirs)
{
    if (send_all(fd, &mine->bytes, sizeof mine->bytes) != 0 ||
        send_all(fd, mine->data, mine->bytes) != 0 ||
        receive_all(fd, &theirs->bytes, sizeof theirs->bytes) != 0 ||
        theirs->bytes > sizeof theirs->data) {
        return -1;
    }
    return receive_all(fd, theirs->data, theirs->bytes);
}

int pair_barrier(int fd)
{
    char byte = 0;

    return send_all(fd, &byte, 1) == 0 && receive_all(fd, &byte, 1) == 0 ? 0 : -1;
}
