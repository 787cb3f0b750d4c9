"""Rounds over MPI: speedup, memory, and a model of their cost."""

from benchmarks.mpi.scalability import measure

__all__ = ["measure"]
