"""Gradients of compiled functions taken outside of any program: `jax.grad(compiled)(x)`.

JAX transforms the function anew at each call; what was traced, differentiated and compiled of
it must be found again.  A circuit of 4 qubits and 24 angles, and a loop of 100 iterations.

Limit: the same transformation of a `jax.jit` function of as many arguments.
"""

from __future__ import annotations

from typing import Any

from benchmarks.case import LIMIT, Case, Program, Target, qjit_builders, synchronous
from benchmarks.cases.circuits import ring_angles, ring_circuit

WIRES = 4


def _gradient(compiled: Any, at: Any) -> Program:
    import jax

    return synchronous(lambda: jax.grad(compiled)(at))


def _circuit(api: Any) -> Program:
    circuit = ring_circuit("lightning.qubit", WIRES)
    return _gradient(api.qjit(circuit), ring_angles(WIRES))


def _circuit_of_jax() -> Program:
    import jax

    circuit = ring_circuit("default.qubit", WIRES, interface="jax", diff_method="backprop")
    return _gradient(jax.jit(circuit), ring_angles(WIRES))


def _sum_of_cosines() -> Program:
    import jax

    at = ring_angles(WIRES)
    program = _gradient(jax.jit(lambda x: jax.numpy.cos(x).sum()), at)
    return Program(program.run, comparable=False)


def _body(i: Any, y: Any, x: Any) -> Any:
    import jax.numpy as jnp

    return y * jnp.sin(y) + x


def _loop(api: Any) -> Program:
    import jax.numpy as jnp

    def program(x: Any) -> Any:
        return api.for_loop(0, 100, 1)(lambda i, y: _body(i, y, x))(x)

    return _gradient(api.qjit(program), jnp.asarray(0.4))


def _loop_of_jax() -> Program:
    import jax

    def program(x: Any) -> Any:
        return jax.lax.fori_loop(0, 100, lambda i, y: _body(i, y, x), x)

    return _gradient(jax.jit(program), jax.numpy.asarray(0.4))


CASES = [
    Case(
        name="eager-gradient-circuit-4",
        title="jax.grad of a compiled circuit, 4 qubits",
        limit="jax.grad of a jax.jit function of the same angles",
        builders={"jax": _circuit_of_jax, **qjit_builders(_circuit), LIMIT: _sum_of_cosines},
        targets=(Target(LIMIT, 1 / 1.5),),
    ),
    Case(
        name="eager-gradient-loop",
        title="jax.grad of a compiled loop of 100 iterations",
        limit="jax.grad of a jax.jit function of the same loop",
        builders={"jax": _loop_of_jax, **qjit_builders(_loop), LIMIT: _loop_of_jax},
        targets=(Target(LIMIT, 1 / 1.5),),
    ),
]
