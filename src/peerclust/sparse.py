"""Sparse rows: a CSR array that is dense only where, and while, some of its rows are read."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack

from peerclust.arrays import Array, Rows


class SparseRows:
    """Rows (N, d) as a CSR array in canonical form, float32 or float64; never written to.

    Indexing with a slice, a mask or indices returns sparse rows, and with one index a dense row.
    `np.asarray` makes rows dense: call it on few of them at a time.

    >>> rows = SparseRows(csr_array(np.array([[0.0, 2.0], [0.0, 0.0]])))
    >>> len(rows), rows[0].tolist(), np.asarray(rows[1:]).tolist()
    (2, [0.0, 2.0], [[0.0, 0.0]])
    """

    ndim = 2

    def __init__(self, csr: csr_array) -> None:
        self.csr = csr
        self.shape: tuple[int, int] = csr.shape
        self.dtype: np.dtype[Any] = csr.dtype
        self.size = csr.shape[0] * csr.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, which: Any) -> Any:
        if np.ndim(which) == 0 and not isinstance(which, slice):
            return self.csr[[which]].toarray()[0]
        return SparseRows(self.csr[which])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Rows:
        return np.asarray(self.csr.toarray(), dtype=dtype)

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """The arrays of the CSR format: values, their columns, and where each row begins."""
        return self.csr.data, self.csr.indices, self.csr.indptr

    @cached_property
    def squares(self) -> Array:
        """The squared length of each row, (N,)."""
        values, _, begin = self.arrays
        row = np.repeat(np.arange(len(self)), np.diff(begin))
        values = values.astype(np.float64)
        squares = np.bincount(row, weights=values * values, minlength=len(self))
        return squares.astype(np.float64, copy=False)


# The rows of users, as they are after validation.
AnyRows = Rows | SparseRows


def is_sparse(rows: Any) -> bool:
    """Return whether rows are sparse, in a format of scipy or validated already."""
    return isinstance(rows, SparseRows) or issparse(rows)


def canonical(rows: Any) -> csr_array:
    """Return a sparse array of scipy in canonical CSR format; the given one is not written to."""
    csr = csr_array(rows)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr


def concatenate(parts: list[AnyRows]) -> AnyRows:
    """Return the rows of all parts, sparse if some of them are."""
    if not any(isinstance(part, SparseRows) for part in parts):
        return np.concatenate(parts)
    arrays = [part.csr if isinstance(part, SparseRows) else csr_array(part) for part in parts]
    return SparseRows(vstack(arrays, format="csr"))


def arrays_of(rows: AnyRows) -> tuple[NDArray[Any], ...]:
    """Return the arrays that hold the rows, dense or sparse."""
    return rows.arrays if isinstance(rows, SparseRows) else (rows,)
