"""Every solver on 30 problems, and the claims made about each."""

from benchmarks.solvers.comparison import measure

__all__ = ["measure"]
