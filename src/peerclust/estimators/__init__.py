"""The scikit-learn API: `PeerClustering` clusters, `PeerOutlierDetector` detects outliers.

Both use scikit-learn's names (`n_clusters`, `max_iter`, `tol`, `random_state`) and call `cluster`.
"""

from peerclust.estimators.clusterer import PeerClustering
from peerclust.estimators.detector import PeerOutlierDetector

__all__ = ["PeerClustering", "PeerOutlierDetector"]
