"""Gradients of a classifier by its features, which a state is prepared from, and by its angles.

The features are the amplitudes of 4 and 10 qubits, normalized in the circuit; three layers of RY
and CNOT follow.  The JAX column differentiates default.qubit under `jax.jit` by backpropagation; in
the row "uncompiled" it is the QNode without any compiler.

Limit: none that is known; the state is gone through some forty times.
"""

from __future__ import annotations

from typing import Any

from benchmarks.case import Case, Program, Target, synchronous

SIZES = (4, 10)
LAYERS = 3


def _gradient(device: str, wires: int, **options: Any) -> Any:
    import jax
    import jax.numpy as jnp
    import pennylane as qml

    @qml.qnode(qml.device(device, wires=wires), **options)
    def circuit(features: Any, angles: Any) -> Any:
        qml.AmplitudeEmbedding(features, wires=range(wires), normalize=True)
        for layer in angles:
            for wire, angle in enumerate(layer):
                qml.RY(angle, wire)
            for wire in range(wires - 1):
                qml.CNOT([wire, wire + 1])
        return qml.expval(qml.Z(wires - 1))

    def gradient(features: Any, angles: Any) -> Any:
        both = jax.grad(circuit, argnums=(0, 1))(features, angles)
        return jnp.concatenate([jnp.ravel(each) for each in both])

    return gradient


def _arguments(wires: int) -> tuple[Any, Any]:
    import jax.numpy as jnp
    import numpy as np

    draw = np.random.default_rng(3)
    features = draw.normal(size=2**wires)
    return jnp.asarray(features), jnp.asarray(draw.uniform(0, 2 * np.pi, (LAYERS, wires)))


def _bellhop(wires: int) -> Program:
    import bellhop

    return synchronous(bellhop.qjit(_gradient("lightning.qubit", wires)), *_arguments(wires))


def _jax(wires: int, *, compiled: bool) -> Program:
    import jax

    gradient = _gradient("default.qubit", wires, interface="jax", diff_method="backprop")
    return synchronous(jax.jit(gradient) if compiled else gradient, *_arguments(wires))


def _case(wires: int, name: str, title: str, compiled: bool, target: Target) -> Case:
    return Case(
        name=f"gradient-by-features{name}-{wires}",
        title=f"gradient by features, {wires} qubits{title}",
        limit="none",
        builders={
            "bellhop": lambda: _bellhop(wires),
            "jax": lambda: _jax(wires, compiled=compiled),
        },
        unavailable={"catalyst": "it fails to compile a derivative by the amplitudes of a state"},
        targets=(target,),
    )


CASES = [
    *(_case(wires, "", "", True, Target("jax", 1.0)) for wires in SIZES),
    _case(SIZES[0], "-uncompiled", ", uncompiled", False, Target("jax", 10.0)),
]
