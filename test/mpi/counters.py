# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
"""Access to the performance variables of coll/gpuring, for which mpi4py has no calls."""
import ctypes

from mpi4py import MPI

MPI_T_PVAR_CLASS_COUNTER = 6  # in Open MPI's mpi.h


def mpi_library():
    """Return the MPI library of this process. Wheels of mpi4py load it without being linked with it."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            path = line.split(maxsplit=5)[-1].strip()
            if path.rsplit("/", 1)[-1].startswith("libmpi.so."):
                return path
    return MPI.__file__


mpi = ctypes.CDLL(mpi_library())


def need(result, what):
    if result != 0:
        raise RuntimeError(f"{what}: MPI error {result}")


class Counters:
    """Counts of calls that were served or staged. Call close() before MPI_Finalize."""

    def __init__(self, *names):
        provided, count = ctypes.c_int(), ctypes.c_int()
        self.session = ctypes.c_void_p()
        self.handles = {name: ctypes.c_void_p() for name in names}
        need(mpi.MPI_T_init_thread(MPI.THREAD_SINGLE, ctypes.byref(provided)), "start MPI_T")
        need(mpi.MPI_T_pvar_session_create(ctypes.byref(self.session)), "make a session")
        for name, handle in self.handles.items():
            index = ctypes.c_int()
            need(mpi.MPI_T_pvar_get_index(f"coll_gpuring_{name}".encode(),
                                          MPI_T_PVAR_CLASS_COUNTER, ctypes.byref(index)),
                 f"find the variable {name}")
            need(mpi.MPI_T_pvar_handle_alloc(self.session, index, None, ctypes.byref(handle),
                                             ctypes.byref(count)), f"use the variable {name}")
        self.last = self.read()

    def read(self):
        values = {}
        for name, handle in self.handles.items():
            value = ctypes.c_ulonglong()
            need(mpi.MPI_T_pvar_read(self.session, handle, ctypes.byref(value)), f"read {name}")
            values[name] = value.value
        return values

    def more(self):
        """Return the change of each counter since the last call."""
        now = self.read()
        change = {name: now[name] - self.last[name] for name in now}
        self.last = now
        return change

    def close(self):
        for handle in self.handles.values():
            mpi.MPI_T_pvar_handle_free(self.session, ctypes.byref(handle))
        mpi.MPI_T_pvar_session_free(ctypes.byref(self.session))
        mpi.MPI_T_finalize()
