/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/wireup/survey.h"

#include <stdlib.h>

#include "mca/coll_gpuring/util/status.h"

int gpuring_survey_nodes(struct gpuring_survey *survey)
{
    return gpuring_node_map_find(&survey->rank_infos, &survey->map);
}

bool gpuring_survey_has_topology(const struct gpuring_survey *survey)
{
    uint32_t common = GPURING_CAPABILITY_GRAPH;

    for (int rank = 0; rank < survey->rank_infos.nranks; rank++) {
        common &= gpuring_rank_info_of(&survey->rank_infos, rank)->capabilities;
    }
    return common != 0;
}

void gpuring_survey_local(struct gpuring_survey *survey, int rank, struct pci_doc *doc,
                          bool from_file, enum pci_peer peers, bool parts)
{
    if (gpuring_survey_has_topology(survey) && doc != NULL) {
        gpuring_local_channels_find(&survey->rank_infos, &survey->map, rank, doc, from_file, peers,
                                    parts, &survey->local);
        survey->local_whole = survey->local;
        if (survey->local.in_parts) {
            gpuring_local_channels_find(&survey->rank_infos, &survey->map, rank, doc, from_file,
                                        peers, false, &survey->local_whole);
        }
    }
    survey->facts = gpuring_plans_facts(&survey->rank_infos, &survey->map, rank);
    gpuring_rank_info_compact(&survey->rank_infos);
}

int gpuring_survey_divide(struct gpuring_survey *survey, struct gpuring_gathered *blocks,
                          bool *divided)
{
    struct gpuring_node_map parts;
    int status;

    survey->wires = gpuring_channels_gathered(blocks, &survey->same_model);
    status = gpuring_channels_divide(&survey->map, survey->wires, &parts);
    *divided = status == GPURING_OK && parts.nranks > 0;
    if (*divided) {
        survey->whole = survey->map;
        survey->map = parts;
    }
    return status;
}

void gpuring_survey_undivide(struct gpuring_survey *survey)
{
    gpuring_channels_fini(&survey->channels);
    gpuring_node_map_clear(&survey->map);
    survey->map = survey->whole;
    survey->whole = (struct gpuring_node_map){.nranks = 0};
    survey->local = survey->local_whole;
    free(survey->wires);
    survey->wires = NULL;
}

void gpuring_survey_connect(struct gpuring_survey *survey)
{
    gpuring_channels_init(&survey->channels, &survey->facts.gpus, &survey->map, survey->wires,
                          survey->same_model ? &survey->local.model : NULL);
}

void gpuring_survey_fini(struct gpuring_survey *survey)
{
    gpuring_channels_fini(&survey->channels);
    free(survey->wires);
    gpuring_node_map_clear(&survey->map);
    gpuring_node_map_clear(&survey->whole);
    gpuring_gathered_clear(&survey->rank_infos);
    gpuring_gathered_clear(&survey->devices);
}
