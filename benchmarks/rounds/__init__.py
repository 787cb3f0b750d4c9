"""Rounds of DGC: their cost compared with scikit-learn, and how it grows."""

from benchmarks.rounds.round_costs import measure

__all__ = ["measure"]
