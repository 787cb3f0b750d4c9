"""One process at each site, a peer, that clusters with its neighbors over mutual TLS."""

from importlib.util import find_spec

from peerclust.errors import MissingExtraError

for _name in ("cryptography", "msgspec", "websockets", "xxhash"):
    if find_spec(_name) is None:
        raise MissingExtraError(
            f"Peers need {_name}, which is not installed; it comes with the extra `network`."
        )
