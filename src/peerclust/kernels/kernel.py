"""Which version of a kernel runs: the one in numpy, or the compiled loop, once that pays.

Compiling a loop takes from a fraction of a second to a few seconds. So a kernel runs in numpy until
that has taken as long as compiling would, and compiled from then on: never more than twice the time
of the better choice, which nobody knows in advance. A loop that is in the cache on disk only has to
be loaded, and so runs much sooner. Both versions compute the same bits, but for the rare exception
that `plain.exact_sums` states, so the choice does not show in a result. numba is not imported
before the first loop is needed.

The environment variable PEERCLUST_COMPILE is `auto` (the default), `always` (compile at the first
call) or `never` (numpy only). Each type of the arguments, such as float32 rows, is compiled
separately and has its own account.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib import import_module
from pathlib import Path
from time import thread_time
from typing import Any, ClassVar

import numpy as np

from peerclust.errors import ParameterError
from peerclust.kernels.cache_directory import cache_directory, existing_cache

MODES = ("auto", "always", "never")
# Seconds to load a loop from the cache, and to import numba.
LOADING, IMPORTING = 0.01, 0.3
# A loop is due soon if numpy's version has taken this fraction of the time of compiling.
_SOON = 0.9
# Compilation that takes longer than this is logged.
_LONG = 1.0

_log = logging.getLogger("peerclust")
_lock = threading.RLock()


class _Mode:
    """The mode in which all kernels run; None until it is read from the environment."""

    name: str | None = None


def compile_mode() -> str:
    """Return the mode in which kernels run.

    >>> with use_mode("never"):
    ...     compile_mode()
    'never'
    """
    if _Mode.name is None:
        given = os.environ.get("PEERCLUST_COMPILE") or "auto"
        if given not in MODES:
            raise ParameterError(
                f"`PEERCLUST_COMPILE` must be one of {', '.join(MODES)}. Got {given}."
            )
        _Mode.name = given
    return _Mode.name


@contextmanager
def use_mode(mode: str) -> Iterator[None]:
    """Run all kernels of this process in a mode, until the context ends."""
    before = compile_mode()
    _Mode.name = mode
    _choose_again()
    try:
        yield
    finally:
        _Mode.name = before
        _choose_again()


def _choose_again() -> None:
    for kernel in Kernel.all:
        kernel._run = kernel._choose_first


def _announce(kernel: Kernel) -> None:
    """Say once per process that loops are compiled, if a person has to wait for them.

    The estimate is of this loop, those before it, and those that are due soon.
    """
    Kernel.compiling += kernel._seconds
    others = sum(each._seconds for each in Kernel.due_soon if each is not kernel)
    if Kernel.compiling + others >= _LONG and not Kernel.announced:
        Kernel.announced = True
        _log.warning("compiling kernels, once: about %.0f s", Kernel.compiling + others)


def import_compiler() -> None:
    """Import numba in a thread if there are loops in the cache.

    These then run as soon as loading them pays, without the time of the import. A process that has
    to wait anyway can do so.
    """
    directory = existing_cache()
    if compile_mode() == "auto" and directory is not None and any(directory.glob("*.types")):
        threading.Thread(target=import_module, args=("numba",), daemon=True).start()


def may_compile() -> bool:
    """Return whether one of the next calls of a kernel may compile a loop.

    A process that must answer meanwhile makes such a call in a thread.
    """
    return compile_mode() == "always" or bool(Kernel.due_soon)


class Kernel:
    """A function on arrays, in numpy and as a compiled loop.

    Parameters
    ----------
    loop : str
        The loop, as `module.name` in `kernels.loops`.
    plain : callable or None
        The version in numpy. Without one, the loop is compiled at the first call.
    seconds : float
        How long compiling the loop takes.
    scratch : callable, optional
        Returns the loop's last argument, a tuple of scratch arrays, from the others.
    """

    all: ClassVar[list[Kernel]] = []
    # See `may_compile`.
    due_soon: ClassVar[set[Kernel]] = set()
    # The seconds of compiling so far, and whether a person was told; see `_announce`.
    compiling: ClassVar[float] = 0.0
    announced: ClassVar[bool] = False

    def __init__(
        self,
        loop: str,
        plain: Callable[..., Any] | None,
        *,
        seconds: float,
        scratch: Callable[..., tuple[Any, ...]] | None = None,
    ) -> None:
        self._loop, self._plain, self._seconds, self._scratch = loop, plain, seconds, scratch
        self._spent: dict[str, float] = {}
        self._on_disk: dict[str, bool] = {}
        self._compiled: set[str] = set()
        self._dispatcher: Any = None
        self._compile: Any = None
        # What a call runs: once the loop is loaded, numba's dispatcher itself.
        self._run: Callable[..., Any] = self._choose_first
        Kernel.all.append(self)

    def __call__(self, *arguments: Any) -> Any:
        """Run one of the versions."""
        return self._run(*arguments)

    def __repr__(self) -> str:
        """Return the name of the loop."""
        return f"Kernel({self._loop})"

    @property
    def plain(self) -> Callable[..., Any] | None:
        """The version in numpy."""
        return self._plain

    @property
    def compiled(self) -> Callable[..., Any]:
        """The compiled loop, with the arguments of the version in numpy."""
        dispatcher, scratch = self._load(), self._scratch
        if scratch is None:
            return dispatcher  # type: ignore[no-any-return]
        return lambda *arguments: dispatcher(*arguments, scratch(*arguments))

    def delay(self, worth: float, *arguments: Any) -> float:
        """Estimate the seconds until the loop could run; above `worth`, it may be too low.

        `arguments` are some of a call, next to each other, whose types matter.
        """
        mode, types = compile_mode(), _types_of(arguments)
        if mode == "never":
            return float("inf")
        if mode == "always" or any(types in each for each in self._compiled):
            return 0.0
        # The disk is not looked at for less.
        on_disk = worth < LOADING or any(types in each for each in self._types_on_disk)
        return LOADING if on_disk else self._seconds

    @cached_property
    def _types_on_disk(self) -> list[str]:
        """The types for which the loop was in the cache when this was first read."""
        directory = existing_cache()
        if directory is None:
            return []
        markers = directory.glob(f"{self._loop}-*.types")
        return [_read(marker).decode(errors="replace") for marker in markers]

    def _choose_first(self, *arguments: Any) -> Any:
        """Run numpy's version if the loop is not loaded and need not be yet."""
        if self._plain is not None and (self._dispatcher is None or compile_mode() == "never"):
            types = _types_of(arguments)
            if not self._is_due(types):
                return self._run_plain(types, arguments)
        self._run = self.compiled
        return self._run(*arguments)

    def _choose_next(self, *arguments: Any) -> Any:
        """Return what runs arguments of types for which the loop is not compiled yet."""
        given = arguments if self._scratch is None else arguments[:-1]
        types = _types_of(given)
        if self._plain is not None and not self._is_due(types):
            return lambda *_: self._run_plain(types, given)
        with _lock:  # threads that need the same loop at the same time wait for it together
            marker = self._marker(types, cache_directory())
            known = types in self._compiled or _read(marker) == types.encode()
            if not known and compile_mode() == "auto":
                _announce(self)
            loop = self._compile(*arguments)
            self._compiled.add(types)
            Kernel.due_soon.discard(self)
            saved = getattr(self._dispatcher._cache, "saved", False)
            if marker is not None and saved and not known:
                with suppress(OSError):  # the directory can no longer be written to
                    marker.write_text(types)
            return loop

    def _run_plain(self, types: str, arguments: tuple[Any, ...]) -> Any:
        assert self._plain is not None
        start = thread_time()
        with np.errstate(all="ignore"):
            result = self._plain(*arguments)
        self._spent[types] = self._spent.get(types, 0.0) + thread_time() - start
        return result

    def _is_due(self, types: str) -> bool:
        """Return whether numpy's version has taken as long as it takes to have the loop."""
        mode, spent = compile_mode(), self._spent.get(types, 0.0)
        if mode != "auto":
            return mode == "always"
        if spent < LOADING:
            return False
        if types not in self._on_disk:
            marker = self._marker(types, existing_cache())
            self._on_disk[types] = _read(marker) == types.encode()
        on_disk = self._on_disk[types]
        price = LOADING if on_disk else self._seconds
        price += 0.0 if "numba" in sys.modules else IMPORTING
        if spent >= _SOON * price and not on_disk:
            Kernel.due_soon.add(self)
        return spent >= price

    def _marker(self, types: str, directory: Path | None) -> Path | None:
        """Return the file that says that the loop is in the cache for these types."""
        name = hashlib.sha256(types.encode()).hexdigest()[:16]
        return None if directory is None else directory / f"{self._loop}-{name}.types"

    def _load(self) -> Any:
        with _lock:
            if self._dispatcher is None:
                module, name = self._loop.split(".")
                loop = getattr(import_module(f"peerclust.kernels.loops.{module}"), name)
                # numba calls this for types that it has not compiled, and runs what it returns.
                self._compile, loop._compile_for_args = loop._compile_for_args, self._choose_next
                self._dispatcher = loop
            return self._dispatcher


def _read(marker: Path | None) -> bytes:
    """Return the content of a marker; empty if there is none that can be read."""
    with suppress(OSError):
        return b"" if marker is None else marker.read_bytes()
    return b""


def _types_of(arguments: tuple[Any, ...]) -> str:
    """Return the types of arguments, as far as loops are compiled for each of them.

    >>> _types_of((1, (np.zeros((2, 3), np.float32), 2.0)))
    'int,(f2,float)'
    """
    return ",".join(_type_of(each) for each in arguments)


def _type_of(value: Any) -> str:
    if isinstance(value, np.ndarray):
        layout = "" if value.flags.c_contiguous else "s"
        return f"{value.dtype.char}{value.ndim}{layout}{'' if value.flags.writeable else 'r'}"
    return f"({_types_of(value)})" if isinstance(value, tuple) else type(value).__name__
