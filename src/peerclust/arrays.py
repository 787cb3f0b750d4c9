"""Array types of the whole package."""

import numpy as np
from numpy.typing import NDArray

# Centers, gradients and other real numbers.
Array = NDArray[np.float64]

# User ids, offsets, counts.
Ints = NDArray[np.int64]

# Rows as passed in by a caller: float32 or float64.
Rows = NDArray[np.floating]

# The class of each row.
Classes = NDArray[np.intp]
