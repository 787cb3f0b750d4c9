"""Why a connection could not be opened, in words for the log: errors of TCP and of TLS. No I/O."""

from __future__ import annotations

import errno
import os
import ssl


def explain(error: OSError) -> str:
    """Return why a connection failed, as text."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error) or "no answer"


def explain_listening(error: OSError, host: str, port: int) -> str:
    """Return a sentence on why an address cannot be listened on, and what to do."""
    remedy = "Give an address of this machine with --listen, such as 0.0.0.0:PORT."
    if error.errno == errno.EADDRINUSE:
        remedy = "Is this peer running already? If not, end the program that uses the port."
    return f"{host}:{port} cannot be listened on: {explain(error)}. {remedy}"


def explain_tls(error: ssl.SSLError) -> str:
    """Return why TLS failed, as text."""
    code = str(error.reason or error)
    known = {
        "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it presented no certificate",
        "UNSUPPORTED_PROTOCOL": "it does not speak TLS 1.3",
        "HTTP_REQUEST": "it spoke plain HTTP, not TLS",
        "WRONG_VERSION_NUMBER": "it did not speak TLS",
        "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it requires a certificate",
        "TLSV1_ALERT_UNKNOWN_CA": "it does not know this site's certificate",
        "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it says that this site's certificate has expired",
        "SSLV3_ALERT_BAD_CERTIFICATE": "it says that this site's certificate is not valid yet",
    }
    if isinstance(error, ssl.SSLCertVerificationError):
        if "expired" in error.verify_message:
            return "its certificate has expired"
        if "not yet valid" in error.verify_message:
            return "its certificate is not valid yet"
        return f"its certificate is not in the network file ({error.verify_message})"
    return known.get(code, f"TLS failed ({code.lower().replace('_', ' ')})")
