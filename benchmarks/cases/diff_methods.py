"""Derivatives of a variational circuit by other ways than one adjoint sweep.

The circuit is that of `circuits.py` at 4 qubits, 24 angles.  Its gradient by the
parameter-shift rule takes 48 circuits; its Hessian, adjoint Jacobians at 48 points, and the product
of that and a vector, one sweep with twice as many states as a gradient has.  The JAX column
differentiates default.qubit under `jax.jit` by backpropagation.

Limit: the same number of runs of the circuit, or of its adjoint gradient, through
Lightning's Python bindings.
"""

from __future__ import annotations

from typing import Any

from benchmarks.case import LIMIT, Case, Program, qjit_builders, synchronous
from benchmarks.cases.circuits import ring_angles, ring_circuit, ring_gates
from benchmarks.gates import Lightning, parameters

WIRES = 4
ANGLES = len(parameters(ring_gates(WIRES)))


def _by_shifts(api: Any) -> Program:
    circuit = ring_circuit("lightning.qubit", WIRES, diff_method="parameter-shift")

    def program(at: Any) -> Any:
        return api.grad(circuit)(at)

    return synchronous(api.qjit(program), ring_angles(WIRES))


def _backpropagated() -> Program:
    import jax

    circuit = ring_circuit("default.qubit", WIRES, interface="jax", diff_method="backprop")
    return synchronous(jax.jit(jax.grad(circuit)), ring_angles(WIRES))


def _hessian() -> Program:
    import jax

    import bellhop

    circuit = ring_circuit("lightning.qubit", WIRES)
    return synchronous(bellhop.qjit(jax.hessian(circuit)), ring_angles(WIRES))


def _hessian_product() -> Program:
    import jax
    import jax.numpy as jnp

    import bellhop

    circuit = ring_circuit("lightning.qubit", WIRES)
    angles = ring_angles(WIRES)
    direction = jnp.cos(jnp.arange(angles.size))
    product = lambda x: jax.jvp(jax.grad(circuit), (x,), (direction,))[1]
    return synchronous(bellhop.qjit(product), angles)


def _repeated(gradient: bool, times: int) -> Program:
    run_gates = ring_gates(WIRES)
    lightning = Lightning(WIRES, run_gates, parameters(run_gates), wire=0)
    run = lightning.gradient if gradient else lightning.expectation

    def repeat() -> None:
        for _ in range(times):
            run()

    return Program(repeat, comparable=False, compiles=False)


CASES = [
    Case(
        name="gradient-by-shifts-4",
        title="parameter-shift gradient, 4 qubits",
        limit="lightning.qubit through its Python bindings",
        builders={
            "jax": _backpropagated,
            **qjit_builders(_by_shifts),
            LIMIT: lambda: _repeated(gradient=False, times=2 * ANGLES),
        },
    ),
    Case(
        name="hessian-4",
        title="Hessian, 4 qubits",
        limit="lightning.qubit through its Python bindings",
        builders={
            "bellhop": _hessian,
            LIMIT: lambda: _repeated(gradient=True, times=2 * ANGLES),
        },
        unavailable={
            "jax": "it takes minutes to compile default.qubit twice differentiated",
            "catalyst": "it does not differentiate the adjoint method",
        },
    ),
    Case(
        name="hessian-product-4",
        title="product of a Hessian and a vector, 4 qubits",
        limit="two adjoint gradients of lightning.qubit, through its Python bindings",
        builders={
            "bellhop": _hessian_product,
            LIMIT: lambda: _repeated(gradient=True, times=2),
        },
        unavailable={
            "jax": "it takes minutes to compile default.qubit twice differentiated",
            "catalyst": "it does not differentiate the adjoint method",
        },
    ),
]
