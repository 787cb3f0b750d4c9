"""Names and values in sentences: shortened, sorted, with suggestions for misspelled ones.

A parameter in a sentence is kept as data, because the caller may know it by another name: `doors`
has the names.
"""

from __future__ import annotations

import difflib
import reprlib
import traceback
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self


def shorten(names: Sequence[object]) -> str:
    """Return the first five names, and how many more there are.

    >>> shorten(["a", "b"]), shorten(range(7))
    ('a, b', '0, 1, 2, 3, 4 and 2 more')
    """
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(map(str, names[:5])) + more


def count(number: int, noun: str) -> str:
    """Return a number of things.

    >>> count(1, "round"), count(1200, "round")
    ('1 round', '1200 rounds')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


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

    Upper and lower case are not distinguished.

    >>> guess("hubber", ["kmeans", "huber"]), guess("age", ["wage", "Age"])
    (" Did you mean 'huber'?", " Did you mean 'Age'?")
    """
    folded = {each.casefold(): each for each in known}
    near = difflib.get_close_matches(str(name).casefold(), folded, n=1, cutoff=0.4)
    return f" Did you mean {folded[near[0]]!r}?" if near else ""


# The most characters of a line in a log or on a terminal.
LONGEST_LINE = 10_000


def sanitize(text: str, *, longest: int = 1000) -> str:
    r"""Return text as one printable line, of at most `longest` characters.

    Text may come from outside: from another peer, a stranger, a file. So everything that is written
    to a log or a terminal, or sent to a peer, passes this function right before. Line breaks,
    control characters, invisible and bidirectional format characters, and surrogates become "?".

    >>> sanitize("good\x1b[31m\nbad\u202e"), sanitize("größe 10\u202f000")
    ('good?[31m?bad?', 'größe 10 000')
    """
    if text.isprintable():
        return text[:longest]
    return "".join(map(_printable, text[:longest]))


def _printable(c: str) -> str:
    # Among the spaces, Python calls only the usual one printable.
    return c if c.isprintable() else " " if unicodedata.category(c) == "Zs" else "?"


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


@dataclass(frozen=True)
class Parameter:
    """A parameter in a sentence: as its subject ("`rho` of cluster"), or only mentioned ("`rho`").

    A setting has a value, too: "`rho` = 10", or "--rho 10" for an option. `shown` are the name and
    the owner that the caller knows, if these differ.
    """

    name: str
    of: str
    mentioned: bool = False
    value: str | None = None
    shown: tuple[str, str] | None = None

    def __str__(self) -> str:
        name, of = self.shown or (self.name, self.of)
        is_option = name.startswith("--")
        if self.value is not None:
            return f"{name} {self.value}" if is_option else f"`{name}` = {self.value}"
        if self.mentioned:
            return name if is_option else f"`{name}`"
        return f"`{name}` of {of}"


class Sentence(str):
    """A text that knows which of its parts are parameters, so that they can be renamed.

    Adding text keeps the parts; an f-string does not.

    >>> (parameter("rho", "cluster") + " must be a number.").parts  # doctest: +ELLIPSIS
    (Parameter(name='rho', of='cluster', ...), ' must be a number.')
    """

    __slots__ = ("parts",)
    parts: tuple[str | Parameter, ...]

    def __new__(cls, *parts: str | Parameter) -> Self:
        """Join the parts."""
        made = super().__new__(cls, "".join(map(str, parts)))
        made.parts = parts
        return made

    def __add__(self, other: str) -> Sentence:
        return Sentence(*self.parts, *_parts(other))

    def __radd__(self, other: str) -> Sentence:
        return Sentence(*_parts(other), *self.parts)

    def __reduce__(self) -> tuple[type[Sentence], tuple[str | Parameter, ...]]:
        return Sentence, self.parts

    def rename(self, find: Callable[[Parameter], Parameter]) -> Sentence:
        """Return the sentence with each parameter replaced."""
        return Sentence(
            *(find(each) if isinstance(each, Parameter) else each for each in self.parts)
        )


def _parts(text: str) -> tuple[str | Parameter, ...]:
    return text.parts if isinstance(text, Sentence) else (text,)


def parameter(name: str, of: str) -> Sentence:
    """Return a parameter as the subject of a sentence.

    >>> str(parameter("rho", "cluster") + " must be a number.")
    '`rho` of cluster must be a number.'
    """
    return Sentence(Parameter(name, of))


def mention(name: str, of: str = "cluster") -> Sentence:
    """Return a parameter in the middle of a sentence.

    >>> str("Allow more " + mention("rounds") + ".")
    'Allow more `rounds`.'
    """
    return Sentence(Parameter(name, of, mentioned=True))


def setting(name: str, value: object, of: str = "cluster") -> Sentence:
    """Return a parameter and its value.

    >>> str(setting("rho", 10))
    '`rho` = 10'
    """
    return Sentence(Parameter(name, of, value=str(value)))
