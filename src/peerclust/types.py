"""The array types that the whole package shares."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Centers, gradients and other real numbers.
Array = NDArray[np.float64]

# Numbers of users, offsets, counters.
Ints = NDArray[np.int64]

# Rows as a caller gives them: float32 or float64.
Rows = NDArray[Any]

# The class of each row.
Classes = NDArray[np.intp]
