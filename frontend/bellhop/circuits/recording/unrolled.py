"""Loops of few gates are unrolled: the gates of all iterations are written one after another.

The loop ``for_loop(0, 3)(lambda i: qml.RX(x[i], i))()`` could be ::

    state = quantum_gates[RX on a computed wire] state x 0 [0 1 2] 3

Its wires depend on nothing but the number of the iteration, so they are known while the program is
traced, and the loop becomes ::

    state = quantum_gates[RX on 0, RX on 1, RX on 2] state x 0 []

These gates are one run with those before and after the loop.  A circuit that is one such run is one
call of the runtime.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from jax.extend.core import Literal
from jax.lax import iota_p

from bellhop.base.equations import evaluate, read
from bellhop.circuits.gates.gate_run import GateRun, RepeatedRun
from bellhop.circuits.vectorize.elementwise import is_elementwise

# A loop of more gates compiles faster, and needs less memory, if it stays a loop.
_MOST_GATES = 512


def unrolled(
    repeated: RepeatedRun,
    wires_of: Callable[[Any], Any],
    n_iterations: int,
    qubits: int,
) -> GateRun | None:
    """Unroll a loop of gates.

    Args:
        repeated: the loop.  If it has an inner loop, this has the iterations of both.
        wires_of: takes the number of an iteration of the outer loop; returns the wires which that
            iteration computes.
        n_iterations: the number of iterations of the outer loop.
        qubits: the number of qubits of the device.

    Returns:
        the gates of all iterations; None if there are too many, if wires are not known while the
        program is traced, or if a gate has wrong wires (an error when the program runs).
    """
    run, total = repeated.run, repeated.n_iterations
    if total * len(run.gates) > _MOST_GATES:
        return None
    if repeated.wires.size == 0:
        wires = np.zeros((total, 0), int)
    else:
        known = _known(wires_of, n_iterations)
        if known is None:
            return None
        wires = known.reshape(total, -1)
        # The runtime raises the error for such a wire, as for any other computed wire.
        if np.any((wires < 0) | (wires >= qubits)):
            return None
    straight = GateRun(run.derivative)
    straight.take_all(repeated.params, run.frequencies * total)
    for iteration, of_iteration in enumerate(wires.tolist()):
        for gate in run.gates:
            first = iteration * run.n_params
            on = _wires(gate.wires, of_iteration)
            controls = _wires(gate.control_wires, of_iteration)
            if len({*on, *controls}) < len(on) + len(controls):
                return None
            slots = tuple(slot if slot < 0 else first + slot for slot in gate.slots)
            straight.gates.append(replace(gate, slots=slots, wires=on, control_wires=controls))
    return straight


def _wires(codes: Sequence[int], computed: Sequence[int]) -> tuple[int, ...]:
    return tuple(code if code >= 0 else computed[-1 - code] for code in codes)


def _known(wires_of: Callable[[Any], Any], n_iterations: int) -> np.ndarray | None:
    """Return the wires of each iteration; None if they depend on more than its number."""
    closed = jax.make_jaxpr(wires_of)(0)
    jaxpr = closed.jaxpr
    (number,), (wires,) = jaxpr.invars, jaxpr.outvars
    needed: set[Any] = {wires}
    equations: list[Any] = []
    for eqn in reversed(jaxpr.eqns):
        if needed.isdisjoint(eqn.outvars):
            continue
        if not (eqn.primitive is iota_p or is_elementwise(eqn)):
            return None
        equations.insert(0, eqn)
        needed.update(atom for atom in eqn.invars if not isinstance(atom, Literal))
    consts = {
        var: const
        for var, const in zip(jaxpr.constvars, closed.consts, strict=True)
        if var in needed
    }
    if any(isinstance(const, Tracer) for const in consts.values()):
        return None

    def of_iteration(value: Any) -> Any:
        values = {**consts, number: value}
        evaluate(jaxpr, equations, values)
        return read(wires, values)

    with jax.ensure_compile_time_eval():
        numbers = np.arange(n_iterations, dtype=number.aval.dtype)
        return np.asarray(jax.jit(jax.vmap(of_iteration))(numbers))
