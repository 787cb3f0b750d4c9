"""The scikit-learn doors: `PeerClustering`, a clusterer, and `PeerOutlierDetector`, an outlier detector.

They speak scikit-learn's names (`n_clusters`, `max_iter`, `tol`, `random_state`) and hand over to
`cluster`.
"""

from peerclust.estimators.clusterer import PeerClustering
from peerclust.estimators.detector import PeerOutlierDetector

__all__ = ["PeerClustering", "PeerOutlierDetector"]
