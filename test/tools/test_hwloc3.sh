#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# Compile discovery with the declarations in which hwloc 3 differs from hwloc 2, and run its test. The
# test changes a copy of the installed header of hwloc 2, and wraps its library accordingly
# (hwloc3_answers.c). This shows that the branch for hwloc 3 compiles with these declarations and finds the
# same devices. It does not show that the rest of hwloc 3 is compatible.
# shellcheck source=test/tools/lib.sh
. "${top_srcdir:-.}/test/tools/lib.sh"
: "${CC:=cc}" "${HWLOC_CPPFLAGS=}" "${HWLOC_LIBS=-lhwloc}" "${EXPAT_LIBS=-lexpat}" "${CMOCKA_LIBS=-lcmocka}"
: "${GPURING_LDFLAGS=}" # of sanitizers

# shellcheck disable=SC2086
header=$(echo '#include <hwloc.h>' | $CC $HWLOC_CPPFLAGS -M -xc - | tr -d '\\' | tr ' ' '\n' | grep '/hwloc\.h$')
if [ ! -f "$header" ]; then
    echo "not ok 1 - the header of hwloc is found"
    echo "1..1"
    exit 0
fi
if grep -Eq 'define HWLOC_API_VERSION 0x0*[3-9]0' "$header"; then
    echo "ok 1 - discovery for hwloc 3 # SKIP the build itself is with hwloc 3"
    echo "1..1"
    exit 0
fi
awk '
    /define HWLOC_API_VERSION / { print "#define HWLOC_API_VERSION 0x00030000"; next }
    # The type of an OS device is a set of types.
    /^typedef enum hwloc_obj_osdev_type_e/ {
        print "typedef enum hwloc_obj_osdev_type_e { HWLOC_OBJ_OSDEV_STORAGE = 1, HWLOC_OBJ_OSDEV_MEMORY = 2,"
        print "HWLOC_OBJ_OSDEV_GPU = 4, HWLOC_OBJ_OSDEV_COPROC = 8, HWLOC_OBJ_OSDEV_NETWORK = 16,"
        print "HWLOC_OBJ_OSDEV_OPENFABRICS = 32, HWLOC_OBJ_OSDEV_DMA = 64 } hwloc_obj_osdev_type_t;"
        print "typedef unsigned long hwloc_obj_osdev_types_t;"
        skip = 1
    }
    skip { if (/} hwloc_obj_osdev_type_t;/) skip = 0; next }
    /hwloc_obj_osdev_type_t type;/ { print "hwloc_obj_osdev_types_t types;"; changed++; next }
    /unsigned short class_id;/ { print "unsigned char prog_if;"; changed++ }
    { print }
    # The topology itself has infos.
    /^HWLOC_DECLSPEC int hwloc_topology_load/ {
        print "struct hwloc_infos_s { struct hwloc_info_s *array; unsigned count, allocated; };"
        print "struct hwloc_infos_s *hwloc_topology_get_infos(hwloc_topology_t topology);"
        print "const char *hwloc_get_info_by_name(struct hwloc_infos_s *infos, const char *name);"
        changed++
    }
    END { exit changed == 3 ? 0 : 1 }' "$header" >"$work/hwloc.h"
changed=$?
check "the header has all that hwloc 3 changed" [ "$changed" -eq 0 ]
answers=
for name in topology_load topology_destroy topology_export_xml topology_get_infos get_info_by_name; do
    answers="$answers -Dhwloc_$name=answers_$name"
done
compile() { # FILE
    # shellcheck disable=SC2086
    $CC -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -I"$work" $HWLOC_CPPFLAGS -I"$top_builddir" \
        -I"$top_srcdir" $answers \
        -DFAKE_NVML_PATH="\"$top_builddir/test/unit/.libs/fake_nvml.so\"" \
        -c "$top_srcdir/$1.c" -o "$work/$(basename "$1").o"
}
for file in discover cpu gpu discover_link net pci sys nvlink; do
    check "$file.c compiles" compile "mca/topo_pci/discover/$file"
done
link() {
    # shellcheck disable=SC2086
    compile test/unit/test_pci_discover && compile test/unit/fake_sysfs && compile test/unit/unit &&
        compile test/unit/unit_main &&
        $CC -std=gnu11 -Wall -Wextra -Werror $GPURING_LDFLAGS $HWLOC_CPPFLAGS "$top_srcdir/test/tools/hwloc3_answers.c" "$work"/*.o \
            "$top_builddir/.libs/libpcigraph.a" $CMOCKA_LIBS $EXPAT_LIBS $HWLOC_LIBS -ldl -lm -o "$work/test_discover"
}
if [ -e "$top_builddir/test/unit/.libs/fake_nvml.so" ]; then
    check "its test is built with a library that answers as hwloc 3" link
    check "and passes" "$work/test_discover"
else
    echo "ok $((checks = checks + 1)) - the test of discovery # SKIP unit tests are not built (cmocka)"
fi
# Check that the changes matter: the branch for hwloc 2 does not compile with them.
sed 's/0x00030000/0x00020900/' "$work/hwloc.h" >"$work/other.h" && mv "$work/other.h" "$work/hwloc.h"
refused() { compile mca/topo_pci/discover/net 2>&1 | grep "osdev.*type"; }
check "as hwloc 2 it does not" refused
echo "1..$checks"
