"""Numbers that loops and their plain versions share: sizes, codes of losses, rounding margins."""

from __future__ import annotations

import math

import numpy as np

# The largest number of rows in a chunk.
CHUNK_ROWS = 8192
# The number of rows that are measured together.
TILE = 64
# Sample size from which the pivot of a selection is chosen.
SAMPLE = 31
# Number of independent partial sums: an addition waits only for the previous one of its own lane.
LANES = 16
# Lines of a tile are longer than a power of two by this much, so that they do not share cache sets.
PAD = 8

KMEANS, HUBER, LOGISTIC, FAIR, GIVEN = 0, 1, 2, 3, 4
# Losses whose gamma may change while the label does not, and those for which that depends on the
# row: it is constant for some rows and varies for others.
VARYING = (HUBER, LOGISTIC, FAIR)
MIXED = (HUBER, LOGISTIC)

EPS = 2.0**-52
# An upper bound on what a distance loses when squares underflow.
TINY = 1e-155
# No distance up to this overflows when squared.
FAR = 1e154

# From this distance on gamma of the logistic loss is 2: exp(-37) < 2^-53.
FLAT2 = 37.0
FLAT = math.sqrt(FLAT2)
# exp(-t) is exp(-40) beyond t = 40. Below, t = n log 2 - s, and exp(s) is by its series.
LOG2E, LN2_HIGH, LN2_LOW = 1.4426950408889634, 0.693147180369123816, 1.90821492927058770e-10
HALVES = 0.5 ** np.arange(64.0)
# 1 / 13!, and 1 / 12!, 1 / 11!, ... 1 / 1!
SERIES_END = 1.0 / 6227020800.0
SERIES = tuple(1.0 / math.factorial(n) for n in range(12, 0, -1))
