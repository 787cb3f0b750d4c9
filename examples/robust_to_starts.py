"""Table 2 in short: from random starts, ten users do better than K-means on all rows."""

import numpy as np
from sklearn.cluster import KMeans

import peerclust as pc

rows, classes = pc.datasets.iris()
together, alone = [], []
for seed in range(10):
    users = pc.partition.homogeneous(classes, 10, random_state=seed)
    solution = pc.cluster(
        [rows[i] for i in users],
        n_clusters=3,
        graph=pc.graphs.ring(10),
        solver="dgc",
        rho=10,
        alpha="paper",
        tol=0,
        init="random",
        n_init=1,
        random_state=seed,
    )
    right = [
        pc.metrics.accuracy(classes[i], labels)
        for i, labels in zip(users, solution.labels, strict=True)
    ]
    together.append(np.mean(right))
    pooled = KMeans(3, init="random", n_init=1, random_state=seed).fit_predict(rows)
    alone.append(pc.metrics.accuracy(classes, pooled))

for name, values in (("ten users, DGC-KM", together), ("all rows, K-means", alone)):
    print(f"{name}: {100 * np.mean(values):.1f} +- {100 * np.std(values):.1f} %")
