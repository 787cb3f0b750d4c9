"""Tasks and outcomes that are refused."""

from dataclasses import replace

import numpy as np
import pytest

from peerclust import baselines, graphs
from peerclust.baselines.protocol import check_outcome
from peerclust.errors import InputError, ParameterError


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"offsets": np.array([0, 3, 140])}, "The offsets of `parts` must be"),
        ({"rows": [[1.0]]}, "`rows` and `offsets` of Task must be arrays."),
        ({"graph": graphs.ring(9)}, "`graph` of Task must have 5 users. Got 9."),
        ({"start": np.zeros((3, 4))}, "`start` of Task must have the shape (5, K, 4). Got (3, 4)."),
        ({"pooled_start": np.zeros((2, 4))}, "`pooled_start` of Task must have the shape (3, 4)."),
        ({"rho": 0.0}, "`rho` of Task must be a number > 0. Got 0.0."),
        ({"rounds": 0}, "`rounds` of Task must be a whole number >= 1. Got 0."),
    ],
)
def test_a_task_that_does_not_fit_together_is_refused(change, sentence, iris_task):
    with pytest.raises(InputError) as error:
        iris_task(**change)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"labels": None}, "`labels` of the outcome of MINE must be"),
        ({"labels": np.full(150, 9)}, "whole numbers from 0 to 2"),
        ({"centers": np.zeros((3, 4))}, "`centers` of the outcome of MINE must be finite"),
        ({"traffic": None}, "`traffic` of the outcome of MINE must be a Traffic. Got NoneType."),
    ],
)
def test_an_outcome_that_does_not_fit_its_task_is_refused(change, sentence, iris_task):
    task = iris_task(rounds=1)
    outcome = replace(baselines.get("LGC-KM").fit(task), **change)
    with pytest.raises(ParameterError) as error:
        check_outcome(outcome, task, "MINE")
    assert sentence in str(error.value)
    with pytest.raises(ParameterError, match=r"must return an Outcome\. Got NoneType"):
        check_outcome(None, task, "MINE")
