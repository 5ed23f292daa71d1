# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
"""A binding that looks MPI's functions up in its library, as ctypes and MPI.jl do, with
libgpuring_aware.so (the argument) as that library: device memory of the stand-in driver."""
import ctypes
import sys

COUNT = 100
lines = 0


def check(good, text):
    global lines
    lines += 1
    print(f"{'ok' if good else 'not ok'} {lines} - {text}")


def need(result, what):
    if result != 0:
        sys.exit(f"{what}: {result}")


driver = ctypes.CDLL("libcuda.so.1")  # before MPI: as an application that uses GPUs does
context, address, stream = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p()
size = ctypes.c_size_t(4 * COUNT)
source, packed = (ctypes.c_int * COUNT)(*range(COUNT)), (ctypes.c_int * COUNT)()
need(driver.cuInit(0), "cuInit")
need(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), "cuDevicePrimaryCtxRetain")
need(driver.cuCtxPushCurrent_v2(context), "cuCtxPushCurrent")
need(driver.cuMemAlloc_v2(ctypes.byref(address), size), "cuMemAlloc")
need(driver.cuStreamCreateWithPriority(ctypes.byref(stream), 1, 0), "cuStreamCreate")
need(driver.cuMemcpyAsync(address, ctypes.c_uint64(ctypes.addressof(source)), size, stream), "copy")
need(driver.cuStreamSynchronize(stream), "cuStreamSynchronize")

mpi = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)


def handle(name):
    return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name)))


need(mpi.MPI_Init(None, None), "MPI_Init")
check(mpi.MPIX_Query_cuda_support() == 1, "MPIX_Query_cuda_support says yes")
position = ctypes.c_int(0)
need(mpi.MPI_Pack(ctypes.c_void_p(address.value), COUNT, handle("ompi_mpi_int"), packed, 4 * COUNT,
                  ctypes.byref(position), handle("ompi_mpi_comm_world")), "MPI_Pack")
check(list(packed) == list(range(COUNT)) and position.value == 4 * COUNT, "MPI_Pack")
need(driver.cuStreamDestroy_v2(stream), "cuStreamDestroy")
need(driver.cuMemFree_v2(address), "cuMemFree")
need(mpi.MPI_Finalize(), "MPI_Finalize")
print(f"1..{lines}")
