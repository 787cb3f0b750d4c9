"""Graphs from files."""

import re

import networkx as nx
import pytest
from graph_examples import CITIES

from peerclust import graphs
from peerclust.errors import GraphError, ParameterError


@pytest.fixture
def write(tmp_path):
    def write(text, name="net.txt"):
        file = tmp_path / name
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    return write


@pytest.mark.parametrize(
    "text",
    [
        "rome oslo\noslo bern\nbern rome\nbern kyiv\n",
        "# sites\r\nrome,oslo\r\noslo , bern\r\n\r\nbern\trome # twice\r\nbern,kyiv",
        "\ufeffrome oslo\noslo bern\nrome bern\n  bern   kyiv\nkyiv bern\nkyiv kyiv",
    ],
)
def test_text_files_hold_two_names_a_line(write, text):
    graph = graphs.from_file(write(text))
    assert graph == graphs.from_edges(CITIES)
    assert graph.names == ("bern", "kyiv", "oslo", "rome")
    assert graph.name == "from_file('net.txt')"
    assert graphs.from_file(str(write(text))) == graph


def test_names_between_commas_may_have_blanks_and_accents(write):
    assert graphs.from_file(write("site A, site B\nsite B, Zürich\n")).names == (
        "Zürich",
        "site A",
        "site B",
    )


def test_files_of_the_numbers_0_to_m_minus_1_have_no_names(write):
    text = "".join(f"{user} {(user + 1) % 12}\n" for user in range(12))
    graph = graphs.from_file(write(text))
    assert graph.names is None
    assert graph == graphs.ring(12)


@pytest.mark.parametrize("kind", ["graphml", "gml", "GML"])
@pytest.mark.parametrize(
    "twin", [nx.karate_club_graph(), nx.Graph(CITIES)], ids=["numbers", "names"]
)
def test_files_that_networkx_wrote_are_read_back(tmp_path, kind, twin):
    file = tmp_path / f"net.{kind}"
    {"graphml": nx.write_graphml, "gml": nx.write_gml}[kind.lower()](twin, file)
    graph = graphs.from_file(file)
    assert graph == graphs.from_networkx(twin)
    assert graph.names == graphs.from_networkx(twin).names


def test_gml_without_labels_is_named_by_its_ids(write):
    node, edge = "node [ id {} ]", "edge [ source {} target {} ]"
    body = [*map(node.format, (1, 2, 3)), edge.format(1, 2), edge.format(2, 3)]
    graph = graphs.from_file(write(f"graph [ {' '.join(body)} ]", "net.gml"))
    assert graph.names == ("1", "2", "3")
    assert graph == graphs.path(3)


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("a b\nb c d\n", "'b c d' in line 2."),
        ("# one\n\na\n", "'a' in line 3."),
        ("a,b\nb,\n", "'b,' in line 2."),
        ("a,b,c\n", "'a,b,c' in line 1."),
        (",\n", "',' in line 1."),
        (b"a b\nb \xff\xfe\n", "'b \ufffd\ufffd' in line 2."),
    ],
)
def test_malformed_lines_are_refused_by_number(write, text, got):
    must = "must have two names per line in UTF-8, separated by whitespace or a comma"
    file = write(text)
    message = f"The graph file {file} {must}. Got {got}"
    with pytest.raises(GraphError, match=f"^{re.escape(message)}$"):
        graphs.from_file(file)


@pytest.mark.parametrize(
    ("text", "name", "where"),
    [
        ("<graphml>\n<node", "net.graphml", "line 2"),
        ("", "net.graphml", "line 1"),
        ("graph [\n  node [ id 0 ]\n  edge = ]", "net.gml", r"\(3, 8\)"),
        ("", "net.gml", "input contains no graph"),
        ("graph [ node [ id 0 label 1 label 2 ] ]", "net.gml", "unhashable"),
    ],
)
def test_malformed_graphml_and_gml_are_refused(write, text, name, where):
    with pytest.raises(GraphError, match=rf"must be well-formed (graphml|gml)\. Got: .*{where}"):
        graphs.from_file(write(text, name))


def test_files_that_cannot_be_read_are_refused(tmp_path):
    for bad in (tmp_path / "none.txt", str(tmp_path / "none.gml"), tmp_path, 3, None, "a\0b"):
        with pytest.raises(ParameterError, match="`path` of from_file must be a readable file"):
            graphs.from_file(bad)


def test_files_without_a_connected_graph_are_refused(write):
    with pytest.raises(GraphError, match="must name at least one user"):
        graphs.from_file(write("# nothing\n"))
    with pytest.raises(GraphError, match=r"net\.txt must connect all users: user d cannot reach"):
        graphs.from_file(write("a b\nb c\nd d\n"))
