"""The lines that the architecture draws: who may import what, what is public, what links exist."""

import ast
import doctest
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import peerclust

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "peerclust"
MODULES = sorted(SOURCE.rglob("*.py"))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])

# What starts the command line as a shell does: the only modules below cli that import it.
STARTS_CLI = {"__main__.py", "testing/preload.py"}

# A package and the only entries that may import it.
OUTSIDE = {
    "numba": {"kernels"},
    "matplotlib": {"report", "paper", "plots"},
    "polars": {"tables"},
    "typer": {"cli"},
    "networkx": {"graphs"},
    "ssl": {"runtimes"},
    "cryptography": {"runtimes"},
    "websockets": {"runtimes"},
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


def entry(path):
    """Return the file or folder directly under peerclust that a module belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def drawn_entries():
    """Return the entries of the diagram in docs/architecture.md, top line first."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    diagram = re.search(r"## The tree\n.*?```\n(.*?)```", text, flags=re.DOTALL).group(1)
    return [line.split()[0].rstrip("/") for line in diagram.splitlines()]


def test_the_diagram_in_the_docs_has_every_entry_of_the_tree():
    hidden = {"__init__", "__main__", "__pycache__", "py"}
    entries = {path.name.split(".")[0] for path in SOURCE.iterdir()} - hidden
    assert sorted(drawn_entries()) == sorted(entries)


def test_an_entry_imports_only_from_lines_below_its_own():
    line = {name: number for number, name in enumerate(drawn_entries())}
    offenders = []
    for path in MODULES:
        here = entry(path)
        if here == "__init__" or str(path.relative_to(SOURCE)) in STARTS_CLI:
            continue
        ours = {name.split(".")[1] for name in imports(path) if name.startswith("peerclust.")}
        wrong = [name for name in sorted(ours & set(line) - {here}) if line[name] <= line[here]]
        offenders += [f"{path.relative_to(SOURCE)} imports {name}" for name in wrong]
    assert offenders == []


def test_programs_know_neither_graphs_nor_runtimes():
    line = {name: number for number, name in enumerate(drawn_entries())}
    assert line["programs"] > max(line["graphs"], line["runtimes"])


def test_heavy_packages_are_imported_in_one_place():
    offenders = [
        f"{path.relative_to(SOURCE)} imports {package}"
        for path in MODULES
        for package in sorted({name.split(".")[0] for name in imports(path)})
        if entry(path) not in OUTSIDE.get(package, {entry(path)})
    ]
    assert offenders == []


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


def anchors(path):
    """Return the anchors of a Markdown file's headings, as a web page of it has them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(), flags=re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


def leads_somewhere(path, target, anchor):
    file = path.parent / target if target else path
    return file.exists() and (not anchor or anchor in anchors(file))


def test_links_in_the_documents_lead_somewhere():
    broken = [
        f"{path.name}: {target}#{anchor}"
        for path in DOCUMENTS
        for target, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", path.read_text())
        if not target.startswith(("http:", "https:", "mailto:"))
        and not leads_somewhere(path, target, anchor)
    ]
    assert broken == []


def test_documents_say_how_to_install_what_their_examples_import():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [each for name, each in project["optional-dependencies"].items() if name != "dev"]
    names = {re.split("[>[]", each)[0] for each in sum(extras, project["dependencies"])}
    known = {*sys.stdlib_module_names, *names, "sklearn", "peerclust"}
    for path in DOCUMENTS:
        text = path.read_text()
        for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
            for name in re.findall(r"^(?:>>> )?(?:import|from) (\w+)", block, flags=re.MULTILINE):
                assert name in known or f"pip install {name}`" in text, f"{path.name}: {name}"


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
