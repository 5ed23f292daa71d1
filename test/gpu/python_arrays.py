# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
"""Make MPI calls through mpi4py on GPU arrays of CuPy, PyTorch and Numba, on the default stream and on
other streams, like the programs of their users.

python_arrays.py [--usable | --brief] cupy|torch|numba

A kernel on a stream writes each input. The program waits for that stream and calls MPI. Then a kernel on
the same stream reads the result without a further wait. Prints TAP. --brief tests only float32. --usable
only checks, without MPI, that the library works here. If it does not, the program prints the reason and
returns 1."""
import contextlib
import os
import sys

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mpi"))  # counters

COUNTS = (1, 1000, 1 << 20)  # elements
TYPES = ("float32", "float64", "int32")
KERNELS = 20  # that run on another stream during a non-blocking call


class Cupy:
    """Arrays of CuPy."""
    addend = 1

    def __init__(self, rank):
        import cupy
        self.module = cupy
        cupy.cuda.Device(rank % cupy.cuda.runtime.getDeviceCount()).use()
        self.version = f"CuPy {cupy.__version__}"
        self.default = cupy.cuda.Stream.null

    def stream(self):
        return self.module.cuda.Stream(non_blocking=True)

    def within(self, stream):
        return stream

    def wait(self, stream):
        stream.synchronize()

    def upload(self, values):
        return self.module.asarray(values)

    def add(self, array):
        return array + array.dtype.type(self.addend)

    def download(self, array):
        return self.module.asnumpy(array)


class Torch:
    """Tensors of PyTorch."""
    addend = 1

    def __init__(self, rank):
        import torch
        self.module = torch
        if not torch.cuda.is_available():
            raise RuntimeError(f"PyTorch {torch.__version__} finds no GPU")
        torch.cuda.set_device(rank % torch.cuda.device_count())
        self.version = f"PyTorch {torch.__version__}"
        self.default = torch.cuda.default_stream()

    def stream(self):
        return self.module.cuda.Stream()

    def within(self, stream):
        return self.module.cuda.stream(stream)

    def wait(self, stream):
        stream.synchronize()

    def upload(self, values):
        return self.module.from_numpy(values).to("cuda", non_blocking=True)

    def add(self, array):
        return array + self.addend

    def download(self, array):
        return array.cpu().numpy()


class Numba:
    """Arrays of numba.cuda. If NVVM, which compiles its kernels, is missing, use copies on the stream."""

    def __init__(self, rank):
        import numba
        from numba import cuda
        self.module = cuda
        cuda.select_device(rank % len(cuda.gpus))
        self.version = f"Numba {numba.__version__}"
        self.default = self.current = cuda.default_stream()
        self.addend = 1

        def add(target, source, addend):
            index = cuda.grid(1)
            if index < source.size:
                target[index] = source[index] + addend

        try:
            self.kernel = cuda.jit(add)
            self.kernel[1, 1](cuda.device_array(1, "f4"), cuda.device_array(1, "f4"), 1)
            cuda.synchronize()
        except Exception as error:  # each version of Numba reports it by another one
            self.addend = 0
            reason = str(error).strip().splitlines() or [repr(error)]
            self.version += f", copies instead of kernels: {reason[0].rstrip(':')}"

    def stream(self):
        return self.module.stream()

    @contextlib.contextmanager
    def within(self, stream):
        before, self.current = self.current, stream
        yield
        self.current = before

    def wait(self, stream):
        stream.synchronize()

    def upload(self, values):
        return self.module.to_device(values, stream=self.current)

    def add(self, array):
        target = self.module.device_array(array.shape, array.dtype)
        if self.addend:
            self.kernel[(array.size + 255) // 256, 256, self.current](target, array, self.addend)
        else:
            target.copy_to_device(array, stream=self.current)
        return target

    def download(self, array):
        values = array.copy_to_host(stream=self.current)
        self.current.synchronize()
        return values


LIBRARIES = {"cupy": Cupy, "torch": Torch, "numba": Numba}


def say_usable(name):
    """Check a library without MPI: its import, a GPU and a kernel."""
    import numpy as np
    try:
        arrays = LIBRARIES[name](0)
        with arrays.within(arrays.default):
            one = arrays.add(arrays.upload(np.ones(3, np.float32)))
            assert (arrays.download(one) == 1 + arrays.addend).all(), "a kernel computed nonsense"
        print(arrays.version)
        return 0
    except Exception as error:  # whatever the library raises without a GPU
        print(" ".join(f"{type(error).__name__}: {error}".split())[:200])
        return 1


class Suite:
    """The calls on the arrays of one library."""

    def __init__(self, name):
        import numpy
        from mpi4py import MPI  # before the library, as most programs import it
        from counters import Counters
        self.np, self.mpi, self.comm = numpy, MPI, MPI.COMM_WORLD
        self.rank, self.size, self.lines = self.comm.rank, self.comm.size, 0
        self.arrays = LIBRARIES[name](self.rank)
        self.counters = Counters("calls", "staged", "staged_messages", "direct_messages",
                                 "chunked_messages")
        self.counted = dict.fromkeys(self.counters.last, 0)

    def tell(self, good, text, detail=""):
        """Print one line of TAP: "ok" if the check is good on all ranks."""
        votes = self.comm.allgather((bool(good), detail))
        self.lines += 1
        if self.rank == 0:
            right = all(vote for vote, _ in votes)
            print(f"{'ok' if right else 'not ok'} {self.lines} - {text}", flush=True)
            for rank, (vote, reason) in enumerate(votes):
                if not vote:
                    print(f"# rank {rank}: {reason}", flush=True)

    def data(self, of, added=0):
        """Return the input of a rank. Each rank can compute the inputs of all ranks."""
        return (self.np.arange(self.count) % 50 + 100 * of + added).astype(self.dtype)

    def total(self):
        return sum(self.data(rank, self.arrays.addend) for rank in range(self.size)).astype(self.dtype)

    def input(self):
        """Return an array that a kernel on the current stream writes. For 1000 elements, it is a slice."""
        begin = 37 if self.count == 1000 else 0
        values = self.np.concatenate([self.np.zeros(begin, self.dtype), self.data(self.rank)])
        return self.arrays.add(self.arrays.upload(values))[begin:]

    def other(self):
        """Return an array for a result, which is filled with other values."""
        return self.arrays.add(self.arrays.upload(self.np.full(self.count, -9, self.dtype)))

    # ---- Calls. Each returns the array with its result, and the expected values. ----

    def allreduce(self, source, target):
        self.comm.Allreduce(source, target)
        return target, self.total()

    def allreduce_in_place(self, source, _):
        self.comm.Allreduce(self.mpi.IN_PLACE, source)
        return source, self.total()

    def bcast(self, source, _):
        self.comm.Bcast(source, root=self.size - 1)
        return source, self.data(self.size - 1, self.arrays.addend)

    def send_recv(self, source, target):
        """Even ranks send first."""
        right, left = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        turns = [lambda: self.comm.Send(source, right, 3), lambda: self.comm.Recv(target, left, 3)]
        for turn in turns if self.rank % 2 == 0 else reversed(turns):
            turn()
        return target, self.data(left, self.arrays.addend)

    def isend_irecv(self, source, target):
        right, left = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        self.mpi.Request.Waitall([self.comm.Irecv(target, left, 4), self.comm.Isend(source, right, 4)])
        return target, self.data(left, self.arrays.addend)

    def iallreduce(self, source, target):
        """Run kernels on another stream while the call is in progress."""
        busy = self.arrays.stream()
        request = self.comm.Iallreduce(source, target)
        with self.arrays.within(busy):
            work = self.arrays.upload(self.np.zeros(self.count, self.dtype))
            for _ in range(KERNELS):
                work = self.arrays.add(work)
            request.Wait()
            self.arrays.wait(busy)
            done = self.arrays.download(work)
        assert (done == KERNELS * self.arrays.addend).all(), "the kernels beside it are wrong"
        return target, self.total()

    def ibcast(self, source, _):
        self.comm.Ibcast(source, root=0).Wait()
        return source, self.data(0, self.arrays.addend)

    CALLS = (allreduce, allreduce_in_place, bcast, send_recv, isend_irecv, iallreduce, ibcast)

    def try_call(self, call, stream, where):
        """Make one call on one stream. Check the result, and that this component did the work."""
        self.counters.more()
        detail = ""
        with self.arrays.within(stream):
            source, target = self.input(), self.other()
            self.arrays.wait(stream)
            try:
                result, expected = call(self, source, target)
                result = self.arrays.download(self.arrays.add(result))
                wrong = self.np.flatnonzero(result != (expected + self.arrays.addend).astype(self.dtype))
                if wrong.size:
                    detail = (f"{wrong.size} of {self.count} wrong, first [{wrong[0]}] = "
                              f"{result[wrong[0]]}, not {expected[wrong[0]] + self.arrays.addend}")
            except Exception as error:  # of MPI, mpi4py or the library: all are failures
                detail = f"{type(error).__name__}: {error}"
        change = self.counters.more()
        for name, more in change.items():
            self.counted[name] += more
        if not detail and not any(change.values()):
            detail = "the component neither served nor staged it"
        self.tell(not detail, f"{call.__name__.replace('_', ' ')}, {self.count} {self.dtype}, {where}",
                  detail)

    def run(self, types):
        if self.rank == 0:
            library = self.mpi.Get_library_version().split(",")[0]
            print(f"# {self.arrays.version}; {library}; {self.size} ranks", flush=True)
        self.comm.Set_errhandler(self.mpi.ERRORS_RETURN)
        streams = (("default stream", self.arrays.default), ("another stream", self.arrays.stream()))
        for self.dtype in types:
            for self.count in COUNTS:
                for where, stream in streams:
                    for call in self.CALLS:
                        self.try_call(call, stream, where)
        counted = self.comm.gather(self.counted)
        if self.rank == 0:
            sums = {name: sum(each[name] for each in counted) for name in self.counted}
            print("# calls of all ranks: " + ", ".join(f"{name} {sums[name]}" for name in sums))
            print(f"1..{self.lines}", flush=True)
        self.counters.close()


def main():
    option = sys.argv[1] if len(sys.argv) == 3 else ""
    name = sys.argv[-1]
    if name not in LIBRARIES or option not in ("", "--usable", "--brief") or len(sys.argv) > 3:
        print(__doc__, file=sys.stderr)
        return 2
    if option == "--usable":
        return say_usable(name)
    Suite(name).run(TYPES[:1] if option == "--brief" else TYPES)
    return 0


sys.exit(main())
