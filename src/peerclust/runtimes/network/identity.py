"""The identity of a peer: a private key that stays with it, and a self-signed certificate.

There is no certificate authority. The other peers have the certificate itself, from the network
file (`contract`), and pin it. It cannot sign other certificates (CA:FALSE).
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

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
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

MAX_DAYS = 36500  # the dates of a certificate end with the year 9999

# X509_V_FLAG_NO_CHECK_TIME of OpenSSL, which the module ssl does not name.
_NO_CHECK_TIME = 0x200000


@dataclass(frozen=True)
class Identity:
    """A peer's name, and the paths of its key and its certificate, both in PEM."""

    name: str
    key: Path
    certificate: Path


def check_peer_name(name: object, where: str = "") -> str:
    """Return the name if it is valid for a peer; `where` (" in a.toml") is for the error.

    >>> check_peer_name("hospital-a.north_2")
    'hospital-a.north_2'
    """
    # A name becomes part of file names, so it may neither be ".." nor look like an option.
    if isinstance(name, str) and re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        return name
    raise ParameterError(
        f"The name of a peer{where} must be 1 to 64 characters of A-Z, a-z, 0-9, '.', '-' and '_',"
        f" and begin with one of A-Z, a-z or 0-9. Got {show(name)}."
    )


def make_identity(
    name: str,
    directory: Path,
    *,
    days: int = 3650,
    force: bool = False,
    now: datetime | None = None,
) -> Identity:
    """Create a key and a certificate that is valid for `days`; write NAME.key and NAME.crt.

    The key is on the curve P-256. Its file is created with mode 600. The certificate is valid from
    an hour before `now` (default: the current time), as clocks differ.
    """
    check_peer_name(name)
    if check_count(days, "days", "make_identity") > MAX_DAYS:
        raise ParameterError(f"`days` of make_identity must be at most {MAX_DAYS}. Got {days}.")
    identity = Identity(name, directory / f"{name}.key", directory / f"{name}.crt")
    for path in (identity.key, identity.certificate):
        if not force and os.path.lexists(path):
            raise ParameterError(f"{path} exists already; it is replaced only with --force.")
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
        # OpenSSL accepts a trusted certificate as its own anchor without CA:TRUE. With CA:TRUE, a
        # peer could sign a certificate for another name, and its neighbors would accept it.
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both_ends), critical=False)
        .add_extension(own, critical=False)
        .sign(key, hashes.SHA256())
    )


def load_identity(name: str, key: Path, certificate: Path) -> Identity:
    """Return the identity in these files; raise unless key, certificate and name belong together.

    The key must be readable by its owner only. The dates of the certificate are not checked
    (`certificate_dates`).
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
        public = load_pem_private_key(secret, password=None).public_key()
    except TypeError:
        raise ParameterError(f"The key {key} must not be encrypted with a password.") from None
    except (ValueError, UnsupportedAlgorithm):
        raise ParameterError(f"The key {key} must be a private key in PEM.") from None
    if _public_bytes(public) != _public_bytes(_parse(der, str(certificate)).public_key()):
        raise ParameterError(
            f"The key {key} does not belong to the certificate {certificate}. Use the key that was"
            " made with it, or make both anew with `peerclust peer keygen NAME --force`."
        )
    if common_name(der) != name:
        raise ParameterError(
            f"The certificate {certificate} must be that of {name}. Got one of"
            f" {show(common_name(der))}."
        )
    return Identity(name, key, certificate)


def read_certificate(path: Path) -> bytes:
    """Return the only certificate of a PEM file, as DER."""
    text = _read(path, "certificate")
    try:
        found = x509.load_pem_x509_certificates(text)
    except ValueError:
        found = []
    if len(found) != 1:
        got = "a private key" if b"PRIVATE KEY" in text else f"{len(found) or 'none'}"
        raise ParameterError(f"The file {path} must be one certificate in PEM. Got {got}.")
    return found[0].public_bytes(Encoding.DER)


def public_key(der: bytes) -> ec.EllipticCurvePublicKey:
    """Return the public key of a certificate, by which statements of its peer are verified."""
    found = _parse(der, "given").public_key()
    if not isinstance(found, ec.EllipticCurvePublicKey):
        raise ParameterError(
            f"The certificate of {show(common_name(der))} must have a key on an elliptic curve, as"
            " `peerclust peer keygen` makes it. Got another kind."
        )
    return found


def private_key(identity: Identity) -> ec.EllipticCurvePrivateKey:
    """Return the private key of an identity, with which a process signs its own key."""
    found = load_pem_private_key(_read(identity.key, "key"), password=None)
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise ParameterError(
            f"The key {identity.key} must be on an elliptic curve, as `peerclust peer keygen` makes"
            " it. Got another kind."
        )
    return found


def fingerprint(der: bytes) -> str:
    """Return the SHA-256 of a certificate, short enough to compare by telephone.

    >>> fingerprint(b"")[:15]
    'sha256:e3b0c442'
    """
    return f"sha256:{hashlib.sha256(der).hexdigest()}"


def server_name(network: bytes, der: bytes) -> str:
    """Return the name by which a peer is called in TLS, from the network's digest and its own DER.

    Only those with the network file know it, so that their connections can be distinguished from a
    flood before anything is computed for them. It proves nothing.

    >>> len(server_name(b"digest", b"certificate"))
    32
    """
    return hashlib.sha256(b"server name" + network + der).hexdigest()[:32]


def certificate_dates(der: bytes) -> tuple[datetime, datetime]:
    """Return the start and the end of a certificate's validity, in UTC."""
    found = _parse(der, "given")
    return found.not_valid_before_utc, found.not_valid_after_utc


def explain_dates(der: bytes, now: datetime) -> str:
    """Return why a certificate is not valid now, or ""."""
    start, end = certificate_dates(der)
    if start <= now <= end:
        return ""
    dates = f"it is valid from {start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC"
    what = "has expired" if now > end else "is not valid yet"
    return f"its certificate {what}: {dates}, and the clock here shows {now:%Y-%m-%d %H:%M} UTC"


def check_dates(path: Path, now: datetime, remedy: str) -> None:
    """Raise unless the certificate in a file is valid now; `remedy` is how to get one that is."""
    start, end = certificate_dates(read_certificate(path))
    if not start <= now <= end:
        raise ParameterError(
            f"The certificate {path} must be valid now, {now:%Y-%m-%d %H:%M} UTC. Got one valid"
            f" from {start:%Y-%m-%d} to {end:%Y-%m-%d}; {remedy}, or set the clock."
        )


def common_name(der: bytes) -> str:
    """Return the common name of a certificate, or "" if there is not exactly one."""
    found = _parse(der, "given").subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if len(found) == 1 else ""


def server_context(
    identity: Identity, trusted: Sequence[bytes], *, any_date: bool = False
) -> ssl.SSLContext:
    """Return a TLS 1.3 server context that requires one of these client certificates (DER).

    `getpeercert(binary_form=True)` of a connection returns the one that the client has. With
    `any_date` it may have expired.
    """
    context = _context(ssl.PROTOCOL_TLS_SERVER, identity, trusted, any_date)
    # Every connection must prove its certificate, so sessions are not resumed.
    context.num_tickets = 0
    return context


def client_context(identity: Identity, trusted: bytes, *, any_date: bool = False) -> ssl.SSLContext:
    """Return a TLS 1.3 client context that requires this server certificate (DER)."""
    return _context(ssl.PROTOCOL_TLS_CLIENT, identity, [trusted], any_date)


def _context(
    protocol: int, identity: Identity, trusted: Sequence[bytes], any_date: bool
) -> ssl.SSLContext:
    # Not create_default_context, which may also trust the authorities of the system.
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate itself is pinned
    context.verify_mode = ssl.CERT_REQUIRED
    if any_date:
        context.verify_flags |= _NO_CHECK_TIME
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
        # These are parsed lazily, and each may be malformed.
        _ = found.subject, found.not_valid_before_utc, found.not_valid_after_utc, found.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ParameterError(f"The certificate {what} must be X.509 in DER.") from None
    return found


def _public_bytes(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
