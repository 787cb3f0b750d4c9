"""The scikit-learn doors: `DGC`, a clusterer, and `DGCOutlierDetector`, an outlier detector.

They speak scikit-learn's names (`n_clusters`, `max_iter`, `tol`, `random_state`) and hand over to
`cluster`.
"""

from peerclust.estimators.clusterer import DGC
from peerclust.estimators.detector import DGCOutlierDetector

__all__ = ["DGC", "DGCOutlierDetector"]
