# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The coll/gpuring authors
#
# compare.sh's plot: times, and below them the ratio. Columns: bytes, compared with, gpuring, ratio.
set multiplot layout 2,1
set logscale x 2
set format x "2^{%L}"
set grid
set key top left
set logscale y
set ylabel "time (us)"
plot data using 1:2 with linespoints title "compared with", \
     data using 1:3 with linespoints title "coll/gpuring"
unset logscale y
set ylabel "that time / gpuring time"
set xlabel "bytes"
set yrange [0:*]
plot data using 1:4 with linespoints title "ratio (above 1: gpuring is faster)", \
     1 with lines dashtype 2 notitle
unset multiplot
