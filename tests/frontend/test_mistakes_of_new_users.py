"""Errors for the first mistakes of users: each names a remedy that works."""

import re

import pennylane as qml
import pytest

import bellhop

SHOTS = re.escape("put @qml.set_shots(100) between @qjit and @qml.qnode")


def square(x):
    return x * x


def test_missing_shots_are_set_on_the_qnode():
    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        qml.RX(x, 0)
        return qml.sample()

    with pytest.raises(bellhop.CompileError, match=f"sample needs shots.*{SHOTS}"):
        circuit(0.3)
    with pytest.raises(
        bellhop.CompileError, match=f"argument shots of the call is traced.*{SHOTS}"
    ) as raised:
        circuit(0.3, shots=100)
    assert "static_arg" not in str(raised.value)


@pytest.mark.parametrize(
    ("function", "unknown", "known"),
    [
        (bellhop.grad, "argnum", "argnums"),
        (bellhop.value_and_grad, "argnum", "argnums"),
        (bellhop.jacobian, "argnum", "argnums"),
        (bellhop.vmap, "in_axis", "in_axes"),
        (bellhop.cond, "true_fun", "true_fn"),
        (bellhop.for_loop, "progres", "progress"),
        (bellhop.while_loop, "progres", "progress"),
    ],
)
def test_misspelled_options_suggest_the_known_option(function, unknown, known):
    name = function.__name__
    with pytest.raises(
        TypeError, match=f"{name} has no option '{unknown}'; there are .*Did you mean '{known}'"
    ):
        function(square, **{unknown: 0})


def test_control_flow_without_bounds_or_condition():
    with pytest.raises(TypeError, match=r"got a function.*@bellhop\.for_loop\(0, n, 1\)"):
        bellhop.for_loop(square)
    with pytest.raises(TypeError, match=r"takes the body.*@bellhop\.for_loop\(0, n, 1\)"):
        bellhop.for_loop(0, 3)(1.0)
    with pytest.raises(TypeError, match=r"takes the body.*@bellhop\.while_loop\(condition\)"):
        bellhop.while_loop(square)(1.0)
    with pytest.raises(TypeError, match=r"takes the body.*@bellhop\.while_loop\(condition\)"):
        bellhop.while_loop(square)(1.0, 2.0)
    with pytest.raises(TypeError, match=r"got a function.*@bellhop\.cond\(x > 0\)"):
        bellhop.cond(square)


def test_accelerate_takes_no_device_of_pennylane():
    with pytest.raises(
        ValueError, match=r"names a PennyLane device.* qml\.device\('lightning\.gpu', wires=n\)"
    ):
        bellhop.accelerate(square, dev="lightning.gpu")


def test_loaded_function_names_the_types_that_it_was_compiled_for(tmp_path):
    saved = bellhop.qjit(square)
    saved(1.0)
    saved.save(tmp_path / "square")
    loaded = bellhop.load(tmp_path / "square")
    with pytest.raises(
        TypeError, match=r"x is of type str.*saved with programs for the arguments \(x: float64"
    ) as raised:
        loaded("a")
    assert "static" not in str(raised.value)
    compiled = saved.lower(1.0).compile()
    with pytest.raises(TypeError, match=r"x is of type str.*compiled for .*float64") as raised:
        compiled("a")
    assert "static" not in str(raised.value)
