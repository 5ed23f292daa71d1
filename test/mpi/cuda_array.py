# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
"""Test MPI through mpi4py on objects with __cuda_array_interface__, like arrays of CuPy and tensors of
PyTorch, on the stand-in driver. As in PyTorch, a thread creates the context of each GPU, and the
context of another GPU is current in the calling thread."""
import array
import ctypes
import sys
import threading

driver = ctypes.CDLL("libcuda.so.1")  # before mpi4py: as an application that uses GPUs does
from mpi4py import MPI  # noqa: E402

COUNT = 1000
comm = MPI.COMM_WORLD
comm.Set_errhandler(MPI.ERRORS_RETURN)
lines = 0


def need(result, what):
    if result != 0:
        print(f"Bail out! {what}: CUresult {result}")
        comm.Abort(2)


def check(good, text):
    global lines
    good = comm.allreduce(int(good), op=MPI.MIN)
    lines += 1
    if comm.rank == 0:
        print(f"{'ok' if good else 'not ok'} {lines} - {text}")


def make_contexts(contexts):
    for gpu in range(2):
        need(driver.cuDevicePrimaryCtxRetain(ctypes.byref(contexts[gpu]), gpu), "make a context")


def current():
    context = ctypes.c_void_p()
    need(driver.cuCtxGetCurrent(ctypes.byref(context)), "ask for the context")
    return context.value


class Within:
    """Make the context of a GPU current."""

    def __init__(self, context):
        self.context = context

    def __enter__(self):
        need(driver.cuCtxPushCurrent_v2(self.context), "use a context")

    def __exit__(self, *unused):
        need(driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p())), "leave a context")


class CudaArray:
    """COUNT floats on a GPU."""

    def __init__(self, context, value):
        self.context = context
        self.address = ctypes.c_uint64()
        with Within(context):
            need(driver.cuMemAlloc_v2(ctypes.byref(self.address), ctypes.c_size_t(4 * COUNT)),
                 "allocate device memory")
        self.copy(array.array("f", [value] * COUNT), into=True)

    def copy(self, host, into):
        stream = ctypes.c_void_p()
        there = ctypes.c_uint64(host.buffer_info()[0])
        to, source = (self.address, there) if into else (there, self.address)
        with Within(self.context):
            need(driver.cuStreamCreateWithPriority(ctypes.byref(stream), 1, 0), "make a stream")
            need(driver.cuMemcpyAsync(to, source, ctypes.c_size_t(4 * COUNT), stream), "copy")
            need(driver.cuStreamSynchronize(stream), "copy")
            need(driver.cuStreamDestroy_v2(stream), "give back a stream")

    def holds(self, value):
        host = array.array("f", [0] * COUNT)
        self.copy(host, into=False)
        return all(x == value for x in host)

    def free(self):
        with Within(self.context):
            need(driver.cuMemFree_v2(self.address), "free device memory")

    @property
    def __cuda_array_interface__(self):
        return {"shape": (COUNT,), "typestr": "<f4", "data": (self.address.value, False),
                "version": 3, "strides": None, "stream": None}


need(driver.cuInit(0), "start the driver")
contexts = [ctypes.c_void_p(), ctypes.c_void_p()]
thread = threading.Thread(target=make_contexts, args=(contexts,))
thread.start()
thread.join()
mine = comm.rank % 2
total = sum(rank + 1 for rank in range(comm.size))

source, target = CudaArray(contexts[mine], comm.rank + 1), CudaArray(contexts[mine], -1)
comm.Allreduce(source, target)
check(target.holds(total), "Allreduce, no context is current")
check(current() is None, "and none is afterwards")
with Within(contexts[1 - mine]):
    comm.Allreduce(MPI.IN_PLACE, source)
    check(source.holds(total), "Allreduce in place, the other GPU's context is current")
    check(current() == contexts[1 - mine].value, "and is afterwards")
    comm.Iallreduce(source, target).Wait()
    check(target.holds(total * comm.size), "Iallreduce")
    if comm.rank == 1:
        source.copy(array.array("f", [7] * COUNT), into=True)
    comm.Bcast(source, root=1)
    check(source.holds(7), "Bcast")
    elsewhere = CudaArray(contexts[1 - mine], 1)
    comm.Allreduce(elsewhere, target)
    check(target.holds(comm.size), "Allreduce from memory of the other GPU")
for memory in source, target, elsewhere:
    memory.free()
if comm.rank == 0:
    print(f"1..{lines}")
sys.stdout.flush()
