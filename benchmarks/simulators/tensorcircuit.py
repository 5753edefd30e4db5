"""TensorCircuit-NG: tensor networks contracted by JAX, compiled by `jax.jit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.simulators import Model


def circuit(model: Model, angles: Any) -> Any:
    """Return the circuit of a model at some angles, which may be JAX's tracers."""
    import tensorcircuit as tc

    tc.set_backend("jax")
    tc.set_dtype("complex128")
    made = tc.Circuit(model.wires)
    for gate in model.gates:
        if gate.slot is None:
            made.cnot(*gate.wires)
        else:
            getattr(made, gate.name.lower())(*gate.wires, theta=angles[gate.slot])
    return made


def expectation(model: Model) -> Callable[[Any], Any]:
    """Return the function of the angles, which JAX may transform."""
    import jax.numpy as jnp
    import tensorcircuit as tc

    tc.set_backend("jax")
    tc.set_dtype("complex128")
    if len(model.terms) > 1:
        # What its documentation advises for many words.
        codes = np.zeros((len(model.terms), model.wires), dtype=int)
        for row, (_, word) in zip(codes, model.terms, strict=True):
            for wire, pauli in word:
                row[wire] = "IXYZ".index(pauli)
        matrix = tc.quantum.PauliStringSum2COO(codes, [term[0] for term in model.terms])

    def value(angles: Any) -> Any:
        made = circuit(model, angles)
        if len(model.terms) > 1:
            return jnp.real(tc.templates.measurements.operator_expectation(made, matrix))
        ((coefficient, word),) = model.terms
        wires = {name: [wire for wire, pauli in word if pauli == name] for name in "XYZ"}
        return coefficient * jnp.real(made.expectation_ps(x=wires["X"], y=wires["Y"], z=wires["Z"]))

    return value


class Simulator:
    """Runs a model; gradients are JAX's."""

    def __init__(self, model: Model) -> None:
        """Make the compiled functions."""
        import jax

        value = expectation(model)
        self._value = jax.jit(value)
        self._value_and_gradient = jax.jit(jax.value_and_grad(value))
        self._batch = jax.jit(jax.vmap(jax.value_and_grad(value)))

    def value(self, angles: np.ndarray) -> Any:
        """Run the circuit once."""
        return self._value(angles).block_until_ready()

    def value_and_gradient(self, angles: np.ndarray) -> tuple[Any, np.ndarray]:
        """Run the circuit forward and back."""
        value, gradient = self._value_and_gradient(angles)
        return value, gradient.block_until_ready()

    def batch(self, angles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Run all rows as one array."""
        values, gradients = self._batch(angles)
        return values, gradients.block_until_ready()
