"""Effects under ``jax.checkpoint`` happen, whoever uses what is computed beside them."""

import jax
import pennylane as qml
import pytest

import bellhop


@pytest.mark.parametrize(
    "transform",
    [bellhop.qjit, jax.jit, jax.grad, bellhop.grad, lambda f: bellhop.qjit(jax.grad(f))],
    ids=["qjit", "jit", "jax.grad", "grad", "grad in qjit"],
)
@pytest.mark.parametrize("in_circuit", [False, True])
def test_what_nobody_uses(transform, in_circuit):
    seen = []

    @jax.checkpoint
    def effect(x):
        bellhop.io_callback(seen.append, None, ordered=True)(3)
        return x

    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        qml.RX(x, 0)
        effect(x)
        return qml.expval(qml.Z(0))

    def function(x):
        effect(x)
        return x * x

    transform(bellhop.qjit(circuit) if in_circuit else function)(0.3)
    bellhop.barrier_wait()
    assert seen == [3]
