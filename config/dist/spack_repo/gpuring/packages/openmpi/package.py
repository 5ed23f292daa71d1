# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
from spack_repo.builtin.packages.openmpi.package import Openmpi as BuiltinOpenmpi


class Openmpi(BuiltinOpenmpi):
    """Spack's Open MPI, with the headers that components are built with."""

    def configure_args(self):
        return super().configure_args() + ["--with-devel-headers"]
