"""gradient_kwargs: each option of PennyLane's does what it says, warns or is an error."""

from typing import Any

import numpy as np
import pennylane as qml
import pytest

import bellhop

METHODS = ["parameter-shift", "finite-diff", "spsa", "hadamard", "adjoint", "backprop", "best"]
DEVICES = ["lightning.qubit", "default.qubit"]


def gradient(method: str, options: dict[str, Any], device: str = "lightning.qubit") -> Any:
    @qml.qnode(qml.device(device, wires=2), diff_method=method, gradient_kwargs=options)
    def circuit(x: Any) -> Any:
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    return bellhop.qjit(bellhop.grad(circuit))(0.4)


def _sample(*_: Any, rng: Any) -> Any:
    """Stand for a sampler of the user's."""
    return rng


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("parameter-shift", {"broadcast": True}),
        ("parameter-shift", {"fallback_fn": qml.gradients.finite_diff}),
        ("parameter-shift", {"f0": np.cos(0.4)}),
        ("finite-diff", {"validate_params": False}),
        ("finite-diff", {"f0": np.cos(0.4)}),
        ("spsa", {"validate_params": False}),
        ("best", {"h": 0.1}),
        ("best", {"broadcast": True}),
        ("adjoint", {"shifts": [(0.3,)]}),
    ],
    ids=str,
)
@pytest.mark.parametrize("device", DEVICES)
def test_an_option_without_an_effect_is_warned_of(
    method: str, options: dict[str, Any], device: str
) -> None:
    (name,) = options
    with pytest.warns(UserWarning, match=f"option {name} of gradient_kwargs has no effect"):
        found = gradient(method, options, device)
    np.testing.assert_allclose(found, -np.sin(0.4), atol=1e-5)


@pytest.mark.parametrize(
    ("method", "options", "effect"),
    [
        ("finite-diff", {"n": 2}, "the option would return the n-th derivative"),
        ("spsa", {"n": 2}, "the option would return the n-th derivative"),
        pytest.param(
            "spsa", {"sampler": _sample}, "would draw other directions", id="spsa-sampler"
        ),
        ("parameter-shift", {"gradient_recipes": ([[0.5, 1, 1.6]],)}, "replace the shift rules"),
        ("parameter-shift", {"argnum": [0]}, "with respect to all parameters but argnum to zero"),
    ],
    ids=str,
)
@pytest.mark.parametrize("device", DEVICES)
def test_an_option_that_would_change_the_result_is_an_error(
    method: str, options: dict[str, Any], effect: str, device: str
) -> None:
    with pytest.raises(bellhop.CompileError, match=f"QNode 'circuit' .*{effect}"):
        gradient(method, options, device)


@pytest.mark.parametrize("method", METHODS)
def test_an_option_that_pennylane_does_not_have_is_an_error(method: str) -> None:
    with pytest.raises(bellhop.CompileError, match=f"unknown option step, .*'{method}'"):
        gradient(method, {"step": 0.1}, "default.qubit")


def test_values_that_change_nothing_are_taken() -> None:
    options = {"n": 1, "argnum": None, "f0": None, "strategy": "center", "approx_order": 2}
    np.testing.assert_allclose(gradient("finite-diff", options), -np.sin(0.4), atol=1e-6)
