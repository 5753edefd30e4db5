"""Circuits that tests of batches share, and references for them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

LIGHTNING = qml.device("lightning.qubit", wires=3)
DEFAULT = qml.device("default.qubit", wires=3)


def gates(x, y):
    qml.RX(x[0], wires=0)
    qml.CRY(x[1] * y, wires=[0, 1])
    qml.RZ(jnp.sin(y), wires=1)
    qml.CNOT(wires=[1, 2])
    qml.Rot(y, x[0], x[1], wires=2)


def several(x, y):
    gates(x, y)
    hamiltonian = qml.Hamiltonian([0.3, -0.7], [qml.X(0) @ qml.Z(2), qml.Y(1)])
    return qml.expval(hamiltonian), qml.probs(wires=[2, 0]), qml.expval(qml.Z(1))


def weighted(x, y):
    """Observables whose coefficients and matrix are other ones in each row."""
    gates(x, y)
    matrix = jnp.array([[y, x[0]], [x[0], -y]])
    hamiltonian = qml.Hamiltonian(x, [qml.X(0), qml.Z(1) @ qml.Y(2)])
    return qml.expval(hamiltonian), qml.expval(qml.Hermitian(matrix, wires=1))


def compiled(function, **options):
    return qml.QNode(function, LIGHTNING, **options)


def reference(function):
    return qml.QNode(function, DEFAULT, diff_method="backprop")


def derived(derivative, function, **options):
    """Return a derivative of the reference; it alone is compiled, by JAX, to be fast."""
    return jax.jit(derivative(reference(function), **options))


def looped(function, in_axes, out_axes, args):
    """Stack what a function returns for each row."""
    sizes = [np.shape(a)[axis] for a, axis in zip(args, in_axes, strict=True) if axis is not None]
    rows = [
        function(
            *(
                a if axis is None else jnp.take(a, row, axis)
                for a, axis in zip(args, in_axes, strict=True)
            )
        )
        for row in range(sizes[0])
    ]
    return jax.tree.map(lambda *leaves: np.stack(leaves, out_axes), *rows)


def random(*shape):
    return jnp.asarray(np.random.default_rng(7).uniform(-3, 3, shape))


X, Y = random(5, 2), random(5)


def rows_of(function: Any) -> list[int]:
    """Return the rows of each batch in a compiled program."""
    parts = function.mlir_opt.split("rows = ")[1:]
    return [int(part.split(" ")[0]) for part in parts if not part.startswith("0 ")]


def one_value(x, y):
    gates(x, y)
    return qml.expval(qml.X(0) @ qml.Z(2) + 0.5 * qml.Y(1))
