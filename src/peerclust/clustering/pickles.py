"""Pickles of solutions and estimators, which only the version that wrote them can load.

A version has several formats if what a pickle holds changes before its release.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeVar

import peerclust
from peerclust.errors import DataError

T = TypeVar("T")

# Raised when attributes of what is pickled change; the tests compare them.
FORMAT = 2


def reduce(value: T, state: object) -> tuple[Callable[[type[T], str], T], object, object]:
    """Return what `__reduce__` of a value returns, with the version and the format."""
    return unpickle, (type(value), _version()), (state,)


def unpickle(kind: type[T], version: str) -> T:
    """Return an instance without contents; a pickle calls this before it reads any.

    So a pickle of another version is refused even if its contents can no longer be read. Its name
    and arguments must stay.
    """
    if version != _version():
        _refuse(kind, f"peerclust {version}")
    return kind.__new__(kind)


def read_state(kind: type, state: tuple[T] | dict[str, object]) -> T:
    """Return the state that `reduce` was called with."""
    # A dict is the state of a pickle without a version.
    if isinstance(state, dict):
        _refuse(kind, "an earlier version of peerclust")
    return state[0]


def _version() -> str:
    return f"{peerclust.__version__} (format {FORMAT})"


def _refuse(kind: type, writer: str) -> NoReturn:
    raise DataError(
        f"This {kind.__name__} was pickled by {writer}, and only the same version can load it. This"
        f" is peerclust {_version()}."
    )
