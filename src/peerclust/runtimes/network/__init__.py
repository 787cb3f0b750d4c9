"""One process at each site, a peer, that clusters with its neighbors over mutual TLS."""
