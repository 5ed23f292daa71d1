/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Rows, edges and routes of a packing problem. */
#include "mca/topo_pci/bounds/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The link between two vertices in a sorted list, or SIZE_MAX. */
static size_t find_link(const struct pci_flow *flow, uint32_t from, uint32_t to)
{
    size_t low = 0, high = flow->nlinks;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct pci_flow_link *link = &flow->links[middle];

        if (link->from < from || (link->from == from && link->to < to)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < flow->nlinks && flow->links[low].from == from && flow->links[low].to == to
               ? low
               : SIZE_MAX;
}

/* One search for the widest, then shortest ways from a GPU to all others over relays alone. */
struct route_search {
    const struct pci_flow *flow; /* symmetric, sorted */
    const uint32_t *row_of;      /* link -> row */
    size_t *first;               /* vertex -> its first link; nvertices + 1 entries */
    uint64_t *width;             /* 0: not reached */
    uint32_t *hops;
    uint32_t *via; /* vertex -> link it was reached by */
    bool *done;
};

static void route_search_fini(struct route_search *search)
{
    free(search->first);
    free(search->width);
    free(search->hops);
    free(search->via);
    free(search->done);
    *search = (struct route_search){.flow = search->flow, .row_of = search->row_of};
}

static int route_search_init(struct route_search *search, const struct pci_flow *flow)
{
    size_t vertices = flow->nvertices;
    size_t link = 0;

    search->flow = flow;
    search->first = calloc(vertices + 1, sizeof(*search->first));
    search->width = calloc(vertices, sizeof(*search->width));
    search->hops = calloc(vertices, sizeof(*search->hops));
    search->via = calloc(vertices, sizeof(*search->via));
    search->done = calloc(vertices, sizeof(*search->done));
    if (NULL == search->first || NULL == search->width || NULL == search->hops ||
        NULL == search->via || NULL == search->done) {
        route_search_fini(search);
        return -ENOMEM;
    }
    for (uint32_t v = 0; v <= flow->nvertices; v++) {
        while (link < flow->nlinks && flow->links[link].from < v) {
            link++;
        }
        search->first[v] = link;
    }
    return 0;
}

/* Is reaching a vertex this way better than what is known of it? */
static bool route_better(const struct route_search *search, uint32_t v, uint64_t width,
                         uint32_t hops)
{
    return width > search->width[v] || (width == search->width[v] && hops < search->hops[v]);
}

static void route_relax(struct route_search *search, uint32_t v)
{
    const struct pci_flow *flow = search->flow;

    for (size_t i = search->first[v]; i < search->first[v + 1]; i++) {
        const struct pci_flow_link *link = &flow->links[i];
        uint64_t width = search->width[v] < link->capacity ? search->width[v] : link->capacity;

        if (!search->done[link->to] && route_better(search, link->to, width, search->hops[v] + 1)) {
            search->width[link->to] = width;
            search->hops[link->to] = search->hops[v] + 1;
            search->via[link->to] = (uint32_t) i;
        }
    }
}

static void route_search_run(struct route_search *search, uint32_t from)
{
    uint32_t vertices = search->flow->nvertices;
    uint32_t v = from;

    memset(search->width, 0, vertices * sizeof(*search->width));
    memset(search->done, 0, vertices * sizeof(*search->done));
    search->width[from] = UINT64_MAX;
    search->hops[from] = 0;
    while (UINT32_MAX != v) {
        search->done[v] = true;
        if (v == from || v >= search->flow->ngpus) {
            route_relax(search, v);
        }
        v = UINT32_MAX;
        for (uint32_t w = 0; w < vertices; w++) {
            if (!search->done[w] && search->width[w] > 0 &&
                (UINT32_MAX == v || route_better(search, v, search->width[w], search->hops[w]))) {
                v = w;
            }
        }
    }
}

/* Room for another edge of at most this many hops. */
static int edge_room(struct pack_problem *problem, uint32_t hops)
{
    uint32_t room = problem->route_room;

    if (room - problem->route_used < hops) {
        uint32_t *route;
        double *load;

        room = 2 * room + hops;
        route = realloc(problem->route, room * sizeof(*route));
        if (NULL == route) {
            return -ENOMEM;
        }
        problem->route = route;
        load = realloc(problem->route_load, room * sizeof(*load));
        if (NULL == load) {
            return -ENOMEM;
        }
        problem->route_load = load;
        problem->route_room = room;
    }
    return 0;
}

/* Append the edge whose hops were written behind the routes in use. */
static void edge_append(struct pack_problem *problem, uint32_t a, uint32_t b, uint32_t hops)
{
    problem->edges[problem->nedges] = (struct pack_edge){a, b, problem->route_used, hops};
    problem->route_used += hops;
    problem->edge_of[a * problem->ngpus + b] = problem->nedges;
    problem->edge_of[b * problem->ngpus + a] = problem->nedges;
    problem->nedges++;
}

/* The edge between two GPUs by the search's result, if there is a way. */
static void edge_by_search(struct pack_problem *problem, const struct route_search *search,
                           uint32_t a, uint32_t b)
{
    const struct pci_flow *flow = search->flow;
    size_t direct = find_link(flow, a, b);
    uint32_t *route = problem->route + problem->route_used;
    double *load = problem->route_load + problem->route_used;
    uint32_t hops = 0;

    if (SIZE_MAX != direct) {
        route[hops] = search->row_of[direct];
        load[hops++] = 1;
    } else if (search->width[b] > 0) {
        for (uint32_t v = b; v != a; v = flow->links[search->via[v]].from) {
            route[hops] = search->row_of[search->via[v]];
            load[hops++] = 1;
        }
    }
    if (hops > 0) {
        edge_append(problem, a, b, hops);
    }
}

static int edges_by_search(struct pack_problem *problem, const struct pci_flow *even,
                           const uint32_t *row_of)
{
    struct route_search search = {.row_of = row_of};
    int rc = route_search_init(&search, even);

    for (uint32_t a = 0; 0 == rc && a < problem->ngpus; a++) {
        route_search_run(&search, a);
        for (uint32_t b = a + 1; 0 == rc && b < problem->ngpus; b++) {
            rc = edge_room(problem, even->nvertices);
            if (0 == rc) {
                edge_by_search(problem, &search, a, b);
            }
        }
    }
    route_search_fini(&search);
    return rc;
}

/* The edge of a stated route; one over a link without capacity in both directions is none. */
static void edge_by_route(struct pack_problem *problem, const struct route_search *search,
                          const struct pci_flow *flow, const struct pci_flow_route *way)
{
    const uint32_t *vertices = flow->route_vertices + way->first;

    for (uint32_t i = 0; i < way->hops; i++) {
        size_t link = find_link(search->flow, vertices[i], vertices[i + 1]);

        if (SIZE_MAX == link) {
            return;
        }
        problem->route[problem->route_used + i] = search->row_of[link];
        problem->route_load[problem->route_used + i] = flow->route_loads[way->first + i];
    }
    edge_append(problem, way->a, way->b, way->hops);
}

/* The edges that the network states; the first route of a pair counts. */
static int edges_by_routes(struct pack_problem *problem, const struct pci_flow *flow,
                           const struct pci_flow *even, const uint32_t *row_of)
{
    struct route_search search = {.row_of = row_of};
    int rc = route_search_init(&search, even);

    for (size_t i = 0; 0 == rc && i < flow->nroutes; i++) {
        const struct pci_flow_route *way = &flow->routes[i];

        if (PACK_NO_EDGE != problem->edge_of[way->a * problem->ngpus + way->b]) {
            continue;
        }
        rc = edge_room(problem, way->hops > even->nvertices ? way->hops : even->nvertices);
        if (0 == rc && way->hops > 0) {
            edge_by_route(problem, &search, flow, way);
        } else if (0 == rc) {
            route_search_run(&search, way->a);
            edge_by_search(problem, &search, way->a, way->b);
        }
    }
    route_search_fini(&search);
    return rc;
}

static int find_rows(struct pack_problem *problem, const struct pci_flow *flow, uint32_t *row_of)
{
    for (size_t i = 0; i < flow->nlinks; i++) {
        const struct pci_flow_link *link = &flow->links[i];

        if (link->from < link->to) {
            row_of[i] = problem->nrows;
            problem->capacity[problem->nrows++] = (double) link->capacity / PCI_FLOW_UNITS;
        } else {
            row_of[i] = row_of[find_link(flow, link->to, link->from)]; /* came earlier */
        }
    }
    return problem->nrows <= PACK_MAX_ROWS ? 0 : -E2BIG;
}

static int problem_fill(struct pack_problem *problem, const struct pci_flow *flow,
                        const struct pci_flow *even)
{
    uint32_t *row_of = calloc(even->nlinks + 1, sizeof(*row_of));
    int rc = NULL == row_of ? -ENOMEM : find_rows(problem, even, row_of);

    if (0 == rc) {
        rc = flow->nroutes > 0 ? edges_by_routes(problem, flow, even, row_of)
                               : edges_by_search(problem, even, row_of);
    }
    free(row_of);
    return rc;
}

int pack_problem_init(struct pack_problem *problem, const struct pci_flow *flow)
{
    struct pci_flow even;
    size_t pairs = (size_t) flow->ngpus * flow->ngpus;
    int rc;

    if (flow->ngpus < 2) {
        return -EINVAL;
    }
    if (flow->ngpus > PCI_PACK_MAX_GPUS) {
        return -E2BIG;
    }
    rc = pci_flow_symmetric(flow, &even);
    if (0 != rc) {
        return rc;
    }
    *problem = (struct pack_problem){.ngpus = flow->ngpus};
    problem->capacity = calloc(even.nlinks + 1, sizeof(*problem->capacity));
    problem->edges = calloc(pairs, sizeof(*problem->edges));
    problem->edge_of = malloc(pairs * sizeof(*problem->edge_of));
    if (NULL == problem->capacity || NULL == problem->edges || NULL == problem->edge_of) {
        rc = -ENOMEM;
    } else {
        memset(problem->edge_of, 0xff, pairs * sizeof(*problem->edge_of));
        rc = problem_fill(problem, flow, &even);
    }
    if (0 != rc) {
        pack_problem_fini(problem);
    }
    pci_flow_fini(&even);
    return rc;
}

void pack_problem_fini(struct pack_problem *problem)
{
    free(problem->capacity);
    free(problem->edges);
    free(problem->edge_of);
    free(problem->route);
    free(problem->route_load);
    memset(problem, 0, sizeof(*problem));
}

int pci_pack_direct_bw(const struct pci_flow *flow, double *gbps)
{
    struct pack_problem problem;
    double slowest = 0;
    double *load;
    int rc = pack_problem_init(&problem, flow);

    if (0 != rc) {
        return rc;
    }
    load = calloc(problem.nrows + 1, sizeof(*load));
    if (NULL == load) {
        pack_problem_fini(&problem);
        return -ENOMEM;
    }
    for (uint32_t e = 0; e < problem.nedges; e++) {
        for (uint32_t i = 0; i < problem.edges[e].hops; i++) {
            load[problem.route[problem.edges[e].first + i]] +=
                problem.route_load[problem.edges[e].first + i];
        }
    }
    for (uint32_t r = 0; r < problem.nrows; r++) {
        double time = load[r] / problem.capacity[r];

        slowest = time > slowest ? time : slowest;
    }
    *gbps = problem.nedges == flow->ngpus * (flow->ngpus - 1) / 2 ? 1 / slowest : 0;
    free(load);
    pack_problem_fini(&problem);
    return 0;
}
