"""Noisy circuits of 3 and 6 qubits on default.mixed, and their gradients by angles and noise.

Two layers of RX, RY and a depolarization on every wire, and CNOT and an amplitude damping along the
line.  The JAX column is the same device under `jax.jit`, differentiated by backpropagation; in the
rows "uncompiled" it is the QNode without any compiler.

Limit: none that is known; a sweep through the state for each gate is far below.
"""

from __future__ import annotations

from typing import Any

from benchmarks.case import Case, Program, Target, synchronous

SIZES = (3, 6)
LAYERS = 2


def _circuit(wires: int, **options: Any) -> Any:
    import pennylane as qml

    @qml.qnode(qml.device("default.mixed", wires=wires), **options)
    def circuit(angles: Any, noise: Any) -> Any:
        for layer in angles:
            for wire, (x, y) in enumerate(layer):
                qml.RX(x, wire)
                qml.RY(y, wire)
                qml.DepolarizingChannel(noise, wire)
            for wire in range(wires - 1):
                qml.CNOT([wire, wire + 1])
                qml.AmplitudeDamping(noise, wire)
        return qml.expval(qml.Z(0))

    return circuit


def _arguments(wires: int) -> tuple[Any, Any]:
    import jax.numpy as jnp
    import numpy as np

    angles = np.random.default_rng(3).uniform(0, 2 * np.pi, (LAYERS, wires, 2))
    return jnp.asarray(angles), jnp.asarray(0.05)


def _make_derivative(circuit: Any, *, gradient: bool) -> Any:
    import jax
    import jax.numpy as jnp

    if not gradient:
        return circuit

    def slopes(*arguments: Any) -> Any:
        by_angles, by_noise = jax.grad(circuit, argnums=(0, 1))(*arguments)
        return jnp.append(by_angles, by_noise)

    return slopes


def _bellhop(wires: int, gradient: bool) -> Program:
    import bellhop

    program = _make_derivative(_circuit(wires), gradient=gradient)
    return synchronous(bellhop.qjit(program), *_arguments(wires))


def _jax(wires: int, gradient: bool) -> Program:
    import jax

    program = _make_derivative(_circuit(wires, interface="jax"), gradient=gradient)
    return synchronous(jax.jit(program), *_arguments(wires))


def _uncompiled(wires: int) -> Program:
    import numpy as np

    circuit, arguments = _circuit(wires), [np.asarray(each) for each in _arguments(wires)]
    return Program(lambda: np.asarray(circuit(*arguments)), compiles=False)


_NO_CATALYST = {"catalyst": "it does not compile default.mixed"}

CASES = [
    *(
        Case(
            name=f"noise{'-gradient' if gradient else ''}-{wires}",
            title=f"noisy {'gradient' if gradient else 'circuit'}, {wires} qubits",
            limit="none",
            builders={
                "bellhop": lambda w=wires, g=gradient: _bellhop(w, g),
                "jax": lambda w=wires, g=gradient: _jax(w, g),
            },
            unavailable=_NO_CATALYST,
            targets=(Target("jax", 1.0), Target("jax", 1.0, "compile")),
        )
        for wires in SIZES
        for gradient in (False, True)
    ),
    *(
        Case(
            name=f"noise-uncompiled-{wires}",
            title=f"noisy circuit, {wires} qubits, uncompiled",
            limit="none",
            builders={
                "bellhop": lambda w=wires: _bellhop(w, gradient=False),
                "jax": lambda w=wires: _uncompiled(w),
            },
            unavailable=_NO_CATALYST,
            targets=(Target("jax", 10.0),),
        )
        for wires in SIZES
    ),
]
