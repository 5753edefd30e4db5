"""The programs of benchmarks/gpu_regions.py compute what their references do."""

import numpy as np
import pytest
from benchmarks import gpu_regions

import bellhop

TINY = gpu_regions.Sizes(megabytes=1, matrix=4, qubits=2, rounds=1)
SAME_VALUES = ("scalar", "same", "in", "out", "matmul")


@pytest.mark.parametrize("name", SAME_VALUES)
def test_values_agree_with_the_reference(name):
    _, build = gpu_regions.CASES[name]
    runs = build(gpu_regions.pick_device(), TINY)
    np.testing.assert_allclose(runs["region"](), runs["by hand"](), rtol=1e-5)


def test_chains_agree_fused_or_not():
    device = gpu_regions.pick_device()
    fused, separate = (
        gpu_regions.CASES[name][1](device, TINY)["region"]() for name in ("fused", "separate")
    )
    np.testing.assert_allclose(fused, separate)


def test_overlap_runs():
    runs = gpu_regions.CASES["overlap"][1](gpu_regions.pick_device(), TINY)
    assert np.isfinite(runs["region"]())
    assert np.isfinite(runs["by hand"]())


@pytest.mark.gpu
@pytest.mark.usefixtures("busy")
def test_programs_that_overlap(monkeypatch):
    from benchmarks import overlap

    monkeypatch.setattr(overlap, "PART", 1)
    x = np.arange(4.0)
    with monkeypatch.context() as patch:
        patch.setattr(bellhop, "accelerate", lambda function, dev: function)
        on_host = overlap.programs()
    for name, (function, _) in overlap.programs().items():
        expected = bellhop.qjit(on_host[name][0])(x)
        np.testing.assert_allclose(bellhop.qjit(function)(x), expected)
