"""Clustering between sites: one process at each, over a network; see `runtimes.network` for that.

`work` is the door: one site from its files to its result, in a `folder`, by way of `entering` a
run, `site` and `judging` its end. `together` is what all sites do alike, on any runtime. `check`
looks before a run whether all is ready, `replay` computes one again. `fleet` (with `nursery` and
`proxy`) and `demo` run real peers on one machine.
"""
