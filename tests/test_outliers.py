"""What `outliers` refuses."""

import numpy as np
import pytest

from peerclust.errors import DataError
from peerclust.outliers import outlier_scores


@pytest.mark.parametrize("features", [(2, 1), (1, 2)])
def test_centers_have_as_many_features_as_the_rows(features):
    rows, centers = (np.ones((5, d)) for d in features)
    with pytest.raises(DataError, match=f"must have the rows' {features[0]} features. Got"):
        outlier_scores(rows, centers)
