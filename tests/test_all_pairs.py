from itertools import combinations, product
from math import prod

import pytest

from all_pairs import by_pairs, pairwise

SIZES = [(2, 2), (3, 1), (1, 1, 1), (3, 3, 3), (17, 3, 2), (2,) * 7, (5, 3, 4, 2, 1), (0, 3), (4,)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_every_value_meets_every_value_of_every_other_parameter(sizes):
    parameters = [[f"{p}.{i}" for i in range(size)] for p, size in enumerate(sizes)]
    cases = pairwise(*parameters)
    for p, q in combinations(range(len(sizes)), 2):
        assert {(case[p], case[q]) for case in cases} == set(product(parameters[p], parameters[q]))
    assert {case[0] for case in cases} == set(parameters[0])
    assert len(cases) == len(set(cases)) <= prod(sizes)


@pytest.mark.parametrize(("sizes", "most"), [((17, 3, 2), 51), ((17, 3, 2, 3), 54), ((2,) * 7, 9)])
def test_cases_are_hardly_more_than_the_two_largest_parameters_need(sizes, most):
    assert len(pairwise(*map(range, sizes))) <= most


def test_cases_are_the_same_each_time():
    assert pairwise("abc", range(4), [None, True]) == pairwise("abc", range(4), [None, True])


@by_pairs(kind=[int, float], text=["1", "2"])
def test_a_test_takes_its_parameters_by_name(kind, text, request):
    assert kind(text) in (1, 2)
    assert request.node.callspec.id == f"{kind.__name__}-{text}"
