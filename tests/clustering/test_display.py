"""A solution and its certificate are shown in words, and as HTML that needs nothing else."""

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import peerclust as pc

RNG = np.random.default_rng(0)
PARTS = [RNG.normal(size=(n, 3)) for n in (1200, 0, 9)]


@pytest.fixture(scope="module")
def solution():
    return pc.cluster(PARTS, n_clusters=2, rho=20, rounds=30, random_state=0, scale="standard")


class Cells(HTMLParser):
    """The texts of all cells, and the tags that are open in the end."""

    def __init__(self, html):
        super().__init__()
        self.cells, self.open, self.attributes = [], [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.attributes += [name for name, _ in attrs]
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] in ("td", "th"):
            self.cells[-1] += data


def test_the_html_of_a_solution_has_its_status_centers_sizes_and_certificate(solution):
    page = Cells(solution._repr_html_())
    assert page.open == []
    assert str(solution.status) in page.cells
    for value in solution.consensus.ravel():
        assert f"{value:.4g}" in page.cells
    for k in range(2):
        size = sum(int((labels == k).sum()) for labels in solution.labels)
        assert f"{size:,}" in page.cells
    assert set(Cells(solution.certificate._repr_html_()).cells) <= set(page.cells)


def test_the_html_loads_nothing_and_fits_any_background(solution):
    html = solution._repr_html_()
    assert set(Cells(html).attributes) == {"class"}
    for word in ("http", "url(", "@import", "<script", "<img", "background", " color"):
        assert word not in html
    assert len(html) < 3000


def test_names_from_a_file_cannot_inject_html(solution):
    names = ("<script>alert(1)</script>", "a & b", "c")
    html = replace(solution, feature_names=names)._repr_html_()
    assert "<script" not in html
    assert {*names} <= set(Cells(html).cells)


def test_long_tables_are_cut_and_say_how_long_they_are():
    rows = RNG.normal(size=(60, 30))
    solution = pc.cluster([rows], n_clusters=25, rounds=2, tol=0, init=rows[:25])
    page = Cells(solution._repr_html_())
    assert {"... 30 in all", "... 25 in all", "feature 9", "19"} <= set(page.cells)
    assert not {"feature 10", "24"} & set(page.cells)


def test_a_solution_in_lists_is_one_line_and_printed_a_few(solution):
    assert repr(solution).startswith("<Solution: m=3, K=2, d=3, ")
    assert "\n" not in repr(solution)
    lines = str(solution).splitlines()
    assert lines[0] == "Solution"
    assert 5 < len(lines) < 15
    assert any(str(solution.status) in line for line in lines)
    assert any("2 in 3 features" in line for line in lines)


def test_a_certificate_shows_each_of_its_numbers(solution):
    fields = vars(solution.certificate)
    numbers = {name: 100 + i for i, name in enumerate(fields)} | {"disagreement_exact": False}
    text = repr(replace(solution.certificate, **numbers)).replace(",", "")
    for name, number in numbers.items():
        assert name == "disagreement_exact" or str(number) in text, name
    assert "upper bounds" in text


def test_a_site_that_does_not_know_all_numbers_still_shows_its_solution(solution):
    unknown = dict.fromkeys(("messages", "bytes", "setup_bytes", "largest_weight"), float("nan"))
    certificate = replace(solution.certificate, **unknown)
    site = replace(solution, certificate=certificate, rho=2.5, why={"solver": "agreed"})
    assert "2.5: agreed" in Cells(site._repr_html_()).cells
    assert "bytes between" not in str(site)
    assert "nan messages" in repr(certificate)


def test_the_rounds_of_a_search_are_among_all_rounds(solution):
    effort = {"rounds": 4, "search_rounds": 9, "moves": 2, "moves_kept": 1}
    certificate = replace(solution.certificate, **effort)
    cells = Cells(replace(solution, certificate=certificate)._repr_html_()).cells
    assert cells[cells.index("rounds") + 1] == "13"
    assert cells[cells.index("search") + 1] == (
        "1 of 2 moves of a center lowered the cost; with the last run they took 9 of these rounds"
    )
