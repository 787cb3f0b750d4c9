"""The contents of pictures, as numbers and labels; `figures` draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from peerclust.arrays import Array


@dataclass(frozen=True, eq=False)
class Series:
    """A curve: its mean and standard deviation at each x."""

    label: str
    x: Array
    mean: Array
    std: Array


@dataclass(frozen=True, eq=False)
class CurvePanel:
    """Curves that share axes."""

    title: str
    series: Sequence[Series]
    x_label: str
    y_label: str
    x_log: bool = False
    y_log: bool = False


@dataclass(frozen=True, eq=False)
class Curves:
    """Panels of curves, `columns` per row: mean lines with shaded deviations."""

    panels: Sequence[CurvePanel]
    columns: int = 2


@dataclass(frozen=True)
class Dot:
    """A number with its deviation, and the paper's, None if the paper has none."""

    label: str
    ours: tuple[float, float]
    paper: tuple[float, float] | None


@dataclass(frozen=True)
class DotPanel:
    """Numbers of one kind, one below the other."""

    title: str
    dots: Sequence[Dot]
    x_label: str
    x_log: bool = False


@dataclass(frozen=True)
class Dots:
    """A table as a picture: ours and the paper's with error bars."""

    panels: Sequence[DotPanel]
    columns: int = 2


@dataclass(frozen=True, eq=False)
class StackPanel:
    """The number of rows of each class that each user has: counts (m, C)."""

    title: str
    counts: NDArray[np.intp]


@dataclass(frozen=True)
class Stacks:
    """Panels of stacked bars, one bar per user."""

    panels: Sequence[StackPanel]


@dataclass(frozen=True, eq=False)
class Network:
    """Users at places (m, 2), and the links (e, 2) between them."""

    title: str
    places: Array
    links: NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Embedding:
    """Rows in the plane, (n, 2), their classes, and the centers of each method, (K, 2)."""

    title: str
    rows: Array
    classes: NDArray[np.intp]
    class_names: Sequence[str]
    centers: Sequence[tuple[str, Array]]


Picture = Curves | Dots | Stacks | Network | Embedding
