"""The modes of assignment, by what users cache about their rows, for tests that try them all."""

from peerclust.users import assigners

# What users with more than a few rows cache, whatever their rows are like.
MODES = {
    "in place": {"MIN_ROWS_BOXED": 10**9, "MANY_FEATURES": 10**9},
    "with bounds": {"MIN_ROWS_BOXED": 10**9, "MANY_FEATURES": 1},
    "in boxes": {"MIN_ROWS_BOXED": 1, "FEW_FEATURES": 10**9},
}


def use_mode(patch, mode, few=2):
    """Have users with at least `few` rows assign in one mode."""
    for name, value in (MODES[mode] | {"MIN_ROWS_CACHED": few}).items():
        patch.setattr(assigners, name, value)
