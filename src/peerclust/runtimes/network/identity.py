"""Who a peer is: a key that stays with it and a certificate by which the others know it.

There is no authority. A certificate is signed by its own key, and everybody who shall trust it is
given the certificate itself; it can vouch for nobody else (CA:FALSE). Which peers those are is
said by the network file (`contract`), not here.
"""

from __future__ import annotations

import hashlib
import os
import re
import ssl
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from peerclust.errors import ParameterError
from peerclust.files import new_file
from peerclust.text import show
from peerclust.validation import check_count

LONGEST = 36500  # days; a certificate's dates end with the year 9999


@dataclass(frozen=True)
class Identity:
    """A peer's name and where its key and its certificate are, both PEM files."""

    name: str
    key: Path
    certificate: Path


def check_peer_name(name: Any, where: str = "") -> str:
    """Return the name if a peer may have it; `where` is said in the error, as " in a.toml".

    >>> check_peer_name("hospital-a.north_2")
    'hospital-a.north_2'
    """
    # A name becomes part of file names, so it may neither be ".." nor look like an option.
    if isinstance(name, str) and re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        return name
    raise ParameterError(
        f"The name of a peer{where} must be 1 to 64 letters, digits, dots, dashes and underscores,"
        f" and begin with a letter or digit. Got {show(name)}."
    )


def make_identity(
    name: str,
    directory: Path,
    *,
    days: int = 3650,
    force: bool = False,
    now: datetime | None = None,
) -> Identity:
    """Make a key and a certificate valid for so many days; write NAME.key and NAME.crt.

    The key is on the curve P-256. It is readable by its owner only, from the first byte on. The
    certificate is valid from an hour before `now` (the present time), as clocks differ.
    """
    check_peer_name(name)
    if check_count(days, "days", "make_identity") > LONGEST:
        raise ParameterError(f"`days` of make_identity must be at most {LONGEST}. Got {days}.")
    identity = Identity(name, directory / f"{name}.key", directory / f"{name}.crt")
    for path in (identity.key, identity.certificate):
        if not force and os.path.lexists(path):
            raise ParameterError(f"{path} is there already; it is replaced only with --force.")
    key = ec.generate_private_key(ec.SECP256R1())
    now = now or datetime.now(UTC)
    certificate = _certify(name, key, now - timedelta(hours=1), now + timedelta(days=days))
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with new_file(identity.certificate) as public, new_file(identity.key) as private:
        public.write_bytes(certificate.public_bytes(Encoding.PEM))
        with os.fdopen(os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secret)
    return identity


def _certify(
    name: str, key: ec.EllipticCurvePrivateKey, begin: datetime, end: datetime
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    both_ends = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        # OpenSSL takes a trusted certificate as its own anchor without CA:TRUE; with it, a peer
        # could sign a certificate for another name, and whoever trusts the peer would accept it.
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both_ends), critical=False)
        .add_extension(own, critical=False)
        .sign(key, hashes.SHA256())
    )


def load_identity(name: str, key: Path, certificate: Path) -> Identity:
    """Return the identity in these files, if they belong together, to the name, and to nobody else.

    The certificate's dates are not looked at (`certificate_dates`).
    """
    check_peer_name(name)
    der = read_certificate(certificate)
    secret = _read(key, "key")
    mode = stat.S_IMODE(key.stat().st_mode)
    if os.name == "posix" and mode & 0o077:
        raise ParameterError(
            f"The key {key} must be readable by its owner only. Got mode {mode:03o}; run"
            f" `chmod 600 {key}`, or make a new one if others may have read it."
        )
    try:
        held = load_pem_private_key(secret, password=None).public_key()
    except TypeError:
        raise ParameterError(f"The key {key} must not be encrypted by a password.") from None
    except (ValueError, UnsupportedAlgorithm):
        raise ParameterError(f"The key {key} must be a private key in PEM.") from None
    if _public_bytes(held) != _public_bytes(_parse(der, str(certificate)).public_key()):
        raise ParameterError(f"The key {key} does not belong to the certificate {certificate}.")
    if common_name(der) != name:
        raise ParameterError(
            f"The certificate {certificate} must be that of {name}. Got one of"
            f" {show(common_name(der))}."
        )
    return Identity(name, key, certificate)


def read_certificate(path: Path) -> bytes:
    """Return the one certificate of a PEM file, as DER."""
    text = _read(path, "certificate")
    try:
        found = x509.load_pem_x509_certificates(text)
    except ValueError:
        found = []
    if len(found) != 1:
        got = "a private key" if b"PRIVATE KEY" in text else f"{len(found) or 'none'}"
        raise ParameterError(f"The file {path} must be one certificate in PEM. Got {got}.")
    return found[0].public_bytes(Encoding.DER)


def fingerprint(der: bytes) -> str:
    """Return what identifies a certificate, short enough to compare by telephone.

    >>> fingerprint(b"")[:15]
    'sha256:e3b0c442'
    """
    return f"sha256:{hashlib.sha256(der).hexdigest()}"


def certificate_dates(der: bytes) -> tuple[datetime, datetime]:
    """Return from when to when a certificate is valid, in UTC."""
    found = _parse(der, "given")
    return found.not_valid_before_utc, found.not_valid_after_utc


def common_name(der: bytes) -> str:
    """Return the name that a certificate is for, or "" if it has none."""
    found = _parse(der, "given").subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if len(found) == 1 else ""


def server_context(identity: Identity, trusted: Sequence[bytes]) -> ssl.SSLContext:
    """Return how a peer answers: by TLS 1.3 to those who prove one of these certificates (DER).

    Which of them it was, the connection tells: `getpeercert(binary_form=True)`.
    """
    context = _context(ssl.PROTOCOL_TLS_SERVER, identity, trusted)
    # Every connection proves its certificate anew, so there is nothing to resume.
    context.num_tickets = 0
    return context


def client_context(identity: Identity, trusted: bytes) -> ssl.SSLContext:
    """Return how a peer calls: by TLS 1.3, only who proves this certificate (DER)."""
    return _context(ssl.PROTOCOL_TLS_CLIENT, identity, [trusted])


def _context(protocol: int, identity: Identity, trusted: Sequence[bytes]) -> ssl.SSLContext:
    # Not create_default_context, which may trust the system's authorities beside ours.
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate itself is pinned, wherever the peer runs
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(identity.certificate, identity.key)
    for der in trusted:
        context.load_verify_locations(cadata=der)
    return context


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ParameterError(
            f"The {what} {path} cannot be read: {error.strerror or error}."
        ) from None


def _parse(der: bytes, what: str) -> x509.Certificate:
    try:
        found = x509.load_der_x509_certificate(der)
        # These are parsed only when asked for, and may be malformed by themselves.
        _ = found.subject, found.not_valid_before_utc, found.not_valid_after_utc, found.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ParameterError(f"The certificate {what} must be X.509 in DER.") from None
    return found


def _public_bytes(key: Any) -> bytes:
    found: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return found
