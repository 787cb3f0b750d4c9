"""The command line: parses options and prints. Heavy modules are imported inside the commands."""

from __future__ import annotations

import sys
import traceback

from peerclust.cli import demo, exit_codes, fit, peer_run, peer_setup, reproduce, warm_up
from peerclust.cli.app import app

__all__ = ["app", "demo", "fit", "main", "peer_run", "peer_setup", "reproduce", "warm_up"]


def main() -> None:
    """Run the command line."""
    try:
        app(prog_name="peerclust")
    except Exception as error:
        traceback.print_exc()
        where = exit_codes.where("a crash")
        print(
            f"peerclust crashed: {type(error).__name__}. Please report what is above. ({where})",
            file=sys.stderr,
        )
        sys.exit(exit_codes.CRASH)
