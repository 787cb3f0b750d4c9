"""The ways in which users' rows are remembered, for tests that are to try them all."""

from peerclust.users import cached

# How users with more than a few rows are remembered, whatever their rows are like.
WAYS = {
    "in place": {"WORTH_BOXES": 10**9, "MANY_FEATURES": 10**9},
    "with bounds": {"WORTH_BOXES": 10**9, "MANY_FEATURES": 1},
    "in boxes": {"WORTH_BOXES": 1, "FEW_FEATURES": 10**9},
}


def set_way(patch, way, few=2):
    """Have users with at least `few` rows remembered in one way."""
    for name, value in (WAYS[way] | {"WORTH_REMEMBERING": few}).items():
        patch.setattr(cached, name, value)
