/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "kernels/types.h"

#define ON_DEVICE(name, ctype, kind, text) \
    {text, sizeof(ctype), _Alignof(ctype), GPURING_CLASS_##kind, 1},
#define ON_HOST(name, ctype, kind, text) \
    {text, sizeof(ctype), _Alignof(ctype), GPURING_CLASS_##kind, 0},

static const struct gpuring_type_info types[GPURING_TYPE_COUNT] = {GPURING_TYPES_DEVICE(ON_DEVICE)
                                                                       GPURING_TYPES_HOST(ON_HOST)};

#define OP(name, classes, text) {text, classes},

static const struct gpuring_op_info ops[GPURING_OP_COUNT] = {GPURING_OPS(OP)};

const struct gpuring_type_info *gpuring_type_info(uint32_t type)
{
    return type < GPURING_TYPE_COUNT ? &types[type] : NULL;
}

const struct gpuring_op_info *gpuring_op_info(uint32_t op)
{
    return op < GPURING_OP_COUNT ? &ops[op] : NULL;
}

int gpuring_op_allows(uint32_t op, uint32_t type)
{
    const struct gpuring_op_info *op_info = gpuring_op_info(op);
    const struct gpuring_type_info *type_info = gpuring_type_info(type);

    return op_info != NULL && type_info != NULL && (op_info->classes & type_info->class) != 0;
}
