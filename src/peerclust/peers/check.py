"""The preflight check of one site: one line for each thing that a run needs.

`runtimes.network.probe` checks the neighbors; `cli.peer_display` shows the lines.
"""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from peerclust.errors import InputError, PeerclustError
from peerclust.peers.commands import SiteArguments, read_table
from peerclust.runtimes.network.contract import Contract, group_hex
from peerclust.runtimes.network.identity import Identity, certificate_dates, explain_dates
from peerclust.runtimes.network.probe import Probe, ProbeResult
from peerclust.text import sanitize, shorten

# A certificate should be renewed when fewer days than this are left.
_RENEWAL_DAYS = 30
# Seconds by which clocks may differ.
_MAX_CLOCK_DIFFERENCE = 60.0

_RENEW = (
    "make a new one with `peerclust peer keygen NAME --force`, and send every site a network file"
    " with the new one"
)


@dataclass(frozen=True)
class Line:
    """What was checked, whether it is good, and details; `warns` if it is good only for now."""

    name: str
    ok: bool
    detail: str
    warns: bool = False


def check(
    given: SiteArguments,
    *,
    seconds: float = 10.0,
    on_wait: Callable[[list[str]], None] = lambda _: None,
    now: datetime | None = None,
) -> list[Line]:
    """Check everything that a site needs; retry neighbors that do not answer for `seconds`.

    `on_wait` is called with the neighbors that have not answered yet; `now` is the clock.
    """
    now = now or datetime.now(UTC)
    try:
        contract, me = given.read_contract(), given.me
    except InputError as error:
        return [Line("network file", False, f"{error} Nothing else can be checked without it.")]
    lines = [Line("network file", True, f"{given.network}, digest {group_hex(contract.digest)}")]
    identity: Identity | None = None
    try:
        identity = given.load_identity(contract)
        mode = stat.S_IMODE(identity.key.stat().st_mode)
        fingerprint = contract.peer(me).fingerprint
        detail = f"{identity.key}, mode {mode:03o}, of {identity.certificate}, {fingerprint}"
        lines.append(Line("key", True, detail))
    except PeerclustError as error:
        lines.append(Line("key", False, str(error)))
    lines.append(_certificate(contract, me, now))
    probe = None
    if identity is not None:
        probe = Probe(contract, me, identity, listen=given.listen, dial=given.dial)
        asyncio.run(probe.run(seconds, on_wait))
    lines.append(_clock(contract, {} if probe is None else probe.results, now))
    lines.append(_port(given.listen or contract.peer(me).endpoint, probe))
    lines += [_data(contract, given), _ranges(contract)]
    if probe is None:
        detail = "not tried: neighbors answer only a site that has its key"
        return lines + [Line(name, False, detail) for name in contract.neighbors(me)]
    lines += [_neighbor(contract, me, name, probe, now) for name in probe.results]
    return lines + _invalid_elsewhere(contract, me, now)


def _certificate(contract: Contract, name: str, now: datetime) -> Line:
    """Check the dates of a peer's certificate in the network file."""
    start, end = certificate_dates(contract.peer(name).certificate)
    days = (end - now).days
    dates = f"valid from {start:%Y-%m-%d} to {end:%Y-%m-%d}"
    if now < start:
        early = f"not valid before {start:%Y-%m-%d %H:%M} UTC; is this site's clock right?"
        return Line("certificate", False, early)
    if now > end:
        return Line("certificate", False, f"expired on {end:%Y-%m-%d %H:%M} UTC: {_RENEW}")
    if days < _RENEWAL_DAYS:
        return Line("certificate", True, f"{dates}, only {days} days left: {_RENEW}", warns=True)
    return Line("certificate", True, f"{dates}, {days:,} days left")


def _clock(contract: Contract, results: Mapping[str, ProbeResult], now: datetime) -> Line:
    """Compare this site's clock with the certificates, all made in the past, and the neighbors'."""
    newest = max(contract.peers, key=lambda peer: certificate_dates(peer.certificate)[0])
    made = certificate_dates(newest.certificate)[0]
    time = f"{now:%Y-%m-%d %H:%M:%S} UTC"
    if now < made:
        return Line(
            "clock",
            False,
            f"{time}, but the certificate of {newest.name} was made after {made:%Y-%m-%d %H:%M}:"
            " set the clock",
        )
    ahead = {
        name: each.clock_ahead for name, each in results.items() if each.clock_ahead is not None
    }
    if not ahead:
        return Line("clock", True, f"{time}; no neighbor reported its own")
    far = {name: by for name, by in ahead.items() if abs(by) > _MAX_CLOCK_DIFFERENCE}
    if far:
        offsets = ", ".join(f"{abs(by):,.0f} s {_side(by)} {name}'s" for name, by in far.items())
        return Line("clock", False, f"{time} is {offsets}: set the one that is wrong")
    return Line("clock", True, f"{time}, same at {', '.join(ahead)}")


def _side(ahead: float) -> str:
    return "behind" if ahead > 0 else "ahead of"


def _port(endpoint: tuple[str, int], probe: Probe | None) -> Line:
    address = f"{endpoint[0]}:{endpoint[1]}"
    if probe is None:
        return Line("port", False, f"{address} was not tried: this needs the key")
    if not probe.listen_error:
        return Line("port", True, f"{address} is free to listen on")
    if probe.already_running:
        return Line("port", True, f"this peer is already running at {address}", warns=True)
    return Line(
        "port",
        False,
        f"cannot listen on {address}: {probe.listen_error}. Stop the process that uses it or choose"
        " an address of this machine with --listen",
    )


def _data(contract: Contract, given: SiteArguments) -> Line:
    try:
        table = read_table(contract, given.data, given.csv)
    except PeerclustError as error:
        return Line("data", False, str(error))
    N = len(table.rows)
    detail = f"{table.titles[0]}, {N:,} rows of finite numbers in {', '.join(contract.features)}"
    if table.weights is not None:
        detail += f", weights in {contract.weights_column} with sum {table.weights.sum():g}"
        if N and not table.weights.any():
            return Line("data", True, f"{detail}: no row has a weight above 0", warns=True)
    if contract.mean_of > N:
        detail += f": fewer than mean_of = {contract.mean_of}, so no initial center is made here"
        return Line("data", True, detail, warns=True)
    return Line("data", True, detail)


def _ranges(contract: Contract) -> Line:
    """Report what is public about the rows, and what sites learn if nothing is."""
    weight = f"at most {contract.max_weight:g} rows" + (
        "" if contract.weights_column is None else ", by weight,"
    )
    if contract.ranges is None:
        detail = (
            f"none, and {weight} per site: all sites learn the smallest and the largest value of"
            " each feature, and neighbors those of this site, which are values of single rows; a"
            " network file with ranges (`peerclust peer init --range`) avoids that"
        )
        return Line("ranges", True, detail, warns=True)
    pairs = zip(contract.features, contract.ranges, strict=True)
    shown = shorten([f"{name} {low:g} to {high:g}" for name, (low, high) in pairs])
    return Line("ranges", True, f"{shown}; {weight} per site")


def _neighbor(contract: Contract, me: str, name: str, probe: Probe, now: datetime) -> Line:
    if invalid := _explain_dates(contract, name, now):
        return Line(name, False, invalid)
    result = probe.results[name]
    host, port = probe.endpoint(name)
    if result.differences:
        detail = f"does not agree. {' '.join(result.differences)} Use the same network file"
        return Line(name, False, detail)
    if result.hello is None:
        return Line(name, False, _explain(result, me < name, f"{host}:{port}"))
    if me < name and not result.answered:
        detail = (
            f"dialed this site, but in a run this site dials, and {host}:{port} cannot be reached:"
            f" {result.reason}. Open its firewall to this site, or use another address with --dial"
        )
        return Line(name, False, detail)
    if result.hello.farewell is not None:
        return Line(name, False, f"cannot take part: {sanitize(result.hello.farewell.reason)}")
    where = f"answers at {host}:{port}" if result.answered else "dialed this site"
    doing = {"agreeing": "is waiting for others", "running": "is running", "done": "has ended"}
    activity = "is checking, too" if result.hello.visits else doing[result.hello.phase]
    detail = f"{where} and agrees; it {activity}"
    dates = _certificate(contract, name, now)
    if dates.warns:
        return Line(name, True, f"{detail}. Its certificate is {dates.detail}", warns=True)
    if name < me and not (result.dialed_us or probe.already_running):
        detail += ". In a run it must dial this site, and it did not: check at the same time"
        return Line(name, True, detail, warns=True)
    return Line(name, True, detail)


def _invalid_elsewhere(contract: Contract, me: str, now: datetime) -> list[Line]:
    """Return a line for each peer that is no neighbor and has a certificate that is not valid."""
    others = [name for name in contract.names if name not in (me, *contract.neighbors(me))]
    found = [(name, _explain_dates(contract, name, now)) for name in others]
    return [Line(name, False, invalid) for name, invalid in found if invalid]


def _explain_dates(contract: Contract, name: str, now: datetime) -> str:
    """Return why no other peer accepts the certificate of this one, and what to do, or ""."""
    invalid = explain_dates(contract.peers[contract.number(name)].certificate, now)
    return invalid and f"{invalid}. Set the clock if it is wrong; otherwise {name} has to {_RENEW}"


def _explain(result: ProbeResult, dials: bool, address: str) -> str:
    """Explain why a neighbor was not heard, and what may help."""
    if not result.unreachable:
        return (
            f"answered at {address}, but {result.reason}. Compare the digests of the network"
            " files and the fingerprints"
        )
    other = "" if dials else ", nor did it dial this site"
    return (
        f"cannot be reached at {address}: {result.reason}{other}. Run `peerclust peer check`"
        " there at the same time, and open its firewall to this site"
    )
