"""A preflight for one site: everything that a run needs, each found good or not in one line.

The network's part of it is `runtimes.network.probe`; `cli.peer_display` shows it.
"""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from peerclust.errors import InputError, PeerclustError
from peerclust.peers import commands
from peerclust.runtimes.network import contract_file
from peerclust.runtimes.network.contract import Contract, spell
from peerclust.runtimes.network.identity import Identity, certificate_dates
from peerclust.runtimes.network.probe import Seen, Visit

# With fewer days left a certificate should be renewed; clocks may differ by so many seconds.
_DAYS, _APART = 30, 60.0

_RENEW = (
    "make a new one with `peerclust peer keygen --force`, and give every site a network file"
    " that has it"
)


@dataclass(frozen=True)
class Line:
    """What was checked, whether it is good, and what was found; `warns` of what is good for now."""

    name: str
    ok: bool
    detail: str
    warns: bool = False


def check(
    network: Path,
    me: str,
    data: Path,
    *,
    keys: Path | None = None,
    listen: tuple[str, int] | None = None,
    dial: Mapping[str, tuple[str, int]] | None = None,
    seconds: float = 10.0,
    tell: Callable[[list[str]], None] = lambda _: None,
    now: datetime | None = None,
) -> list[Line]:
    """Check all that a site needs; neighbors are tried again until so many seconds are over.

    `tell` hears which of them are waited for; `now` is the clock.
    """
    now = now or datetime.now(UTC)
    try:
        contract = contract_file.read(network)
        commands.check_member(contract, me)
        commands.check_dial(contract, me, dial or {})
    except InputError as error:
        return [Line("network file", False, f"{error} Nothing else can be checked without it.")]
    lines = [Line("network file", True, f"{network}, digest {spell(contract.digest)}")]
    identity: Identity | None = None
    try:
        identity = commands.find_identity(contract, me, keys or network.parent)
        mode = stat.S_IMODE(identity.key.stat().st_mode)
        mark = contract.peers[contract.number(me)].fingerprint
        told = f"{identity.key}, mode {mode:03o}, of {identity.certificate}, {mark}"
        lines.append(Line("key", True, told))
    except PeerclustError as error:
        lines.append(Line("key", False, str(error)))
    lines.append(_certificate(contract, me, now))
    visit = None
    if identity is not None:
        visit = asyncio.run(_visit(contract, me, identity, listen, dial, seconds, tell))
    lines.append(_clock(contract, {} if visit is None else visit.seen, now))
    lines.append(_port(listen or contract.peers[contract.number(me)].endpoint, visit))
    lines.append(_data(contract, data))
    if visit is None:
        told = "not tried: without this site's key nobody answers"
        return lines + [Line(name, False, told) for name in contract.neighbors(me)]
    return lines + [_neighbor(contract, me, name, visit, now) for name in visit.seen]


async def _visit(
    contract: Contract,
    me: str,
    identity: Identity,
    listen: tuple[str, int] | None,
    dial: Mapping[str, tuple[str, int]] | None,
    seconds: float,
    tell: Callable[[list[str]], None],
) -> Visit:
    visit = Visit(contract, me, identity, listen=listen, dial=dial)
    await visit.pay(seconds, tell)
    return visit


def _certificate(contract: Contract, name: str, now: datetime) -> Line:
    """Judge the dates of a certificate, as the network file has it."""
    begin, end = certificate_dates(contract.peers[contract.number(name)].certificate)
    days = (end - now).days
    told = f"valid from {begin:%Y-%m-%d} to {end:%Y-%m-%d}"
    if now < begin:
        ahead = f"valid from {begin:%Y-%m-%d %H:%M} UTC only; is this site's clock right?"
        return Line("certificate", False, ahead)
    if now > end:
        return Line("certificate", False, f"expired on {end:%Y-%m-%d %H:%M} UTC: {_RENEW}")
    if days < _DAYS:
        return Line("certificate", True, f"{told}, only {days} days left: {_RENEW}", warns=True)
    return Line("certificate", True, f"{told}, {days:,} days left")


def _clock(contract: Contract, seen: Mapping[str, Seen], now: datetime) -> Line:
    """Judge this site's clock by the certificates, all made in the past, and the neighbors'."""
    newest = max(contract.peers, key=lambda peer: certificate_dates(peer.certificate)[0])
    made = certificate_dates(newest.certificate)[0]
    told = f"{now:%Y-%m-%d %H:%M:%S} UTC"
    if now < made:
        return Line(
            "clock",
            False,
            f"{told}, but the certificate of {newest.name} was made after {made:%Y-%m-%d %H:%M}:"
            " set the clock",
        )
    ahead = {name: each.ahead for name, each in seen.items() if each.ahead is not None}
    if not ahead:
        return Line("clock", True, f"{told}; no neighbor told its own")
    far = {name: by for name, by in ahead.items() if abs(by) > _APART}
    if far:
        apart = ", ".join(f"{abs(by):,.0f} s {_side(by)} {name}'s" for name, by in far.items())
        return Line("clock", False, f"{told} is {apart}: set the one that is wrong")
    return Line("clock", True, f"{told}, as at {', '.join(ahead)}")


def _side(ahead: float) -> str:
    return "behind" if ahead > 0 else "ahead of"


def _port(endpoint: tuple[str, int], visit: Visit | None) -> Line:
    address = f"{endpoint[0]}:{endpoint[1]}"
    if visit is None:
        return Line("port", False, f"{address} was not tried: the key comes first")
    if not visit.port:
        return Line("port", True, f"{address} can be listened on")
    if visit.runs:
        return Line("port", True, f"this peer is running at {address} already", warns=True)
    return Line(
        "port",
        False,
        f"{address} cannot be listened on: {visit.port}. End who holds it, or give an address of"
        " this machine with --listen",
    )


def _data(contract: Contract, data: Path) -> Line:
    try:
        table = commands.read_table(contract, data)
    except PeerclustError as error:
        return Line("data", False, str(error))
    N = len(table.rows)
    told = f"{data}, {N:,} rows of finite numbers in {', '.join(contract.features)}"
    if table.weights is not None:
        told += f", weights in {contract.weights_column} of {table.weights.sum():g} in sum"
        if N and not table.weights.any():
            return Line("data", True, f"{told}: no row counts", warns=True)
    if contract.mean_of > N:
        few = f"{told}: fewer than mean_of = {contract.mean_of}, so no first center is made of them"
        return Line("data", True, few, warns=True)
    return Line("data", True, told)


def _neighbor(contract: Contract, me: str, name: str, visit: Visit, now: datetime) -> Line:
    seen = visit.seen[name]
    host, port = visit.endpoint(name)
    if seen.differs:
        told = f"does not agree. {' '.join(seen.differs)} Take the same network file"
        return Line(name, False, told)
    if seen.hello is None:
        return Line(name, False, _explain(seen, me < name, f"{host}:{port}"))
    if me < name and not seen.answered:
        told = (
            f"dialed this site, but in a run this site dials, and {host}:{port} cannot be reached:"
            f" {seen.reason}. Let this site through there, or give another address with --dial"
        )
        return Line(name, False, told)
    where = f"answers at {host}:{port}" if seen.answered else "dialed this site"
    doing = {"agreeing": "waits for the others", "running": "runs", "done": "has ended"}
    what = "checks, too" if seen.hello.visits else doing[seen.hello.phase]
    told = f"{where} and agrees; it {what}"
    dates = _certificate(contract, name, now)
    if dates.warns:
        return Line(name, True, f"{told}. Its certificate is {dates.detail}", warns=True)
    if name < me and not (seen.came or visit.runs):
        told += ". In a run it is the one that dials, which it did not: check at the same time"
        return Line(name, True, told, warns=True)
    return Line(name, True, told)


def _explain(seen: Seen, dials: bool, address: str) -> str:
    """Say why a neighbor was not heard, and what may help."""
    if not seen.silent:
        return (
            f"answered at {address}, but {seen.reason}. Compare the digests of the network files"
            " and the fingerprints"
        )
    other = "" if dials else ", nor did it dial this site"
    return (
        f"cannot be reached at {address}: {seen.reason}{other}. Let `peerclust peer check` run"
        " there at the same time, and this site through its firewall"
    )
