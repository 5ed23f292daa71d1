# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
"""Test MPI through mpi4py on arrays of numba.cuda: device, managed, mapped and pinned arrays, and views
into them, on one GPU or several. Kernels of Numba are not used, because they need NVVM.

numba_arrays.py [COUNT]: elements of a block"""
import sys
import threading

from numba import cuda  # loads the driver
import numpy as np
from mpi4py import MPI

from counters import Counters

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
OFFSET = 37  # elements: a view does not begin where memory does
# Changes of the counters, and their meaning.
WAYS = {"served": {"calls": 1, "staged": 0, "staged_messages": 0},
        "staged": {"calls": 0, "staged": 1, "staged_messages": 0},
        "staged messages": {"calls": 0, "staged": 0, "staged_messages": 2},
        "left to others": {"calls": 0, "staged": 0, "staged_messages": 0}}
comm = MPI.COMM_WORLD
size, rank = comm.size, comm.rank
lines = 0


def tell(good, text):
    """Print one line of TAP: "ok" if the check is good on all ranks."""
    global lines
    votes = comm.allgather(bool(good))
    lines += 1
    if rank == 0:
        print(f"{'ok' if all(votes) else 'not ok'} {lines} - {text}")
        if not all(votes):
            print(f"# wrong on ranks {[r for r in range(size) if not votes[r]]}")


def device(values):
    return cuda.to_device(values)


def stream(values):
    """Copy on a stream, which the caller of MPI must synchronise first."""
    with_stream = cuda.stream()
    array = cuda.to_device(values, stream=with_stream)
    with_stream.synchronize()
    return array


def chained(values):
    """Copy on two streams. The second one waits for an event of the first one."""
    first, second, done = cuda.stream(), cuda.stream(), cuda.event(timing=False)
    source = cuda.to_device(values, stream=first)
    target = cuda.device_array_like(source)
    done.record(first)
    done.wait(second)
    target.copy_to_device(source, stream=second)
    done.record(second)
    done.synchronize()
    return target


def view(values):
    """Return a part of an array. The default stream copies the data."""
    whole = cuda.device_array(OFFSET + len(values) + 5, values.dtype)
    part = whole[OFFSET:OFFSET + len(values)]
    part.copy_to_device(cuda.to_device(values))
    cuda.synchronize()
    return part


def filled(array, values):
    array[:] = values
    return array


def managed(values):
    return filled(cuda.managed_array(len(values), values.dtype), values)


def mapped(values):
    return filled(cuda.mapped_array(len(values), values.dtype), values)


def pinned(values):
    return filled(cuda.pinned_array(len(values), values.dtype), values)


def host_of(array):
    if isinstance(array, np.ndarray):
        return np.array(array)
    copying = cuda.stream()
    values = array.copy_to_host(stream=copying)
    copying.synchronize()
    return values


def data(of, count=COUNT, dtype=np.float32):
    """Return the contribution of a rank, which all ranks can compute."""
    return (np.arange(count) % 50 + 100 * of).astype(dtype)


def total(count=COUNT, dtype=np.float32):
    return sum(data(r, count, dtype) for r in range(size)).astype(dtype)


def allreduce(make):
    source, target = make(data(rank)), make(np.full(COUNT, -1, np.float32))
    comm.Allreduce(source, target)
    return target, total()


def allreduce_in_place(make):
    buffer = make(data(rank))
    comm.Allreduce(MPI.IN_PLACE, buffer)
    return buffer, total()


def iallreduce(make):
    source, target = make(data(rank)), make(np.full(COUNT, -1, np.float32))
    comm.Iallreduce(source, target).Wait()
    return target, total()


def bcast(make):
    buffer = make(data(rank))
    comm.Bcast(buffer, root=1)
    return buffer, data(1)


def alltoall(make):
    source = make(np.concatenate([data(rank + 10 * r) for r in range(size)]))
    target = make(np.zeros(size * COUNT, np.float32))
    comm.Alltoall(source, target)
    return target, np.concatenate([data(r + 10 * rank) for r in range(size)])


def ring(make, communicate):
    """Send to the next rank, and receive from the previous one."""
    source, target = make(data(rank)), make(np.zeros(COUNT, np.float32))
    communicate(source, (rank + 1) % size, target, (rank - 1) % size)
    return target, data((rank - 1) % size)


def sendrecv(make):
    return ring(make, lambda source, to, target, origin:
                comm.Sendrecv(source, to, 7, target, origin, MPI.ANY_TAG))


def isend_irecv(make):
    def communicate(source, to, target, origin):
        requests = [comm.Irecv(target, MPI.ANY_SOURCE, 8), comm.Isend(source, to, 8)]
        status = [MPI.Status(), MPI.Status()]
        MPI.Request.Waitall(requests, status)
        assert status[0].Get_count(MPI.FLOAT) == COUNT and status[0].source == origin
    return ring(make, communicate)


SERVED_CALLS = [allreduce, allreduce_in_place, iallreduce, alltoall, bcast]
MESSAGES = [sendrecv, isend_irecv]
ON_GPU = [device, stream, chained, view, managed]


def run(call, make, way):
    name = f"{call.__name__.replace('_', ' ')}, {make.__name__} arrays"
    counters.more()
    got, expected = call(make)
    change = counters.more()
    tell(np.array_equal(host_of(got), expected), f"{name}: right")
    tell(change == WAYS[way], f"{name}: {way}")


def from_another_process():
    """CUDA IPC: memory that the next rank has allocated."""
    mine = device(data(rank))
    cuda.synchronize()  # nobody else knows of the copy, also not MPI
    theirs = comm.sendrecv(mine.get_ipc_handle(), dest=(rank - 1) % size, source=(rank + 1) % size)
    source, target = theirs.open(), device(np.zeros(COUNT, np.float32))
    comm.Allreduce(source, target)
    tell(np.array_equal(host_of(target), total()), "allreduce of imported memory: right")
    gathered = device(np.zeros(size * COUNT, np.float32))
    comm.Allgather(source, gathered)
    tell(np.array_equal(host_of(gathered),
                        np.concatenate([data((r + 1) % size) for r in range(size)])),
         "allgather of imported memory: right")
    theirs.close()
    comm.Barrier()


def halves():
    """Reduce 16-bit floats, which neither MPI nor mpi4py has, with a named type."""
    def add(invec, inoutvec, datatype):
        inout = np.frombuffer(inoutvec, np.float16)
        inout += np.frombuffer(invec, np.float16)

    half, op = MPI.UINT16_T.Dup(), MPI.Op.Create(add, commute=True)
    half.Set_name("gpuring:float16:sum")
    source, target = device(data(rank, dtype=np.float16)), device(np.zeros(COUNT, np.float16))
    counters.more()
    comm.Allreduce([source, half], [target, half], op=op)
    tell(counters.more() == WAYS["served"], "allreduce of 16-bit floats: served")
    tell(np.array_equal(host_of(target), total(dtype=np.float16)),
         "allreduce of 16-bit floats: right")
    target = device(np.zeros(COUNT, np.float16))
    comm.Reduce([source, half], [target, half], op=op, root=0)
    tell(counters.more() == WAYS["served"], "reduce of 16-bit floats: served")
    tell(np.array_equal(host_of(target), total(dtype=np.float16) * (rank == 0)),
         "reduce of 16-bit floats: right")
    op.Free()
    half.Free()


def in_thread():
    """Make calls in a thread that has selected another GPU. The arrays do not move."""
    results = []

    def work():
        cuda.select_device((rank + 1) % len(cuda.gpus))
        buffer = device(data(rank))
        comm.Allreduce(MPI.IN_PLACE, buffer)
        results.append(host_of(buffer))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    tell(np.array_equal(results[0], total()), "allreduce in another thread: right")


def registered():
    """Copy to a GPU and back from host memory that is registered in the context of another GPU."""
    host = data(rank)
    target = device(np.zeros(COUNT, np.float32))
    with cuda.gpus[(rank + 1) % len(cuda.gpus)], cuda.pinned(host):
        comm.Allreduce(host, target)
        comm.Allreduce(target, host)
    tell(np.array_equal(host_of(target), total()), "allreduce from registered memory: right")
    tell(np.array_equal(host, size * total()), "allreduce into registered memory: right")


def other_gpu():
    """Use arrays that are not on the GPU that the thread has selected."""
    with cuda.gpus[(rank + 1) % len(cuda.gpus)]:
        target = device(np.zeros(COUNT, np.float32))
        source = device(data(rank))
    comm.Allreduce(source, target)
    with cuda.gpus[(rank + 1) % len(cuda.gpus)]:
        tell(np.array_equal(host_of(target), total()), "allreduce on another GPU: right")


def fails(communicator, buffer):
    try:
        communicator.Allreduce(MPI.IN_PLACE, buffer)
        return False
    except MPI.Exception:
        return True


def after_reset():
    """After a reset of rank 0's GPU, connected communicators fail and new ones are staged."""
    old = comm.Dup()
    buffer = device(data(rank))
    old.Allreduce(MPI.IN_PLACE, buffer)
    if rank == 0:
        del buffer
        cuda.close()
        cuda.select_device(0)
        buffer = device(data(rank))
    tell(fails(old, buffer),
         "after cuda.close(): an error on a communicator that was used before")
    buffer = device(data(rank))
    failed = fails(comm.Dup(), buffer)
    tell(not failed and np.array_equal(host_of(buffer), total()),
         "after cuda.close(): right on a new communicator")
    host = data(rank)
    comm.Allreduce(MPI.IN_PLACE, host)
    tell(np.array_equal(host, total()), "after cuda.close(): host buffers are right")


comm.Set_errhandler(MPI.ERRORS_RETURN)
counters = Counters("calls", "staged", "staged_messages")
cuda.select_device(rank % len(cuda.gpus))
for make in ON_GPU:
    for call in SERVED_CALLS:
        run(call, make, "served")
    for call in MESSAGES:
        run(call, make, "staged messages")
for make in pinned, mapped:
    for call in SERVED_CALLS + MESSAGES:
        run(call, make, "left to others")
for scene in halves, from_another_process, in_thread, registered, other_gpu:
    scene()
after_reset()
counters.close()
if rank == 0:
    print(f"1..{lines}")
sys.stdout.flush()
