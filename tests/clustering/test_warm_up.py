"""After a warm-up nothing has to be compiled."""

import pytest

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


def test_a_warm_up_compiles_whatever_the_mode_is(monkeypatch):
    monkeypatch.setattr(module, "_SHAPES", [(6, 2)])
    modes = set()
    with kernels.use_mode("never"):
        module.warm_up(lambda line: modes.add(kernels.compile_mode()))
        assert kernels.compile_mode() == "never"
    assert modes == {"always"}
    assert kernels.assign_small._load().signatures
