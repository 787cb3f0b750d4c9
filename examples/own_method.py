"""Your own method in the paper's tables: DGC-KM with the longer step that is proven safe.

python own_method.py                                    Table 2 with one more method
peerclust reproduce table-5 --methods own_method.py     any other table
"""

import tempfile

from peerclust import baselines, paper, theory
from peerclust.programs.dgc import DGC


def long_steps(task):
    """Return the program for a task, which has rows, users, a graph, a start and rho."""
    largest = max(b - a for a, b in zip(task.offsets, task.offsets[1:], strict=False))
    alpha = theory.safe_step(
        beta=1.0, W=float(largest), rho=task.rho, lambda_max=task.graph.lambda_max.value
    )
    return DGC(rho=task.rho, alpha=alpha)


baselines.register("LONG-STEPS", baselines.OverNetwork(long_steps))

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(paper.run("table-2", out=folder, runs=2).page)
