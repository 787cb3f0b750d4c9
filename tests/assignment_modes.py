"""The modes of assignment, by what users cache about their rows, for tests that try them all."""

from peerclust import lazy

# What users with more than a few rows cache, whatever their rows are like.
MODES = {
    "in place": {"WORTH_BOXES": 10**9, "MANY_FEATURES": 10**9},
    "with bounds": {"WORTH_BOXES": 10**9, "MANY_FEATURES": 1},
    "in boxes": {"WORTH_BOXES": 1, "FEW_FEATURES": 10**9},
}


def use_mode(patch, mode, few=2):
    """Have users with at least `few` rows assign in one mode."""
    for name, value in (MODES[mode] | {"WORTH_REMEMBERING": few}).items():
        patch.setattr(lazy, name, value)
