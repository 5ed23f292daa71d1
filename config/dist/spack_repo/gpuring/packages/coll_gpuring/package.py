# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
import os

from spack_repo.builtin.build_systems.autotools import AutotoolsPackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class CollGpuring(AutotoolsPackage, CudaPackage):
    """Components for an Open MPI that is there already: MPI calls take GPU buffers, and
    MPI_Allreduce runs on the GPUs.

    In the folder of the tarball that `make dist` makes:
        spack repo add .../config/dist/spack_repo/gpuring
        spack install --no-checksum coll-gpuring +cuda cuda_arch=80,90
    """

    # Nothing is downloaded: the tarball is in the working folder.
    manual_download = True

    license("BSD-3-Clause")

    version("0.1.0", url=f"file://{os.getcwd()}/coll-gpuring-0.1.0.tar.gz")

    variant("verbs", default=True, description="InfiniBand and RoCE between nodes")
    variant("ucx", default=True, description="UCX between nodes")

    depends_on("c", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("gpuring.openmpi@4.1:6")
    depends_on("hwloc@2:2")
    depends_on("expat")
    depends_on("jansson")
    depends_on("rdma-core", when="+verbs")
    depends_on("ucx@1.10:", when="+ucx")
    depends_on("cuda@11.8:13", when="+cuda")
    conflicts("cuda_arch=none", when="+cuda", msg="name the capabilities, as cuda_arch=80,90")

    def configure_args(self):
        spec = self.spec
        args = [f"--with-mpi={spec['openmpi'].prefix}"]
        args += [f"--with-{name}={spec[name].prefix}" for name in ("hwloc", "expat", "jansson")]
        if spec.satisfies("+verbs"):
            args.append(f"--with-verbs={spec['rdma-core'].prefix}")
        else:
            args.append("--without-verbs")
        args += self.with_or_without("ucx", activation_value="prefix")
        args += self.with_or_without("cuda", activation_value="prefix")
        if spec.satisfies("+cuda"):
            args.append(f"--with-cuda-arch={','.join(spec.variants['cuda_arch'].value)}")
        return args

    def setup_run_environment(self, env):
        folder = join_path(self.prefix.lib, "openmpi")
        env.set("OMPI_MCA_mca_base_component_path", f"{folder}:SYSTEM_DEFAULT:USER_DEFAULT")
        # From 5.0 on, PMIx would otherwise interpret this path as its own.
        if self.spec.satisfies("^openmpi@5:"):
            pmix = "pmix" if self.spec.satisfies("^pmix") else "openmpi"
            env.set("PMIX_MCA_mca_base_component_path", join_path(self.spec[pmix].prefix.lib, "pmix"))
