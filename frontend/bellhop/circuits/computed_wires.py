"""Measurements on wires that the program computes, by measurements on wires that are known.

What a device measures is static, but for the coefficients of sums.  So an observable on wire
``i`` is the sum of that observable on every wire, with the coefficients 1 on wire ``i`` and 0 on
the others; and probabilities are those of all wires, added up.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml

from bellhop.circuits.wires import WireMap, is_dynamic
from bellhop.errors import CompileError

mp = qml.measurements


def on_known_wires(circuit: Any, process: Any) -> Any:
    """Return a measurement process of an observable on known wires.

    Args:
        circuit: the circuit, at its end, where the computed wires are checked.
        process: PennyLane's measurement process; others than ``expval`` and ``var`` stay.

    Raises:
        CompileError: for an observable on a computed wire and others.
    """
    is_of_values = isinstance(process, mp.ExpectationMP | mp.VarianceMP)
    if not is_of_values or process.obs is None or not any(map(is_dynamic, process.obs.wires)):
        return process
    computed = [wire for wire in process.obs.wires if is_dynamic(wire)]
    with qml.QueuingManager.stop_recording():
        for wire in computed:
            circuit.check_wires([wire], process)
        return type(process)(obs=_on_known(process.obs, circuit.wires, circuit.where))


def probabilities_on_known_wires(circuit: Any, process: Any) -> Callable[[Any], Any]:
    """Return what makes the probabilities on computed wires of those on all wires.

    Args:
        circuit: the circuit, at its end, where the computed wires are checked.
        process: PennyLane's ``probs`` of wires, some of them computed.
    """
    with qml.QueuingManager.stop_recording():
        circuit.check_wires(process.wires, process)
    wires = list(map(circuit.wires.of, process.wires))
    n = len(circuit.wires)
    states = jnp.arange(2**n)
    outcomes = sum(
        ((states >> (n - 1 - wire)) & 1) << place for place, wire in enumerate(reversed(wires))
    )
    return lambda of_all: jax.ops.segment_sum(of_all, outcomes, 2 ** len(wires))


def _on_known(observable: Any, wires: WireMap, where: str) -> Any:
    if not any(map(is_dynamic, observable.wires)):
        return observable
    if isinstance(observable, qml.ops.LinearCombination):
        coefficients, terms = observable.terms()
        known = [_on_known(term, wires, where) for term in terms]
        return qml.ops.LinearCombination(coefficients, known)
    if isinstance(observable, qml.ops.Sum):
        return qml.sum(*(_on_known(operand, wires, where) for operand in observable.operands))
    if isinstance(observable, qml.ops.SProd):
        return qml.s_prod(observable.scalar, _on_known(observable.base, wires, where))
    if len(observable.wires) > 1:
        raise CompileError(
            f"{where}: the observable {observable.name} stands on a wire that is computed in the "
            "program, and on others, which is not supported by bellhop. Measure observables on "
            "one such wire each; qml.SWAP(wires=[i, 0]) in front brings wire i to wire 0."
        )
    (wire,) = observable.wires
    is_meant = jnp.arange(len(wires)) == wires.dynamic(wire)
    terms = [_moved(observable, label) for label in wires.labels]
    return qml.ops.LinearCombination(is_meant.astype(jnp.float64), terms)


def _moved(observable: Any, label: Any) -> Any:
    """Return an observable of one wire on another."""
    return type(observable)(*observable.data, wires=label)
