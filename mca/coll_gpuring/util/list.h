/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * A doubly linked ring of nodes that are members of the listed structures:
 *
 *     head <-> first <-> ... <-> last <-> head
 *
 * A zeroed head must be initialised before use. A zeroed or removed node is in no list and has no
 * neighbours. Not synchronised.
 */
#ifndef GPURING_UTIL_LIST_H
#define GPURING_UTIL_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct gpuring_list {
    struct gpuring_list *next, *prev;
};

/* A head with static storage: struct gpuring_list all = GPURING_LIST_INIT(all); */
#define GPURING_LIST_INIT(head) \
    {                           \
        &(head), &(head)        \
    }

static inline void gpuring_list_init(struct gpuring_list *head)
{
    head->next = head->prev = head;
}

static inline bool gpuring_list_empty(const struct gpuring_list *head)
{
    return head->next == head;
}

/* Return true if this node is in a list. */
static inline bool gpuring_list_linked(const struct gpuring_list *node)
{
    return node->next != NULL;
}

static inline void gpuring_list_append(struct gpuring_list *head, struct gpuring_list *node)
{
    node->next = head;
    node->prev = head->prev;
    head->prev->next = node;
    head->prev = node;
}

static inline void gpuring_list_prepend(struct gpuring_list *head, struct gpuring_list *node)
{
    gpuring_list_append(head->next, node);
}

/* Move all nodes of another list to the end of this one. */
static inline void gpuring_list_append_all(struct gpuring_list *head, struct gpuring_list *from)
{
    if (!gpuring_list_empty(from)) {
        from->next->prev = head->prev;
        from->prev->next = head;
        head->prev->next = from->next;
        head->prev = from->prev;
        gpuring_list_init(from);
    }
}

/* Remove a node from its list, if it is in one. */
static inline void gpuring_list_remove(struct gpuring_list *node)
{
    if (gpuring_list_linked(node)) {
        node->prev->next = node->next;
        node->next->prev = node->prev;
        node->next = node->prev = NULL;
    }
}

/* Return the structure of this type that contains the node as this member. */
#define GPURING_LIST_ENTRY(node, type, member) \
    ((type *) (void *) ((char *) (node) -offsetof(type, member)))

/* Return the first structure of a list, or NULL. */
#define GPURING_LIST_FIRST(head, type, member) \
    (gpuring_list_empty(head) ? NULL : GPURING_LIST_ENTRY((head)->next, type, member))

/* Loop over the structures of a list. The caller declares `entry`, which must stay in the list
 * during the body. */
#define GPURING_LIST_EACH(entry, head, type, member)                                           \
    for ((entry) = GPURING_LIST_ENTRY((head)->next, type, member); &(entry)->member != (head); \
         (entry) = GPURING_LIST_ENTRY((entry)->member.next, type, member))

#endif
