"""From which rounds on a replay computes a site, by the starts in its journal."""

import numpy as np
import pytest

from peerclust.peers.replay import _read_segments
from peerclust.runtimes.network.journal import pack_array


def rounds(*events):
    """Return the rounds of the segments of a journal; "heard" follows the last start."""
    x = pack_array(np.zeros((2, 1)))
    journal = [
        {"event": "heard", "exchange": 0, "senders": [1]}
        if each == "heard"
        else {"event": "start", "round": each, "x": x}
        for each in events
    ]
    return [segment.round for segment in _read_segments(journal)[0]]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ((0, "heard", 21, "heard", 143, "heard"), [0, 21, 143]),
        # It was killed in round 21, after others had heard it there.
        ((0, "heard", 21, 143, "heard"), [0, 21, 143]),
        # Nobody has heard it in the rounds from which it went back.
        ((0, "heard", 150, 160, 143, "heard"), [0, 143]),
        ((0, "heard", 143, 143, "heard"), [0, 143]),
    ],
)
def test_a_start_counts_unless_the_site_went_back_from_it(events, expected):
    assert rounds(*events) == expected
