"""The lines that the architecture draws: who may import what, what is public, what links exist."""

import ast
import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

import peerclust

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "peerclust"
MODULES = sorted(SOURCE.rglob("*.py"))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])

# A file (or folder) and what it may import of peerclust; * is anything.
BELOW = {
    "errors.py": set(),
    "names.py": set(),
    "files.py": {"errors"},
    "validation.py": {"names", "errors"},
    "kernels": {"kernels"},
    "threads.py": set(),
    "losses.py": {"names", "kernels", "bregman", "errors", "validation"},
    "distances.py": {"names", "kernels", "errors", "validation"},
    "bregman.py": {"kernels", "distances", "errors", "validation"},
    "graphs": {"graphs", "names", "errors", "validation"},
    "distinct.py": {"kernels"},
    "tasks.py": {"kernels"},
    "assigning.py": {"kernels", "tasks", "threads"},
    "layout.py": {"assigning", "kernels", "tasks", "threads"},
    "lazy.py": {"assigning", "kernels", "layout", "tasks", "threads"},
    "nearest.py": {"kernels", "threads", "distances", "bregman"},
    "users.py": {
        "assigning",
        "distinct",
        "lazy",
        "tasks",
        "nearest",
        "kernels",
        "threads",
        "losses",
        "distances",
        "bregman",
        "errors",
    },
    "recycling.py": set(),
    "programs": {"programs", "users", "nearest", "bregman", "kernels", "recycling", "threads"},
    "stopping.py": set(),
    "crew.py": set(),
    "share.py": {"crew", "graphs", "kernels", "metrics"},
    "parts.py": {"crew", "fingerprint", "share", "graphs", "names", "errors", "validation"},
    "fingerprint.py": {"crew", "graphs", "names", "errors"},
    "checkpoint.py": {
        "crew",
        "files",
        "programs",
        "runtimes",
        "stopping",
        "users",
        "errors",
        "validation",
    },
    "moments.py": {"programs", "runtimes", "kernels", "tasks", "users", "errors"},
    "pilot.py": {"problem", "runtimes", "solvers", "theory", "tracing"},
    "solvers.py": {
        "problem",
        "programs",
        "graphs",
        "bregman",
        "names",
        "errors",
        "theory",
        "validation",
    },
    "metrics.py": {"users", "losses", "distances", "bregman", "errors", "validation"},
    "partition.py": {"errors", "validation"},
    "datasets": {"datasets", "partition", "names", "errors", "validation"},
    "baselines": {
        "names",
        "baselines",
        "programs",
        "runtimes",
        "users",
        "nearest",
        "graphs",
        "losses",
        "distances",
        "theory",
        "errors",
        "validation",
    },
    "paper": {
        "baselines",
        "clustering",
        "datasets",
        "errors",
        "files",
        "graphs",
        "initialize",
        "losses",
        "machine",
        "metrics",
        "names",
        "paper",
        "partition",
        "programs",
        "report",
        "runtimes",
        "share",
        "solution",
        "users",
        "validation",
    },
}

# A package and the only places that may import it.
OUTSIDE = {
    "numba": {"kernels"},
    "matplotlib": {"report"},
    "polars": {"tables"},
    "typer": {"cli"},
    "networkx": {"graphs"},
    # testing has clients that a peer must reject.
    "ssl": {"runtimes", "testing"},
    "cryptography": {"runtimes"},
    "websockets": {"runtimes", "testing"},
    "msgspec": {"runtimes"},
    "mpi4py": {"runtimes"},
}


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def place(path):
    return path.relative_to(SOURCE).parts[0]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    ours = {name.split(".")[1] for name in imports(path) if name.startswith("peerclust.")}
    ours &= {p.stem for p in SOURCE.iterdir()}
    if place(path) in BELOW:
        assert ours <= BELOW[place(path)] | {path.stem}
    # `nursery` starts processes as a shell does.
    if path.name not in ("__main__.py", "nursery.py") and place(path) != "cli":
        assert "cli" not in ours
    assert "estimators" not in ours or place(path) in ("__init__.py", "estimators")


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_heavy_packages_are_imported_in_one_place(path):
    packages = {name.split(".")[0] for name in imports(path)}
    for package, places in OUTSIDE.items():
        assert package not in packages or place(path) in places


def test_every_public_name_can_be_had_and_is_documented():
    for name in peerclust.__all__:
        assert getattr(peerclust, name).__doc__, name
    assert set(peerclust.__all__) <= set(dir(peerclust))
    with pytest.raises(AttributeError, match="no attribute 'clustre'"):
        peerclust.clustre  # noqa: B018


def test_cluster_stays_a_function_whatever_is_imported_first():
    code = "import peerclust.estimators, peerclust; print(callable(peerclust.cluster))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "True"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_links_in_the_documents_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#\s]+)", path.read_text()):
        if not target.startswith(("http:", "https:", "mailto:")):
            assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_python_in_the_documents_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL):
        if ">>>" in block:
            test = doctest.DocTestParser().get_doctest(block, names, path.name, str(path), 0)
            flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
            runner = doctest.DebugRunner(optionflags=flags)
            runner.run(test, clear_globs=False)
            names = test.globs
        else:
            exec(compile(block, str(path), "exec"), names)
