"""A runtime in which each site runs one process, a peer, linked to its neighbors by mutual TLS."""

from importlib.util import find_spec

from peerclust.errors import MissingExtraError

for _name in ("cryptography", "msgspec", "websockets", "xxhash"):
    if find_spec(_name) is None:
        raise MissingExtraError(
            f"Peers need {_name}, which is not installed; it comes with the extra `network`."
        )
