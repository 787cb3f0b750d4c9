"""The algorithms, one a file, each written once for every runtime; see `protocol`."""
