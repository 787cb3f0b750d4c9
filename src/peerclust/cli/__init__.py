"""The command line: parses options and prints. Heavy modules are imported inside the commands."""

from __future__ import annotations

from peerclust.cli import demo, fit, peer_run, peer_setup, reproduce, warm_up
from peerclust.cli.app import app

__all__ = ["app", "demo", "fit", "main", "peer_run", "peer_setup", "reproduce", "warm_up"]


def main() -> None:
    """Run the command line."""
    app(prog_name="peerclust")
