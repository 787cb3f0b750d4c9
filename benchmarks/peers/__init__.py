"""Rounds per second of peer processes."""

from benchmarks.peers.round_rate import measure

__all__ = ["measure"]
