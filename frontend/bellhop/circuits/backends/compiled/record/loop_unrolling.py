"""Unrolling of short loops: the gates of all iterations become one sequence.

The loop ``for_loop(0, 3)(lambda i: qml.RX(x[i], i))()`` could be ::

    state = quantum_gates[RX on a traced wire] state x 0 [0 1 2] 3

Its wires depend only on the index of the iteration, so they are known while the program is traced,
and the loop becomes ::

    state = quantum_gates[RX on 0, RX on 1, RX on 2] state x 0 []

These gates join the sequences of gates before and after the loop.  A circuit that is one sequence
of gates needs one call of the runtime.

Nested loops are unrolled in ``passes/unroll``, one iteration after another, with static indices:
inner trip counts may depend on them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from bellhop.circuits.backends.compiled.record.gate_sequence import GateSequence, RepeatedSequence
from bellhop.circuits.ir.gate_jaxpr import ForLoop
from bellhop.jaxprs.constant_eval import evaluate_static
from bellhop_mlir.dialects.gate import shift_slots


def unroll_loop(
    repeated: RepeatedSequence,
    compute_wires: Callable[[Any], Any],
    n_iterations: int,
    qubits: int,
) -> GateSequence | None:
    """Unroll a short loop of gates on static wires into one gate sequence.

    The body may be a loop itself, the inner loop. Then the iterations of both loops are unrolled.

    Args:
        repeated: the gates of one iteration of the (inner) loop, with the parameters of all
            iterations and their number, the product of both trip counts. Its ``wires`` are empty if
            no wire is traced; their values are not used.
        compute_wires: maps the traced index of an iteration of the (outer) loop to the traced wires
            in that iteration, an integer array: with an inner loop, the wires of all inner
            iterations, one after another.
        n_iterations: the trip count of the (outer) loop alone.
        qubits: the number of qubits of the device.

    Returns:
        a new sequence of the gates and parameters of all iterations, on static wires. None if there
        are more than `ForLoop.MAX_UNROLLED_GATES` gates, if wires depend on more than the index, or
        if a traced wire is out of range or a gate has a wire twice: the loop then reports the error
        at run time.
    """
    run, total = repeated.sequence, repeated.n_iterations
    if total * len(run.gates) > ForLoop.MAX_UNROLLED_GATES:
        return None
    if repeated.wires.size == 0:
        wires = np.zeros((total, 0), int)
    else:
        known = _evaluate_static_wires(compute_wires, n_iterations)
        if known is None:
            return None
        wires = known.reshape(total, -1)
    straight = GateSequence(run.derivative)
    straight.append_param_vector(repeated.params, run.frequencies * total)
    for iteration, computed in enumerate(wires.tolist()):
        # The loop that is not unrolled reports an invalid wire at run time.
        if any(not 0 <= wire < qubits for wire in computed):
            return None
        first = iteration * run.n_params
        for gate in run.gates:
            on = _resolve_wires(gate.wires, computed)
            controls = _resolve_wires(gate.control_wires, computed)
            if len({*on, *controls}) < len(on) + len(controls):
                return None
            slots = shift_slots(gate.slots, first)
            straight.gates.append(replace(gate, slots=slots, wires=on, control_wires=controls))
    return straight


def _resolve_wires(codes: Sequence[int], computed: Sequence[int]) -> tuple[int, ...]:
    """Return wires as qubits; a negative code ``-1 - i`` is the traced wire ``computed[i]``."""
    return tuple(code if code >= 0 else computed[-1 - code] for code in codes)


def _evaluate_static_wires(
    compute_wires: Callable[[Any], Any], n_iterations: int
) -> np.ndarray | None:
    """Evaluate the wires of all iterations while tracing, if they depend only on the index.

    Args:
        compute_wires: maps the traced index of an iteration to an integer array of wires.
        n_iterations: the number of iterations.

    Returns:
        integer array ``[n_iterations, ...]``; None if wires depend on more than the index of the
        iteration.
    """
    found: list[np.ndarray] | None = None

    def trace(number: Any) -> None:
        """Store the wires for all indices in ``found``; None if they are not static.

        ``number`` is the traced index of an iteration.
        """
        nonlocal found
        found = evaluate_static(
            compute_wires(number), (number,), [(i,) for i in range(n_iterations)]
        )

    jax.make_jaxpr(trace)(0)
    return None if found is None else np.asarray(found)
