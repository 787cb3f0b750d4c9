"""How the settings of two peers differ, in sentences. No I/O.

One side came over the network: it may be anything, and is shown only in part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeGuard

from peerclust.text import shorten, show


def differences(mine: dict[str, object], theirs: object, name: str) -> list[str]:
    """Return sentences on how a peer's settings differ from `mine`.

    `theirs` came over the network from the peer `name` and is not trusted. It is only shown, and
    only in part.

    >>> differences({"n_clusters": 3}, {"n_clusters": 4}, "hospital-b")
    ['hospital-b has n_clusters = 4, here it is 3.']
    """
    if not isinstance(theirs, dict):
        return [f"{name} sent invalid settings: {_brief(theirs)}."]
    sentences: list[str] = []
    for key, here in mine.items():
        if key not in theirs:
            sentences.append(f"{name} did not send {key}.")
        elif not _same(here, there := theirs[key]):
            details = _EXPLAIN[key](here, there, name) if key in _EXPLAIN else []
            plain = f"{name} has {key} = {_brief(there)}, here it is {_brief(here)}."
            sentences += details or [plain]
    more = [_brief(key) for key in theirs if key not in mine]
    if more:
        sentences.append(f"{name} has settings that are unknown here: {shorten(more)}.")
    return sentences


def _brief(value: object) -> str:
    """Return a value as text of at most 80 characters; nested lists may be long even shortened."""
    text = show(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _same(here: object, there: object) -> bool:
    # True == 1 in Python, but the settings differ.
    return type(here) is type(there) and bool(here == there)


def _explain_sets(here: Collection[str], there: Collection[str], name: str, what: str) -> list[str]:
    """Return sentences on what is missing there and what is added."""
    lacks = [_brief(each) for each in sorted(set(here) - set(there))]
    adds = [_brief(each) for each in sorted(set(there) - set(here))]
    sentences = []
    if lacks:
        sentences.append(f"{name} lacks the {what}{'s' * (len(lacks) > 1)} {shorten(lacks)}.")
    if adds:
        several = len(adds) > 1
        sentences.append(
            f"{name} has the {what}{'s' * several} {shorten(adds)}, which"
            f" {'are' if several else 'is'} not here."
        )
    return sentences


def _explain_features(here: object, there: object, name: str) -> list[str]:
    if not (_are_texts(here) and _are_texts(there)):
        return []
    sentences = _explain_sets(here, there, name, "feature")
    if not sentences and len(here) == len(there):
        i = next(i for i, (a, b) in enumerate(zip(here, there, strict=True)) if a != b)
        sentences = [
            f"{name} has the features in another order: number {i + 1} is {_brief(there[i])}, here"
            f" it is {_brief(here[i])}."
        ]
    return sentences


def _explain_links(here: object, there: object, name: str) -> list[str]:
    if not (_are_links(here) and _are_links(there)):
        return []
    # A link becomes one text, so that links can be compared as names are.
    return _explain_sets(
        [" - ".join(a) for a in here], [" - ".join(a) for a in there], name, "link"
    )


def _explain_peers(here: object, there: object, name: str) -> list[str]:
    if not (_is_table(here) and _is_table(there)):
        return []
    sentences = _explain_sets(here, there, name, "peer")
    changed = []
    for peer in here.keys() & there.keys():
        mine, theirs = here[peer], there[peer]
        if not (_are_texts(mine) and _are_texts(theirs) and len(mine) == len(theirs)):
            changed.append(f"{name} has {_brief(theirs)} for the peer {peer}.")
            continue
        for what, a, b in zip(("address", "certificate"), mine, theirs, strict=True):
            if a != b:
                changed.append(
                    f"{name} has the {what} {_brief(b)} of {peer}, here it is {_brief(a)}."
                )
    changed.sort()
    more = [f"{name} has {len(changed) - 5} more differences among the peers."]
    return sentences + changed[:5] + more * (len(changed) > 5)


_EXPLAIN: dict[str, Callable[[object, object, str], list[str]]] = {
    "features": _explain_features,
    "links": _explain_links,
    "peers": _explain_peers,
}


def _are_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _are_links(value: object) -> TypeGuard[list[list[str]]]:
    return isinstance(value, list) and all(_are_texts(each) for each in value)


def _is_table(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict) and _are_texts(list(value))
