/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* Print the machine as a tree in text form. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/render/pci_render.h"

enum {
    PREFIX_MAX = 4 * PCI_DOC_MAX_DEPTH + 4,
};

/* Prefix of a line: "|  " for each level that continues, "   " for each level that has ended. */
struct branch {
    char prefix[PREFIX_MAX];
    size_t length;
};

static const char *text_of(const struct pci_elem *elem, const char *key, const char *otherwise)
{
    const char *text = pci_elem_get(elem, key);

    return text && text[0] ? text : otherwise;
}

static void cpu_line(FILE *out, const struct pci_elem *cpu)
{
    fprintf(out, "CPU %s", text_of(cpu, "numaid", "?"));
    fprintf(out, "  %s", text_of(cpu, "arch", "unknown architecture"));
    if (pci_elem_get(cpu, "vendor")) {
        fprintf(out, " %s", pci_elem_get(cpu, "vendor"));
    }
    if (pci_elem_get(cpu, "familyid")) {
        fprintf(out, " family %s model %s", pci_elem_get(cpu, "familyid"),
                text_of(cpu, "modelid", "?"));
    }
    fprintf(out, "  processors %s", text_of(cpu, "affinity", "unknown"));
}

static void pci_line(FILE *out, const struct pci_elem *pci)
{
    const char *speed = text_of(pci, "link_speed", "unknown speed");
    size_t length = strcspn(speed, " ");

    fprintf(out, "PCI %s", text_of(pci, "busid", "?"));
    if (strstr(speed, "GT/s")) {
        fprintf(out, "  %.*s GT/s x%s", (int) length, speed, text_of(pci, "link_width", "?"));
    } else {
        fprintf(out, "  link of unknown speed");
    }
    if (!pci_link_known(pci_elem_long(pci, "link_width", 0), pci_elem_get(pci, "link_speed"))) {
        fprintf(out, strstr(speed, "GT/s") ? " (16 lanes assumed)" : " (8 GT/s assumed)");
    }
    if (pci_elem_get(pci, "class") && strncmp(pci_elem_get(pci, "class"), "0x0604", 6) == 0) {
        fprintf(out, "  switch");
    }
}

static void gpu_line(FILE *out, const struct pci_elem *gpu)
{
    fprintf(out, "GPU %s", text_of(gpu, "dev", "?"));
    if (pci_elem_get(gpu, "rank")) {
        fprintf(out, "  rank %s", pci_elem_get(gpu, "rank"));
    }
    fprintf(out, "  sm %s%s", text_of(gpu, "sm", "unknown"),
            pci_elem_long(gpu, "gdr", 0) ? "  GPUDirect RDMA" : "");
}

static void net_line(FILE *out, const struct pci_elem *net)
{
    long speed = pci_elem_long(net, "speed", 0);

    fprintf(out, "NET %s  %s", text_of(net, "dev", "?"), text_of(net, "name", "without a name"));
    if (pci_elem_long(net, "port", 0) > 0) {
        fprintf(out, " port %s", pci_elem_get(net, "port"));
    }
    fprintf(out, "  %g Gb/s%s", speed > 0 ? (double) speed / 1000 : 10,
            speed <= 0 || pci_elem_long(net, "speed_assumed", 0) == 1 ? " (assumed)" : "");
    fprintf(out, "%s", pci_elem_long(net, "gdr", 0) ? "  GPUDirect RDMA" : "");
}

/* Return the device number of the GPU at a bus ID, or NULL. */
static const char *gpu_at(const struct pci_doc *doc, const char *busid)
{
    struct pci_elem *gpu = NULL;

    while ((gpu = pci_doc_next(doc, gpu, "gpu")) != NULL) {
        const char *name = pci_elem_get(pci_elem_parent(gpu), "busid");

        if (name && pci_busid_parse(name) == pci_busid_parse(busid)) {
            return pci_elem_get(gpu, "dev");
        }
    }
    return NULL;
}

static void nvlink_line(FILE *out, const struct pci_doc *doc, const struct pci_elem *link)
{
    const char *target = text_of(link, "target", "?"), *gpu = gpu_at(doc, target);
    const char *class = text_of(link, "tclass", "");

    fprintf(out, "NVLink x%s to ", text_of(link, "count", "1"));
    if (gpu) {
        fprintf(out, "GPU %s", gpu);
    } else {
        fprintf(out, "%s %s", strncmp(class, "0x0680", 6) == 0 ? "switch" : "device", target);
    }
}

static void other_line(FILE *out, const struct pci_elem *elem)
{
    const char *key, *value;

    fprintf(out, "%s", pci_elem_name(elem));
    for (size_t i = 0; pci_elem_attribute(elem, i, &key, &value); i++) {
        fprintf(out, "  %s=%s", key, value);
    }
}

static void elem_line(FILE *out, const struct pci_doc *doc, const struct pci_elem *elem)
{
    const char *name = pci_elem_name(elem);

    if (strcmp(name, "cpu") == 0) {
        cpu_line(out, elem);
    } else if (strcmp(name, "pci") == 0) {
        pci_line(out, elem);
    } else if (strcmp(name, "gpu") == 0) {
        gpu_line(out, elem);
    } else if (strcmp(name, "net") == 0) {
        net_line(out, elem);
    } else if (strcmp(name, "nvlink") == 0) {
        nvlink_line(out, doc, elem);
    } else {
        other_line(out, elem);
    }
    fputc('\n', out);
}

/* Skip a nic element, which only contains ports, and return its first port instead. */
static struct pci_elem *skip_nic(struct pci_elem *elem)
{
    while (elem && strcmp(pci_elem_name(elem), "nic") == 0 && pci_elem_child(elem, NULL)) {
        elem = pci_elem_child(elem, NULL);
    }
    return elem;
}

/* Return the element after ELEM on its level. A port has the level of its nic element. */
static struct pci_elem *next_beside(const struct pci_elem *elem)
{
    struct pci_elem *next = pci_elem_sibling(elem, NULL), *above = pci_elem_parent(elem);

    while (!next && above && strcmp(pci_elem_name(above), "nic") == 0) {
        next = pci_elem_sibling(above, NULL);
        above = pci_elem_parent(above);
    }
    return skip_nic(next);
}

/* Return the parent of ELEM, skipping nic elements. */
static struct pci_elem *level_above(const struct pci_elem *elem)
{
    struct pci_elem *above = pci_elem_parent(elem);

    while (above && strcmp(pci_elem_name(above), "nic") == 0) {
        above = pci_elem_parent(above);
    }
    return above;
}

static void branch_down(struct branch *branch, int more)
{
    if (branch->length + 3 < sizeof branch->prefix) {
        memcpy(branch->prefix + branch->length, more ? "|  " : "   ", 4);
    }
    branch->length += 3;
}

static void branch_up(struct branch *branch)
{
    branch->length -= 3;
    if (branch->length < sizeof branch->prefix) {
        branch->prefix[branch->length] = '\0';
    }
}

static void counts_line(FILE *out, const struct pci_graph *graph)
{
    static const struct {
        enum pci_node_type type;
        const char *name, *plural;
    } counted[] = {{PCI_NODE_CPU, "CPU", "s"},
                   {PCI_NODE_GPU, "GPU", "s"},
                   {PCI_NODE_NET, "network port", "s"},
                   {PCI_NODE_NVS, "NVLink switch", "es"}};
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        uint32_t count = pci_graph_count(graph, counted[i].type);
        fprintf(out, "%s%u %s%s", i ? ", " : "", count, counted[i].name,
                count == 1 ? "" : counted[i].plural);
    }
    fputc('\n', out);
}

/* Traverse without recursion: to the first child, otherwise to the next sibling, otherwise up. */
int pci_render_tree(FILE *out, const struct pci_doc *doc, const struct pci_graph *graph)
{
    struct branch branch = {"", 0};
    struct pci_elem *root = pci_doc_root(doc), *elem = skip_nic(pci_elem_child(root, NULL)), *next;

    counts_line(out, graph);
    while (elem) {
        int more = next_beside(elem) != NULL;

        fprintf(out, "%s%s", branch.prefix, more ? "|- " : "`- ");
        elem_line(out, doc, elem);
        next = skip_nic(pci_elem_child(elem, NULL));
        if (next) {
            branch_down(&branch, more);
            elem = next;
            continue;
        }
        while (elem && !(next = next_beside(elem))) {
            elem = level_above(elem);
            if (!elem || elem == root) {
                return 0;
            }
            branch_up(&branch);
        }
        elem = next;
    }
    return 0;
}
