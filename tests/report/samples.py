"""Small pictures of every kind; a line in PICTURES adds one to every test."""

from __future__ import annotations

import numpy as np

from peerclust.report.pictures import (
    CurvePanel,
    Curves,
    Dot,
    DotPanel,
    Dots,
    Embedding,
    Network,
    Series,
    StackPanel,
    Stacks,
)

LONG = "a text that is a good deal longer than the panel it belongs to, whatever its size may be"
X = np.geomspace(1, 4000, 60)


def falling(label, std):
    return Series(label, X, 100 * X**-1.5, std * 100 * X**-1.5)


def curves(log=False, count=3, std=0.2, columns=2, series=2):
    lines = [falling(f"rho = {i}", std * (i + 1)) for i in range(series)]
    titles = [f"loss {i}" for i in range(count)]
    return Curves([CurvePanel(t, lines, "round", "cost", log, log) for t in titles], columns)


def dots(log=False, std=0.3):
    values = [Dot("DGC-KM", (1.0, std), (1.1, 0.1)), Dot("LGC-KM", (0.02, std), None)]
    return Dots([DotPanel(t, values, "distance", log) for t in ("Iris", "MNIST7", "CIFAR3")], 2)


def stacks(classes=10):
    counts = np.random.default_rng(0).integers(0, 900, size=(10, classes))
    return Stacks([StackPanel("Iris", counts[:, :3] // 100), StackPanel("MNIST", counts)])


def network(m=10):
    angles = 2 * np.pi * np.arange(m) / m
    links = np.stack([np.arange(m), (np.arange(m) + 1) % m], axis=1)
    return Network("a ring", np.stack([np.cos(angles), np.sin(angles)], axis=1), links)


def embedding(names=("setosa", "versicolor", "outliers")):
    generator = np.random.default_rng(0)
    classes = np.repeat(np.arange(len(names)), 20)
    centers = [(name, generator.normal(size=(3, 2))) for name in ("DGC-KM", "DGC-HL", "ADMM-KM")]
    return Embedding("rows", generator.normal(size=(len(classes), 2)), classes, names, centers)


def long_texts():
    """Pictures of every kind, all of whose texts are too long."""
    series = [Series(f"{LONG} {i}", X, X, X) for i in range(3)]
    panel = CurvePanel(LONG, series, LONG, LONG, y_log=True)
    dot = DotPanel(LONG, [Dot(LONG, (1.0, 0.1), (1.1, 0.1)), Dot("b", (2.0, 0.1), None)], LONG)
    stack = StackPanel(LONG, np.full((10, 12), 1_000_000))
    plane = embedding([LONG, "b", "c"])
    return [
        Curves([panel] * 3, 3),
        Curves([panel], 1),
        Dots([dot] * 3, 3),
        Dots([dot], 1),
        Stacks([stack] * 3),
        Network(LONG, network().places, network().links),
        Embedding(LONG, plane.rows, plane.classes, plane.class_names, [(LONG, plane.rows[:3])]),
    ]


PICTURES = {
    "curves": curves(),
    "log curves": curves(log=True, std=2),
    "one curve": curves(count=1, columns=4, series=1),
    "curves of a single run": curves(log=True, std=0),
    "many curves": curves(count=4, columns=3, series=14),
    "dots": dots(),
    "log dots": dots(log=True),
    "dots of a single run": dots(std=0.0),
    "stacks": stacks(),
    "stacks of many users": Stacks([StackPanel("", np.ones((60, 3), dtype=np.intp))]),
    "network": network(),
    "network of one": Network("one", np.zeros((1, 2)), np.zeros((0, 2), dtype=np.intp)),
    "embedding": embedding(),
    "embedding of ten classes": embedding([str(i) for i in range(10)]),
    **{f"long texts {i}": picture for i, picture in enumerate(long_texts())},
}
