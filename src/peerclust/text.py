"""Names and values in sentences: shortened, sorted, and with suggestions for misspelled ones."""

from __future__ import annotations

import difflib
import reprlib
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path


def shorten(names: Sequence[object]) -> str:
    """Return the first five names, and how many more there are.

    >>> shorten(["a", "b"]), shorten(range(7))
    ('a, b', '0, 1, 2, 3, 4 and 2 more')
    """
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(map(str, names[:5])) + more


def sort_names(names: Iterable[str]) -> list[str]:
    """Return the names sorted: as numbers if all consist of digits, else as text.

    >>> sort_names(["10", "9"]), sort_names(["b", "a"])
    (['9', '10'], ['a', 'b'])
    """
    unsorted = list(names)
    digits = all(name.isdecimal() for name in unsorted)
    return sorted(unsorted, key=lambda name: (len(name) if digits else 0, name))


def guess(name: object, known: Iterable[str]) -> str:
    """Return " Did you mean ...?" with the closest known name, or an empty string.

    >>> guess("hubber", ["kmeans", "huber"])
    " Did you mean 'huber'?"
    """
    near = difflib.get_close_matches(str(name), list(known), n=1, cutoff=0.4)
    near = near or difflib.get_close_matches(str(name).lower(), list(known), n=1, cutoff=0.4)
    return f" Did you mean {near[0]!r}?" if near else ""


def place(error: BaseException) -> str:
    """Return the file and line where an error was raised, as "file.py, line 3", or "".

    >>> try:
    ...     1 / 0
    ... except ZeroDivisionError as error:
    ...     place(error).split(", ")[1]
    'line 2'
    """
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""


def show(value: object) -> str:
    """Return the repr of a value for a sentence: on one line, and shortened.

    >>> show([1, 2]), show("rign")
    ('[1, 2]', "'rign'")
    """
    try:
        return " ".join(reprlib.repr(value).split())
    except ValueError:  # an int with more digits than Python prints
        return f"{type(value).__name__} of too many digits"
