"""The algorithms, one per file, each written once for every runtime; see `protocol`."""
