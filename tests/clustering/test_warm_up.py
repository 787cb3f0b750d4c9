"""After a warm-up nothing has to be compiled."""

import numpy as np
import pytest

import peerclust as pc
from peerclust import kernels
from peerclust.clustering import warm_up as module


@pytest.mark.slow
def test_a_warm_up_compiles_every_kernel_for_both_types_of_rows():
    lines = []
    module.warm_up(lines.append, float32=True)
    assert lines[0] == "1 of 32: 700 rows with 2 features, float64, kmeans"
    assert len(lines) == 32
    loops = {name: vars(kernels)[name] for name in kernels.__all__}
    kept = {name: each for name, each in loops.items() if isinstance(each, kernels.Kernel)}
    missing = [name for name, each in kept.items() if not each._load().signatures]
    assert missing == []
    for name in ("assign", "assign_boxes", "assign_bounded", "nearest", "sort_into_boxes"):
        types = {str(each).count("float32") > 0 for each in kept[name]._load().signatures}
        assert types == {False, True}, name


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(900, 2), (300, 9), (300, 24), (8, 3)])
def test_after_a_warm_up_runs_on_float64_rows_compile_nothing(shape):
    module.warm_up(lambda _: None)
    before = {kernel: set(kernel._compiled) for kernel in kernels.Kernel.all}
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=shape) for _ in range(4)]
    weights = [rng.uniform(1, 2, shape[0]) for _ in range(4)]
    with kernels.use_mode("always"):
        for solver, loss in (("exact", "kmeans"), ("accelerated", "fair"), ("dgc", "logistic")):
            pc.cluster(parts, n_clusters=3, solver=solver, loss=loss, rounds=3000, random_state=1)
            pc.cluster(parts, n_clusters=3, loss=loss, weights=weights, random_state=1)
    assert {kernel: set(kernel._compiled) for kernel in kernels.Kernel.all} == before


def test_a_warm_up_compiles_whatever_the_mode_is(monkeypatch):
    monkeypatch.setattr(module, "_SHAPES", [(6, 2)])
    modes = set()
    with kernels.use_mode("never"):
        module.warm_up(lambda line: modes.add(kernels.compile_mode()))
        assert kernels.compile_mode() == "never"
    assert modes == {"always"}
    assert kernels.assign_small._load().signatures
