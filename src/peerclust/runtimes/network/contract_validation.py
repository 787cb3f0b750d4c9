"""Validation of a contract: each setting by itself, and in combination with the others."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from peerclust.errors import InputError, ParameterError
from peerclust.losses import LOSSES, PARAMETERS
from peerclust.programs.solvers import CONSENSUS_DEFAULT, PENALIZED_DEFAULT, SOLVERS
from peerclust.runtimes.network.contract import Contract, Peer
from peerclust.runtimes.network.identity import check_peer_name, common_name
from peerclust.text import guess, parameter, shorten, show
from peerclust.validation import check_count, check_name, check_number

MAX_BYTES = 1 << 20  # of all settings as JSON
LARGEST = 1e80  # the magnitude of rows and weights, whose weighted sums can still be sent
MAX_INTEGER = 2**63  # integers stay below, the limit of TOML and MessagePack

T = TypeVar("T")
# Takes a value, its name and its owner; returns the value in the form of `Contract`, or raises.
Check = Callable[[object, str, str], T]


def make_contract(peers: Sequence[Peer], values: Mapping[str, object], of: str) -> Contract:
    """Return the contract with these settings, sorted and of the types of `Contract`; or raise.

    `values` has all settings but `peers`: "features", "n_clusters" and "links", pairs of names in
    any order. Any other setting that is missing or None has its default. `of` names the whole in
    errors, such as the file's name.
    """

    def take(name: str, check: Check[T], default: T) -> T:
        value = values.get(name)
        return default if value is None else check(value, name, of)

    peers = _check_peers(peers, of)
    features = _check_features(values["features"], "features", of)
    contract = Contract(
        peers=peers,
        features=features,
        weights_column=take("weights_column", _check_text, Contract.weights_column),
        scale=take("scale", _one_of("none", "standard", "robust"), Contract.scale),
        n_clusters=_check_whole(values["n_clusters"], "n_clusters", of),
        loss=take("loss", _one_of(*LOSSES), Contract.loss),
        delta=take("delta", _check_auto, Contract.delta),
        eta=take("eta", _positive, Contract.eta),
        matrix=take("matrix", _check_matrix, Contract.matrix),
        ranges=take("ranges", partial(_check_ranges, features=features), Contract.ranges),
        max_weight=take("max_weight", partial(_positive, at_most=LARGEST), Contract.max_weight),
        solver=take("solver", _check_solver, Contract.solver),
        exchange=take("exchange", _one_of("float64", "float32", "8-bit"), Contract.exchange),
        rho=take("rho", _check_auto, Contract.rho),
        B=take("B", _check_whole, Contract.B),
        rounds=take("rounds", _check_whole, Contract.rounds),
        tol=take("tol", _not_negative, Contract.tol),
        search=take("search", _one_of("auto", "swaps", "none"), Contract.search),
        seed=take("seed", partial(_check_whole, at_least=0), Contract.seed),
        mean_of=take("mean_of", _check_whole, Contract.mean_of),
        timeout=take("timeout", _positive, Contract.timeout),
        join_timeout=take("join_timeout", _positive, Contract.join_timeout),
        linger=take("linger", _not_negative, Contract.linger),
        checkpoint_every=take("checkpoint_every", _positive, Contract.checkpoint_every),
        on_loss=take("on_loss", _one_of("continue", "stop"), Contract.on_loss),
        on_absent=take("on_absent", _one_of("start", "stop"), Contract.on_absent),
        links=_check_links(values["links"], [peer.name for peer in peers], of),
    )
    contract.graph.check_connected(parameter("links", of))
    _check_combinations(contract, of)
    return contract


def check_address(address: object, where: str) -> str:
    """Return the address if it is host:port; `where` names its owner, as in "peer a in a.toml".

    >>> check_address("[::1]:4000", "peer a")
    '[::1]:4000'
    """
    if isinstance(address, str) and _is_address(address):
        return address
    raise ParameterError(
        parameter("address", where)
        + " must be host:port, IPv6 in brackets, and the port 1 to 65535."
        f" Got {show(address)}."
    )


def _is_address(text: str) -> bool:
    found = re.fullmatch(r"(\[(?P<ip>[^\]\s]+)\]|[\w.-]+):(?P<port>[0-9]{1,5})", text)
    if found is None or not 0 < int(found["port"]) < 2**16:
        return False
    try:
        if found["ip"]:
            ipaddress.IPv6Address(found["ip"])
        found[1].encode("idna")
    except ValueError:
        return False
    return True


def _check_peers(peers: Sequence[Peer], of: str) -> tuple[Peer, ...]:
    """Return the peers sorted by name, if each is valid and all are different."""
    owners: dict[str, str] = {}
    names: set[str] = set()
    for peer in peers:
        check_peer_name(peer.name, f" in {of}")
        check_address(peer.address, f"peer {peer.name} in {of}")
        if peer.name in names:
            raise ParameterError(f"The peers of {of} must have different names. Got {peer.name}"
                                 " twice.")  # fmt: skip
        names.add(peer.name)
        other = owners.setdefault(peer.address.lower(), peer.name)
        if other != peer.name:
            raise ParameterError(
                f"The peers of {of} must have different addresses. Got {peer.address} for {other}"
                f" and {peer.name}."
            )
        owner = common_name(peer.certificate)
        if owner != peer.name:
            raise ParameterError(
                f"`certificate` of peer {peer.name} in {of} must be its own. Got that of"
                f" {show(owner)}."
            )
    if len(peers) < 2:
        raise ParameterError(f"A network has at least 2 peers. Got {len(peers)} in {of}.")
    return tuple(sorted(peers, key=lambda peer: peer.name))


def _check_links(links: object, names: list[str], of: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(links, Sequence) or isinstance(links, str):
        raise ParameterError(
            parameter("links", of) + f" must be pairs of names. Got {show(links)}."
        )
    pairs = set()
    for link in links:
        if not isinstance(link, list | tuple) or len(link) != 2:
            raise ParameterError(
                parameter("links", of) + f" must be pairs of names. Got {show(link)}."
            )
        for name in link:
            if name not in names:
                raise ParameterError(
                    parameter("links", of)
                    + f" must name its peers. Got {show(name)}.{guess(name, names)}"
                )
        if link[0] == link[1]:
            raise ParameterError(
                parameter("links", of) + f" must join two peers. Got {show(link)}."
            )
        pairs.add((min(link), max(link)))
    return tuple(sorted(pairs))


def _check_combinations(contract: Contract, of: str) -> None:
    """Raise if settings contradict each other."""
    for name, value in contract.loss_parameters.items():
        owner = PARAMETERS[name]
        if value is not None and contract.loss != owner:
            raise ParameterError(
                parameter(name, of)
                + f" belongs to the loss {owner!r}. Got the loss {contract.loss!r}."
            )
    size = len(contract.settings_json)
    if size > MAX_BYTES:
        raise ParameterError(
            f"The settings of {of} must fit in {MAX_BYTES:,} bytes. Got {size:,};"
            " use fewer links, peers or features, or no matrix."
        )
    if contract.weights_column in contract.features:
        raise ParameterError(
            parameter("weights_column", of) + " must not be a feature too. Got"
            f" {show(contract.weights_column)}."
        )
    try:
        contract.make_distance().check(len(contract.features))
    except InputError as error:
        raise ParameterError(parameter("matrix", of) + f" cannot be used. {error}") from None
    if contract.rho != "auto" and contract.spec.takes("rho"):
        check_number(contract.rho, "rho", of, above=0)
    given = {"on_loss": contract.on_loss, "B": contract.B, "rho": contract.rho}
    contract.spec.check_options(given | {"exchange": contract.exchange}, of)


def _check_whole(value: object, name: str, of: str, *, at_least: int = 1) -> int:
    whole = check_count(value, name, of, at_least=at_least)
    if whole >= MAX_INTEGER:
        raise ParameterError(parameter(name, of) + f" must be below 2**63. Got {show(value)}.")
    return whole


def _check_auto(value: object, name: str, of: str) -> float | str:
    if not isinstance(value, str):
        return check_number(value, name, of, above=0)
    if value != "auto":
        raise ParameterError(
            parameter(name, of) + f" must be a number or 'auto'. Got {show(value)}."
        )
    return value


def _check_text(value: object, name: str, of: str) -> str:
    # A lone surrogate, which a shell passes for broken UTF-8, cannot be written to a file.
    if not isinstance(value, str) or not value or re.search("[\ud800-\udfff]", value):
        raise ParameterError(parameter(name, of) + f" must be a column's name. Got {show(value)}.")
    return value


def _check_features(value: object, name: str, of: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not value:
        must = "a list of at least one column's name"
        raise ParameterError(parameter(name, of) + f" must be {must}. Got {show(value)}.")
    texts = tuple(_check_text(each, name, of) for each in value)
    twice = [each for i, each in enumerate(texts) if each in texts[:i]]
    if twice:
        raise ParameterError(
            parameter(name, of) + f" must be different. Got {show(twice[0])} twice."
        )
    return texts


def _check_matrix(value: object, name: str, of: str) -> tuple[tuple[float, ...], ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(r, list | tuple) for r in value):
        raise ParameterError(parameter(name, of) + f" must be a list of rows. Got {show(value)}.")
    return tuple(tuple(check_number(v, name, of) for v in row) for row in value)


def _check_ranges(
    value: object, name: str, of: str, *, features: tuple[str, ...]
) -> tuple[tuple[float, float], ...]:
    if not isinstance(value, Mapping):
        must = "a (low, high) for each feature, by name"
        raise ParameterError(parameter(name, of) + f" must be {must}. Got {show(value)}.")
    for feature in value:
        if feature not in features:
            raise ParameterError(
                parameter(name, of) + f" must name features. Got {show(feature)}."
                f"{guess(feature, features)}"
            )
    if missing := [each for each in features if each not in value]:
        raise ParameterError(
            parameter(name, of) + f" must have a range for each feature. Got none for"
            f" {shorten([*map(repr, missing)])}."
        )
    return tuple(_check_range(value[feature], feature, name, of) for feature in features)


def _check_range(value: object, feature: str, name: str, of: str) -> tuple[float, float]:
    if isinstance(value, list | tuple) and len(value) == 2:
        low, high = (
            check_number(each, name, of, at_least=-LARGEST, at_most=LARGEST) for each in value
        )
        if low < high:
            return low, high
    raise ParameterError(
        parameter(name, of)
        + f" must be two numbers, low < high, for each feature. Got {show(value)} for"
        f" {show(feature)}."
    )


def _check_solver(value: object, name: str, of: str) -> str:
    if value == "auto":
        raise ParameterError(
            parameter(name, of) + " must be named, so that all sites know what they send:"
            f" {PENALIZED_DEFAULT.name!r} continues if a site is lost, {CONSENSUS_DEFAULT.name!r}"
            " ends at the same centers everywhere. Got 'auto'."
        )
    return check_name(value, SOLVERS, name, of)


def _one_of(*known: str) -> Check[str]:
    return lambda value, name, of: check_name(value, known, name, of)


_positive = partial(check_number, above=0)
_not_negative = partial(check_number, at_least=0)
