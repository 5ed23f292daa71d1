# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Packages. The module file is installed, and debian/ has the location that Debian requires. configure writes
# the spec file, which rpmbuild -ta searches in the tarball.

modulefiledir = $(pkgdatadir)/modulefiles
modulefile_DATA = config/dist/gpuring
CLEANFILES += config/dist/gpuring
config/dist/gpuring: $(srcdir)/config/dist/modulefile.in Makefile
	$(AM_V_GEN)$(MKDIR_P) config/dist && $(SED) -e 's,[@]modulefiledir[@],$(modulefiledir),' \
	    -e 's,[@]VERSION[@],$(VERSION),' -e 's,[@]ompi_version[@],$(GPURING_OMPI_VERSION),' \
	    -e 's,[@]bindir[@],$(bindir),' -e 's,[@]mandir[@],$(mandir),' \
	    -e 's,[@]componentdir[@],$(componentdir),' \
	    -e 's,[@]pmix_componentdir[@],$(GPURING_PMIX_COMPONENTDIR),' \
	    $(srcdir)/config/dist/modulefile.in >$@.new && mv $@.new $@

spack_recipe = config/dist/spack_repo/gpuring/packages/coll_gpuring/package.py
EXTRA_DIST += $(spack_recipe) \
    config/dist/Containerfile \
    config/dist/Containerfile.dockerignore \
    config/dist/coll-gpuring.spec \
    config/dist/modulefile.in \
    config/dist/spack_repo/gpuring/packages/openmpi/package.py \
    config/dist/spack_repo/gpuring/repo.yaml \
    debian/changelog \
    debian/control \
    debian/copyright \
    debian/gpuring-tools.install \
    debian/libgpuring-stream-dev.install \
    debian/libgpuring-stream0.install \
    debian/not-installed \
    debian/openmpi-gpuring-cuda.README.Debian \
    debian/openmpi-gpuring-cuda.install \
    debian/openmpi-gpuring.README.Debian \
    debian/openmpi-gpuring.install \
    debian/rules \
    debian/source/format \
    debian/tests/allreduce \
    debian/tests/control \
    debian/tests/program.c \
    debian/tests/versions
