"""Every backend runs the conformance list as PennyLane does without compilation."""

import ast
import itertools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.conformance.circuits import CIRCUITS, N_WIRES
from tests.conformance.toy_backend import ToyDevice

import bellhop

ANGLE, POINTS = 0.4, jnp.array([0.4, 0.9])
BACKENDS = {
    "toy": ToyDevice,
    "compiled": lambda wires: qml.device("lightning.qubit", wires=wires),
    "arrays": lambda wires: qml.device("default.mixed", wires=wires),
    "default.qubit": lambda wires: qml.device("default.qubit", wires=wires),
}
# What a backend does not support, with the reason.
REFUSED = {("arrays", "measure state"): "default.mixed returns a density matrix"}
GROUPS = (
    list(itertools.batched(CIRCUITS, 12))
    if hasattr(itertools, "batched")
    else [list(CIRCUITS)[k : k + 12] for k in range(0, len(CIRCUITS), 12)]
)
NAMES = [
    pytest.param(group, id=group[0], marks=[] if k == 9 else pytest.mark.matrix)
    for k, group in enumerate(GROUPS)
]


class _Reference:
    """PennyLane's control flow and measurement, under the names of Bellhop's."""

    for_loop, while_loop, measure = qml.for_loop, qml.while_loop, staticmethod(qml.measure)

    @staticmethod
    def cond(condition: Any, true: Any, false: Any = None) -> Any:
        return qml.cond(condition, true, false)


def qnode(name: str, backend: str) -> Any:
    return qml.QNode(lambda x: CIRCUITS[name](x, bellhop), BACKENDS[backend](N_WIRES))


def expected(name: str, x: float) -> Any:
    method = "tree-traversal" if name.startswith("outcome") else None
    circuit = lambda x: CIRCUITS[name](x, _Reference)
    return qml.QNode(circuit, qml.device("default.qubit", N_WIRES), mcm_method=method)(x)


def supported(names: Any, backend: str) -> list[str]:
    return [name for name in names if (backend, name) not in REFUSED]


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_values(names, backend, tmp_path):
    names = supported(names, backend)
    program = bellhop.qjit(lambda x: {name: qnode(name, backend)(x) for name in names})
    found = program(ANGLE)
    # `load` accepts what is compiled, without trust.
    program.save(tmp_path / "circuits.bellhop")
    bellhop.load(tmp_path / "circuits.bellhop")
    for name in names:
        for one, other in zip(
            jax.tree.leaves(found[name]), jax.tree.leaves(expected(name, ANGLE)), strict=True
        ):
            np.testing.assert_allclose(one, other, atol=1e-10, err_msg=name)


def mean_of(name: str, backend: str) -> Any:
    return lambda x: jnp.sum(jnp.real(jnp.asarray(jax.tree.leaves(qnode(name, backend)(x))[0])))


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_and_batches(names, backend):
    # A while_loop is differentiated in reverse mode by its checkpoints, not inside of other traces.
    names = [
        name for name in supported(names, backend) if name not in ("while loop", "measure state")
    ]
    functions = {name: mean_of(name, backend) for name in names}
    gradients = bellhop.qjit(lambda x: {n: bellhop.grad(f)(x) for n, f in functions.items()})(ANGLE)
    batches = bellhop.qjit(lambda x: {n: bellhop.vmap(f)(x) for n, f in functions.items()})(POINTS)
    h = 1e-5
    for name in names:
        value = lambda x, n=name: float(np.sum(np.real(jax.tree.leaves(expected(n, x))[0])))
        slope = (value(ANGLE + h) - value(ANGLE - h)) / (2 * h)
        np.testing.assert_allclose(gradients[name], slope, atol=1e-7, err_msg=name)
        np.testing.assert_allclose(
            batches[name], [value(float(p)) for p in POINTS], atol=1e-10, err_msg=name
        )


def test_the_toy_backend_imports_nothing_else_of_bellhop():
    source = Path(__file__).with_name("toy_backend.py").read_text()
    modules = {
        node.module for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)
    }
    ours = {module for module in modules if module.startswith("bellhop")}
    assert ours
    assert all(module.startswith("bellhop.circuits.ir.") for module in ours)
    assert len(source.splitlines()) <= 150
    assert len(CIRCUITS) >= 150
