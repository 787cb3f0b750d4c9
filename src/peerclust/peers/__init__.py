"""Clustering between sites: one process at each, over a network; see `runtimes.network` for that.

`together` is what all sites do alike; `site` runs one of them, from its files to its result.
"""
