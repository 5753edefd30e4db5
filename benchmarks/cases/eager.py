"""Derivatives of compiled functions taken outside of any program: `jax.grad(compiled)(x)`.

JAX transforms the function anew at each call; what was traced, differentiated and compiled of
it must be found again.  A circuit of 4 qubits and 24 angles, and a loop of 100 iterations.

Limit: the same transformation of a `jax.jit` function of as many arguments.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.case import LIMIT, Builder, Case, Program, Target, qjit_builders, synchronous
from benchmarks.cases.circuits import ring_angles, ring_circuit

WIRES = 4


def _derivative(transformation: str, compiled: Any, at: Any) -> Program:
    import jax

    return synchronous(lambda: getattr(jax, transformation)(compiled)(at))


def _circuit(transformation: str, api: Any) -> Program:
    circuit = ring_circuit("lightning.qubit", WIRES)
    return _derivative(transformation, api.qjit(circuit), ring_angles(WIRES))


def _jax_circuit(transformation: str) -> Program:
    import jax

    circuit = ring_circuit("default.qubit", WIRES, interface="jax", diff_method="backprop")
    return _derivative(transformation, jax.jit(circuit), ring_angles(WIRES))


def _sum_of_cosines(transformation: str) -> Program:
    import jax

    at = ring_angles(WIRES)
    program = _derivative(transformation, jax.jit(lambda x: jax.numpy.cos(x).sum()), at)
    return Program(program.run, comparable=False)


def _body(i: Any, y: Any, x: Any) -> Any:
    import jax.numpy as jnp

    return y * jnp.sin(y) + x


def _loop(transformation: str, api: Any) -> Program:
    import jax.numpy as jnp

    def program(x: Any) -> Any:
        return api.for_loop(0, 100, 1)(lambda i, y: _body(i, y, x))(x)

    return _derivative(transformation, api.qjit(program), jnp.asarray(0.4))


def _jax_loop(transformation: str) -> Program:
    import jax

    def program(x: Any) -> Any:
        return jax.lax.fori_loop(0, 100, lambda i, y: _body(i, y, x), x)

    return _derivative(transformation, jax.jit(program), jax.numpy.asarray(0.4))


def _case(name: str, title: str, transformation: str, of: str, limit: Any, jax: Any) -> Case:
    builders: dict[str, Builder] = {
        "jax": partial(jax, transformation),
        **qjit_builders(partial(_circuit if of == "circuit" else _loop, transformation)),
        LIMIT: partial(limit, transformation),
    }
    unavailable = {}
    if transformation == "hessian":
        del builders["catalyst"]
        unavailable["catalyst"] = "its compiled functions have first derivatives only"
    return Case(
        name=name,
        title=title,
        limit=f"jax.{transformation} of a jax.jit function of the same "
        f"{'angles' if of == 'circuit' else 'loop'}",
        builders=builders,
        unavailable=unavailable,
        targets=(Target(LIMIT, 1 / 1.5),),
    )


CASES = [
    _case(
        "eager-gradient-circuit-4",
        "jax.grad of a compiled circuit, 4 qubits",
        "grad",
        "circuit",
        _sum_of_cosines,
        _jax_circuit,
    ),
    _case(
        "eager-gradient-loop",
        "jax.grad of a compiled loop of 100 iterations",
        "grad",
        "loop",
        _jax_loop,
        _jax_loop,
    ),
    _case(
        "eager-jacobian-circuit-4",
        "jax.jacrev of a compiled circuit, 4 qubits",
        "jacrev",
        "circuit",
        _sum_of_cosines,
        _jax_circuit,
    ),
    _case(
        "eager-hessian-loop",
        "jax.hessian of a compiled loop of 100 iterations",
        "hessian",
        "loop",
        _jax_loop,
        _jax_loop,
    ),
]
