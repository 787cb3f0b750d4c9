"""Table 1 in short: the users' disagreement falls like 1/rho."""

import numpy as np

import peerclust as pc

rows, classes = pc.datasets.iris()
users = pc.partition.homogeneous(classes, 10, random_state=0)
parts = [rows[i] for i in users]

print("   rho  disagreement  J_rho")
for rho in (1, 10, 100, 1000):
    solution = pc.cluster(
        parts,
        n_clusters=3,
        graph=pc.graphs.ring(10),
        solver="dgc",
        rho=rho,
        alpha="paper",
        rounds=500,
        tol=0,
        init=pc.initialize.Warm([classes[i] for i in users]),
        random_state=0,
        trace=True,
    )
    certificate = solution.certificate
    print(f"{rho:6d}  {certificate.disagreement:12.5f}  {certificate.cost:.4g}")
    assert np.all(np.diff(solution.trace.cost) <= 0), "the cost must never increase"
