"""The command line: parses and prints. What is heavy is imported inside the commands."""

from __future__ import annotations

from peerclust.cli import experiment, fit, peer, site
from peerclust.cli.app import app

__all__ = ["app", "experiment", "fit", "main", "peer", "site"]


def main() -> None:
    """Run the command line."""
    app(prog_name="peerclust")
