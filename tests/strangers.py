"""Strangers that flood a peer on this machine with connections; a process of its own.

`python tests/strangers.py PORT KIND RATE` opens connections until it is killed, and prints how many
it has opened. It keeps them open, as far as the peer does.
"""

import socket
import ssl
import subprocess
import sys
import time
from collections import deque
from contextlib import contextmanager, suppress
from pathlib import Path

# As many as are kept; the peer closes most of them much earlier.
KEPT = 8000


def client_hello():
    """Return the ClientHello of a client that speaks TLS 1.3."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing)
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def plain(first):
    """Open connections that send these bytes and nothing else."""

    def open_one(port):
        made = socket.create_connection(("127.0.0.1", port), timeout=5)
        made.sendall(first)
        return made

    return open_one


def with_certificate(name):
    """Open connections that finish TLS with the key NAME.key, and then send a bit of HTTP."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if name:
        context.load_cert_chain(f"{name}.crt", f"{name}.key")

    def open_one(port):
        made = socket.create_connection(("127.0.0.1", port), timeout=5)
        with suppress(OSError):
            made = context.wrap_socket(made)
            made.send(b"GET")
        return made

    return open_one


KINDS = {
    "silent": lambda: plain(b""),
    "half a ClientHello": lambda: plain(client_hello()[:150]),
    "a ClientHello": lambda: plain(client_hello()),
    "a ClientHello of 16 MB": lambda: plain(b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + bytes(2000)),
    "HTTP": lambda: plain(b"GET / HT"),
    "no certificate": lambda: with_certificate(""),
    "an unlisted certificate": lambda: with_certificate("stranger"),
    "a listed certificate": lambda: with_certificate("p2"),
}


def flood(port, kind, rate):
    open_one, kept, begin, opened = KINDS[kind](), deque(), time.monotonic(), 0
    while True:
        time.sleep(max(0.0, begin + opened / rate - time.monotonic()))
        with suppress(OSError):
            kept.append(open_one(port))
        opened += 1
        if len(kept) > KEPT:
            kept.popleft().close()
        if opened % 100 == 0:
            print(opened, flush=True)


@contextmanager
def flooding(directory, port, kind, rate=1000):
    """Flood a port while the block runs; it starts once 500 connections have been opened."""
    words = [sys.executable, Path(__file__).resolve(), str(port), kind, str(rate)]
    with subprocess.Popen(words, cwd=directory, stdout=subprocess.PIPE, text=True) as process:
        try:
            while int(process.stdout.readline()) < 500:
                pass
            yield
        finally:
            process.kill()


if __name__ == "__main__":
    flood(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
