"""Print the oldest versions of what users need that pyproject.toml allows, as constraints for pip.

What only developers need (the extra `dev`) is left to pip, which takes the newest that fits.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path


def lowest(requirements: list[str]) -> list[str]:
    """Return `name==version` for each requirement `name>=version`."""
    found = (re.fullmatch(r"([\w.-]+)>=([\w.]+)", requirement) for requirement in requirements)
    return [f"{match[1]}=={match[2]}" for match in found if match]


if __name__ == "__main__":
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for group in (project["dependencies"], *(extras[name] for name in extras if name != "dev")):
        print("\n".join(lowest(group)))
