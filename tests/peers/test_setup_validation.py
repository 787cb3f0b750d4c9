"""What the rows of a site that joins late must fit, and what sites cannot have agreed on."""

import msgspec
import numpy as np
import pytest

from peer_runs import RANGES, iris, make_path_contract, rows_of
from peerclust.errors import DataError
from peerclust.peers import setup
from peerclust.peers.rows import Rows
from peerclust.peers.setup_validation import check_fits, refuse_agreed
from peerclust.runtimes import Loopback, Simulator


def test_rows_of_a_site_that_joins_late_must_fit_what_was_agreed():
    terms = make_path_contract()
    parts = iris(4)
    agreed, _, _ = setup.agree(terms, Simulator(terms.graph), rows_of(parts), (0, 1, 2, 3), [], "")
    one = Rows(parts[0], np.array([0, len(parts[0])]), 1.0, (0,))
    check_fits(agreed, one.users(terms, agreed))
    more = np.concatenate([parts[0], parts[0]])
    heavy = Rows(more, np.array([0, len(more)]), 1.0, (0,))
    with pytest.raises(DataError, match="is safe up to 38"):
        check_fits(agreed, heavy.users(terms, agreed))
    far = Rows(parts[0][:3] + 100.0, np.array([0, 3]), 1.0, (0,))
    with pytest.raises(DataError, match="outside the box of the data"):
        check_fits(agreed, far.users(terms, agreed))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"W": 40.0}, "the total weight 40 of a site, above max_weight"),
        ({"weight": 1e12}, "the total weight 1e+12 of 4 sites of at most 38"),
        ({"weight": 30.0}, "the total weight 30 of 4 sites of at most 38"),
        ({"curvature": [39.0, 1.0, 1.0]}, "curvatures that no rows have"),
        ({"evenness": [1.0, 1.0, 1.1]}, "curvatures that no rows have"),
        ({"low": [-99.0] * 4}, "a box other than the ranges"),
        ({"mean": [9.0, 3.0, 3.0, 1.0]}, "a box other than the ranges"),
        ({"spread": 1e3}, "a mean, deviation or spread that no rows in the ranges have"),
    ],
)
def test_settings_that_sites_with_these_bounds_cannot_have_agreed_on_are_refused(change, reason):
    terms = make_path_contract(ranges=RANGES, max_weight=38.0)
    agreed, _, _ = setup.agree(terms, Loopback(terms.graph), rows_of(iris(4)), (0, 1, 2, 3), [], "")
    assert refuse_agreed(terms, msgspec.structs.replace(agreed, **change)) == reason


def test_a_mean_outside_of_the_ranges_is_refused_even_with_a_box_to_match():
    terms = make_path_contract(ranges=RANGES, max_weight=38.0)
    agreed, _, _ = setup.agree(terms, Loopback(terms.graph), rows_of(iris(4)), (0, 1, 2, 3), [], "")
    mean, deviation = np.array([9.0, 3.0, 3.0, 1.0]), np.array(agreed.deviation)
    low, high = ((np.array(each) - mean) / deviation for each in np.array(RANGES).T)
    lie = msgspec.structs.replace(agreed, mean=mean.tolist(), low=low.tolist(), high=high.tolist())
    assert "that no rows in the ranges have" in refuse_agreed(terms, lie)
