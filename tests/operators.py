"""The operators' table: what each site says last in each situation, with which exit code, and when.

    python -m tests.operators [--only NAME]

Run from the root of the repository. It prints Markdown, and exits with 1 if a line is not as
`operator_situations` expects it.
"""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory


def main() -> int:
    """Run the situations, and print the table."""
    sys.path.insert(0, str(Path(__file__).parent))
    from operator_situations import HEAD, SITUATIONS

    parser = argparse.ArgumentParser(prog="python -m tests.operators")
    parser.add_argument("--only", metavar="NAME", default="", help="situations with this in them")
    only = parser.parse_args().only
    print(HEAD)
    rows = []
    for each in SITUATIONS:
        if only in each.name:
            with TemporaryDirectory(prefix="operators-") as directory:
                found = each.run(Path(directory))
            print(*found, sep="\n", flush=True)
            rows += found
    return 0 if rows and all(row.is_good for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
