"""Public names, one per line: `python tests/public_names.py` writes `public_names.txt`.

A name is public if it is in `peerclust.__all__`, in the `__all__` of a public module (or defined
there, without a leading underscore), a parameter or method of such a name, or an option of the
command line. A change of this list is a change for users and belongs in CHANGELOG.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import typer.main

import peerclust
from peerclust.cli.app import app

FILE = Path(__file__).parent / "public_names.txt"


def public_names() -> list[str]:
    """Return all public names with their parameters, sorted."""
    found = set()
    for name in peerclust.__all__:
        value = getattr(peerclust, name)
        if isinstance(value, ModuleType):
            for inner in _names_of(value):
                found.update(_describe(f"{name}.{inner}", getattr(value, inner)))
        else:
            found.update(_describe(name, value))
    return [*sorted(found), *sorted(_commands(typer.main.get_command(app), "peerclust"))]


def _names_of(module: ModuleType) -> list[str]:
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def _describe(name: str, value: Any) -> Iterator[str]:
    yield f"{name}{_parameters(value)}"
    if inspect.isclass(value):
        for method, of in vars(value).items():
            if not method.startswith("_"):
                # A class here is a default, such as that of `dtype`, with parameters not ours.
                yield f"{name}.{method}{'' if inspect.isclass(of) else _parameters(of)}"


def _parameters(value: Any) -> str:
    try:
        return f"({', '.join(inspect.signature(value).parameters)})" if callable(value) else ""
    except ValueError:
        return ""


def _commands(command: Any, path: str) -> Iterator[str]:
    options = [option for each in command.params for option in each.opts]
    yield " ".join([path, *sorted(options)])
    for name, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, f"{path} {name}")


if __name__ == "__main__":
    FILE.write_text("\n".join(public_names()) + "\n")
