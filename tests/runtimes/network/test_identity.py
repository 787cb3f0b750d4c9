import os
import ssl
import stat
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from peerclust.errors import ParameterError
from peerclust.runtimes.network import identity as identities
from peerclust.runtimes.network.identity import (
    Identity,
    certificate_dates,
    check_peer_name,
    client_context,
    common_name,
    fingerprint,
    load_identity,
    make_identity,
    read_certificate,
    server_context,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(scope="module")
def sites(folder):
    made = {name: make_identity(name, folder) for name in ("a", "b", "c")}
    long_ago = datetime.now(UTC) - timedelta(days=30)
    made["old"] = make_identity("old", folder, days=2, now=long_ago)
    made["early"] = make_identity("early", folder, now=datetime.now(UTC) + timedelta(days=2))
    return made


def der(identity):
    return read_certificate(identity.certificate)


def handshake(client, server):
    """Do the handshake in memory; return both ends, or raise what either side raises."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server)
    two = server.wrap_bio(to_server, to_client, server_side=True)
    errors = []
    for _ in range(4):
        for end in (one, two):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                errors.append(error)
        if errors:
            raise errors[0]
    two.write(b"heard")  # with TLS 1.3 a client knows only now that it was accepted
    assert one.read() == b"heard"
    return one, two


def refused(client, server, match):
    with pytest.raises(ssl.SSLError, match=match):
        handshake(client, server)


def test_two_peers_that_know_each_other_shake_hands_and_know_with_whom(sites):
    a, b, c = (sites[name] for name in "abc")
    one, two = handshake(client_context(a, der(b)), server_context(b, [der(c), der(a)]))
    assert one.version() == two.version() == "TLSv1.3"
    assert one.getpeercert(binary_form=True) == der(b)
    assert two.getpeercert(binary_form=True) == der(a)


def test_identities_hold_under_the_strict_rules_of_x509(sites):
    a, b = sites["a"], sites["b"]
    client, server = client_context(a, der(b)), server_context(b, [der(a)])
    for context in (client, server):
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    handshake(client, server)


def test_a_client_that_is_not_listed_is_refused(sites):
    a, b, c = (sites[name] for name in "abc")
    refused(client_context(c, der(b)), server_context(b, [der(a)]), "CERTIFICATE_VERIFY_FAILED")
    refused(client_context(c, der(b)), server_context(b, []), "CERTIFICATE_VERIFY_FAILED")


def test_a_server_other_than_the_one_called_is_refused(sites):
    a, b, c = (sites[name] for name in "abc")
    refused(client_context(a, der(b)), server_context(c, [der(a)]), "CERTIFICATE_VERIFY_FAILED")


def test_another_certificate_of_the_same_name_is_refused(sites, tmp_path):
    a, b, false = sites["a"], sites["b"], make_identity("a", tmp_path)
    refused(client_context(false, der(b)), server_context(b, [der(a)]), "CERTIFICATE_VERIFY_FAILED")


@pytest.mark.parametrize("name", ["old", "early"])
def test_a_certificate_out_of_its_dates_is_refused_from_either_side(sites, name):
    a, other = sites["a"], sites[name]
    match = "has expired" if name == "old" else "not yet valid"
    refused(client_context(other, der(a)), server_context(a, [der(other)]), match)
    refused(client_context(a, der(other)), server_context(other, [der(a)]), match)


def test_a_client_without_a_certificate_is_refused(sites):
    a, b = sites["a"], sites["b"]
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.load_verify_locations(cadata=der(b))
    refused(client, server_context(b, [der(a)]), "PEER_DID_NOT_RETURN_A_CERTIFICATE")


def test_tls_1_2_is_refused_from_either_side(sites):
    a, b = sites["a"], sites["b"]
    client, server = client_context(a, der(b)), server_context(b, [der(a)])
    for context in (client, server):
        assert context.minimum_version == ssl.TLSVersion.TLSv1_3
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    refused(old, server, "UNSUPPORTED_PROTOCOL")
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    old.load_cert_chain(b.certificate, b.key)
    refused(client, old, "UNSUPPORTED_PROTOCOL|PROTOCOL_VERSION")


def test_a_peer_cannot_vouch_for_another(sites, tmp_path):
    # The peer a is trusted, and signs a certificate for the name of b with its own key.
    a, b, c = (sites[name] for name in "abc")
    signer = load_pem_private_key(a.key.read_bytes(), None)
    real, by = (x509.load_der_x509_certificate(der(each)) for each in (c, a))
    forged = (
        x509.CertificateBuilder()
        .subject_name(x509.load_der_x509_certificate(der(b)).subject)
        .issuer_name(by.subject)
        .public_key(real.public_key())
        .serial_number(1)
        .not_valid_before(real.not_valid_before_utc)
        .not_valid_after(real.not_valid_after_utc)
        .sign(signer, hashes.SHA256())
    )
    chain = tmp_path / "b.crt"
    chain.write_bytes(forged.public_bytes(Encoding.PEM) + by.public_bytes(Encoding.PEM))
    false = Identity("b", c.key, chain)
    server = server_context(sites["b"], [der(a), der(c)])
    refused(client_context(false, der(sites["b"])), server, "CERTIFICATE_VERIFY_FAILED")


def test_no_authority_of_the_system_is_trusted_and_nothing_is_resumed(sites):
    a, b, c = (sites[name] for name in "abc")
    server = server_context(a, [der(b), der(c)])
    assert server.cert_store_stats()["x509"] == 2
    assert client_context(a, der(b)).cert_store_stats()["x509"] == 1
    assert server.num_tickets == 0


def test_a_key_is_never_readable_by_others(tmp_path, monkeypatch):
    opened = []
    real = os.open

    def record(path, flags, mode=0o777, **more):
        file = real(path, flags, mode, **more)
        opened.append((flags & os.O_EXCL, stat.S_IMODE(os.fstat(file).st_mode)))
        return file

    before = os.umask(0)  # the worst that a user's settings can do
    try:
        monkeypatch.setattr(identities.os, "open", record)
        made = make_identity("a", tmp_path)
    finally:
        os.umask(before)
    assert (os.O_EXCL, 0o600) in opened
    assert stat.S_IMODE(made.key.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.crt", "a.key"]


def test_certificates_say_for_whom_and_how_long(sites, tmp_path):
    made = make_identity("bern", tmp_path / "new" / "folder", days=7)
    begin, end = certificate_dates(der(made))
    now = datetime.now(UTC)
    assert now - timedelta(hours=1, minutes=1) < begin < now - timedelta(minutes=59)
    assert end - begin == timedelta(days=7, hours=1)
    assert common_name(der(made)) == "bern"
    known = x509.load_der_x509_certificate(der(made)).fingerprint(hashes.SHA256())
    assert fingerprint(der(made)) == "sha256:" + known.hex()
    numbers = {x509.load_der_x509_certificate(der(each)).serial_number for each in sites.values()}
    assert len(numbers) == len(sites)


def test_a_key_is_replaced_only_by_force(tmp_path):
    first = der(make_identity("a", tmp_path))
    for name in ("a.key", "a.crt"):
        with pytest.raises(ParameterError, match=r"a\.key exists already; .* with --force\."):
            make_identity("a", tmp_path)
        (tmp_path / name).touch()
    (tmp_path / "a.key").unlink()
    with pytest.raises(ParameterError, match=r"a\.crt exists already"):
        make_identity("a", tmp_path)
    made = make_identity("a", tmp_path, force=True)
    assert der(made) != first
    assert load_identity("a", made.key, made.certificate) == made


@pytest.mark.parametrize(
    "name", ["", "a b", "a/b", "..", "-force", "a" * 65, "é", "a\n", None, 3, "a=b", "a:b"]
)
def test_names_that_files_or_sentences_could_trip_over_are_refused(name, tmp_path):
    with pytest.raises(ParameterError, match="The name of a peer must be 1 to 64 "):
        make_identity(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_plain_names_with_digits_dots_dashes_and_underscores_are_good():
    for name in ("a", "0", "Hospital-A.north_2", "a" * 64):
        assert check_peer_name(name) == name


@pytest.mark.parametrize("days", [0, -1, 1.5, 36501])
def test_days_are_within_reason(days, tmp_path):
    with pytest.raises(ParameterError, match="`days` of make_identity must be"):
        make_identity("a", tmp_path, days=days)


def test_load_gives_what_make_made(sites):
    for name, made in sites.items():
        assert load_identity(name, made.key, made.certificate) == made


def test_load_says_in_one_sentence_what_it_cannot_use(sites, tmp_path):
    a, b = sites["a"], sites["b"]

    def fails(match, name="a", key=a.key, certificate=a.certificate):
        with pytest.raises(ParameterError, match=match):
            load_identity(name, key, certificate)

    no, open_key, broken, locked = (tmp_path / name for name in ("no", "open", "broken", "locked"))
    fails(r"The key .*no cannot be read: No such file or directory\.", key=no)
    fails(r"The certificate .*no cannot be read: No such file", certificate=no)
    fails(r"The certificate .* cannot be read: Is a directory\.", certificate=tmp_path)
    fails(r"b\.key does not belong to the certificate .*a\.crt\.", key=b.key)
    fails(r"a\.crt must be that of b\. Got one of 'a'\.", name="b")
    for mode in (0o640, 0o604, 0o620):
        open_key.write_bytes(a.key.read_bytes())
        open_key.chmod(mode)
        fails(rf"owner only\. Got mode {mode:o}; run `chmod 600 .*open`", key=open_key)
    broken.touch(0o600)
    broken.write_text("no key")
    fails("broken must be a private key in PEM", key=broken)
    fails(r"broken must be one certificate in PEM\. Got none\.", certificate=broken)
    fails(r"a\.key must be one certificate in PEM\. Got a private key\.", certificate=a.key)
    broken.write_bytes(a.certificate.read_bytes() + b.certificate.read_bytes())
    fails(r"broken must be one certificate in PEM\. Got 2\.", certificate=broken)
    secret = load_pem_private_key(a.key.read_bytes(), None)
    locked.touch(0o600)
    locked.write_bytes(
        secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    )
    fails("locked must not be encrypted with a password", key=locked)


def test_what_is_no_certificate_is_refused():
    for wrong in (b"", b"x" * 100):
        for look in (common_name, certificate_dates):
            with pytest.raises(ParameterError, match=r"must be X\.509 in DER"):
                look(wrong)
