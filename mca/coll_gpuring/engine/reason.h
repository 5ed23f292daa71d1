/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef GPURING_ENGINE_REASON_H
#define GPURING_ENGINE_REASON_H

/* The reasons for which a call is not served: X(NAME, code and text for the log). */
#define GPURING_REASONS(X)                                                                        \
    X(NONE, "[served] served")                                                                    \
    X(TYPE, "[datatype] the datatype is not a predefined one that can be reduced")                \
    X(OP, "[operation] the operation is user-defined, or MPI does not define it for the "         \
          "datatype")                                                                             \
    X(MEMORY, "[host-memory] the buffers are in host memory and coll_gpuring_device is not "      \
              "host, or the call has no data")                                                    \
    X(NO_DRIVER, "[no-driver] no CUDA driver is loaded in this process: the buffers are in "      \
                 "host memory")                                                                   \
    X(MIXED, "[mixed-memory] not all ranks have a buffer on a GPU")                               \
    X(HOST_TYPE, "[host-datatype] the buffers are on a GPU, which does not reduce the datatype")  \
    X(DEAD, "[not-connected] the ranks of the communicator could not be connected")               \
    X(PREVIOUS, "[previous] coll_gpuring_algorithm is previous")                                  \
    X(TUNED, "[tuned] the tuning file delegates calls of this size")                              \
    X(SHARED, "[shared-gpu] ranks take turns on a GPU, and staging a call of this size is "       \
              "faster than that: start CUDA MPS")                                                 \
    X(RANKS, "[many-ranks] no algorithm serves this collective between so many ranks")            \
    X(PASSES, "[many-passes] the data would pass through many ranks in turn, which is slower "    \
              "than in other components at this size")                                            \
    X(SHORT, "[short-blocking] other components are faster in short blocking calls on host "      \
             "memory between nodes of one rank each")                                             \
    X(UNKNOWN, "[no-vote] each rank may have its buffer on a GPU or not, and ranks that are not " \
               "connected exchange this only in calls 1, 3, 7, 15 ... of a communicator, and "    \
               "never if coll_gpuring_agree_size is 0")                                           \
    X(EARLY, "[early] it is one of the first small calls of a communicator "                      \
             "(coll_gpuring_connect_after)")                                                      \
    X(TRACKS,                                                                                     \
      "[many-persistent] the communicator has as many persistent calls as can be served, or a "   \
      "rank has no memory for another one")                                                       \
    X(SMALL, "[small] staging a call with a root of this size is faster than serving it, or "     \
             "than an agreement between nodes (coll_gpuring_agree_size)")

enum gpuring_reason {
#define GPURING_REASON_ENUM(name, text) GPURING_REASON_##name,
    GPURING_REASONS(GPURING_REASON_ENUM)
#undef GPURING_REASON_ENUM
        GPURING_REASON_COUNT
};

const char *gpuring_reason_text(enum gpuring_reason reason);

#endif
