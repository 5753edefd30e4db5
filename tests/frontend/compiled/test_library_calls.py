"""Errors of functions of PennyLane and SciPy that read a traced argument name the user's call."""

import importlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
import scipy.linalg
import scipy.optimize
import scipy.special

import bellhop

HERE = re.escape(__file__)
DEVICE = qml.device("lightning.qubit", wires=4)
BASES = np.array([[1, 1], [0, 0]])


@qml.qnode(DEVICE)
def superposition(bases):
    qml.Superposition(np.sqrt([0.5, 0.5]), bases, [0, 1], 2)
    return qml.probs(wires=[0, 1])


@qml.qnode(DEVICE)
def allocation(n):
    with qml.allocate(n) as wires:
        qml.X(wires[0])
    return qml.expval(qml.Z(0))


def raise_error(function, *args):
    """Run a function that must fail on a traced value; return its message and Bellhop's note."""
    with pytest.raises((TypeError, jax.errors.ConcretizationTypeError)) as raised:
        bellhop.qjit(function)(*args)
    (note,) = (note for note in raised.value.__notes__ if note.startswith("bellhop: "))
    return str(raised.value), note


def test_a_template_that_branches_on_a_traced_argument():
    message, note = raise_error(superposition, jnp.asarray(BASES))
    assert "tracing the function superposition at " in message
    assert "quantum_function.py" not in message
    assert re.search(
        rf"at {HERE}:\d+, qml.Superposition branches in Python on the value of the traced argument "
        r"bases\. Pass a Python number or a NumPy array, or use another operation\. .* "
        r"static: qjit\(static_argnums=",
        note,
    )


def test_wires_of_a_traced_number_are_allocated():
    _, note = raise_error(allocation, 1)
    assert f"{__file__}:" in note
    assert "qml.allocate needs the value of the traced argument num_wires." in note


@pytest.mark.parametrize(
    ("function", "advice"),
    [
        (
            lambda x: scipy.special.gamma(x),
            "scipy.special.gamma needs the value of a traced argument. Write "
            "jax.scipy.special.gamma(x) (import jax.scipy) in place of scipy.special.gamma(x), or",
        ),
        (
            lambda x: scipy.linalg.expm(x),
            "Write jax.scipy.linalg.expm(x) (import jax.scipy) in place of scipy.linalg.expm(x)",
        ),
        (lambda x: np.linalg.norm(x), "Write jnp.linalg.norm(x) in place of np.linalg.norm(x), or"),
        (
            lambda x: scipy.special.voigt_profile(x, 1, 1),
            "Call scipy.special.voigt_profile outside of the program, or call it when the program",
        ),
        (
            lambda x: scipy.optimize.minimize(lambda y: y**2, x),
            "Call scipy.optimize.minimize outside of the program with a compiled function, or",
        ),
    ],
    ids=["gamma", "expm", "norm", "voigt_profile", "minimize"],
)
def test_functions_of_scipy_and_numpy(function, advice):
    _, note = raise_error(function, jnp.ones((2, 2)))
    assert re.search(rf"at {HERE}:\d+, \w+\.", note)
    assert advice in note


def test_functions_of_installed_packages(tmp_path, monkeypatch):
    """The line is the user's, not the package's line, which calls NumPy."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "plots.py").write_text(
        "import numpy\n\nclass Axes:\n    def plot(self, *lines):\n"
        "        return [numpy.asarray(line) for line in lines]\n"
    )
    monkeypatch.syspath_prepend(folder)
    axes = importlib.import_module("plots").Axes()
    _, note = raise_error(lambda x: axes.plot(x), 1.0)
    assert re.search(
        rf"at {HERE}:\d+, axes.plot needs the value of a traced argument \(.*plots.py:5\)\. Call "
        r"axes.plot outside of the program, or call it when the program runs",
        note,
    )


def test_an_error_that_a_library_raises_from_the_error_of_jax():
    with pytest.raises(ValueError, match="must return a scalar") as raised:
        bellhop.qjit(lambda x: scipy.optimize.minimize(lambda y: y[0] + x, np.ones(1)).x)(1.0)
    assert "Call scipy.optimize.minimize outside of" in "\n".join(raised.value.__notes__)


def test_names_of_imported_functions_and_other_lines():
    """A function that is imported by name, in a call over several lines; and no call at all."""
    from scipy.special import gamma

    _, note = raise_error(
        lambda x: gamma(
            x,
        ),
        1.0,
    )
    assert "Write jax.scipy.special.gamma(x)" in note
    _, note = raise_error(lambda x: 1 if x else 2, 1.0)
    assert "bellhop.cond, qml.cond" in note


def test_calls_in_code_that_autograph_generated():
    def branch(x):
        return scipy.special.gamma(x) if x > 0 else x

    with pytest.raises(jax.errors.TracerArrayConversionError) as raised:
        bellhop.qjit(branch, autograph=True)(1.0)
    assert "Write jax.scipy.special.gamma(x) (import" in "\n".join(raised.value.__notes__)
