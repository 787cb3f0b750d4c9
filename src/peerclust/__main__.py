"""`peerclust` and `python -m peerclust`: the command line."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; Ctrl-C while it is imported is one sentence, too."""
    try:
        from peerclust import cli

        cli.main()
    except KeyboardInterrupt:
        from peerclust.cli import exit_codes

        print(exit_codes.describe_interrupt(), file=sys.stderr)
        sys.exit(exit_codes.INTERRUPTED)


if __name__ == "__main__":
    main()
