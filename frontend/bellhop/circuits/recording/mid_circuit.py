"""Measurements in the middle of a circuit, while its quantum function is traced.

Outcomes are boolean tracers whose arithmetic is that of integers.  With the outcomes ``m0`` and
``m1``, both 1::

              here     of boolean arrays in JAX    of integer arrays in JAX
    m0 + m1   2        True                        2
    ~m0       False    False                       -2, which counts as true

The first column is what PennyLane's own outcomes do.  In every other respect an outcome is a
boolean array.

``qml.pauli_measure`` is a joint measurement of Pauli matrices, for which PennyLane has no device:
``qml.pauli_measure("XZ", [0, 1])`` applies ::

    H(0)  CNOT([0, 1])  measure(1)  CNOT([0, 1])  H(0)

The first gates write the parity of both wires into the last wire, and the last gates undo them.  So
the state is projected on the eigenspace of the outcome, and superpositions in it stay.
"""

import functools
import itertools
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml

from bellhop._pennylane.patches.pauli_measure import measure_by
from bellhop.base.source import user_site
from bellhop.base.types import Wire
from bellhop.errors import CompileError
from bellhop.tracing.state import current_circuit, is_tracing


def measure_wire(
    circuit: Any,
    wires: Any,
    *,
    reset: bool,
    postselect: int | None,
    site: str,
    is_joint: bool = False,
) -> Any:
    """Measure one wire and return the outcome.

    Args:
        circuit: the circuit that is traced; None outside of one.
        wires: the wire, as the user gave it.
        reset: whether the wire is brought to zero after it.
        postselect: the outcome that is kept, if the user postselects.
        site: ``file:line``, for errors.
        is_joint: whether gates make it a measurement of several wires.

    Raises:
        CompileError: outside a QNode, for several wires, or for another ``postselect``.
    """
    if not (postselect is None or (isinstance(postselect, int) and postselect in (0, 1))):
        computed = ", which the program computes. Make it static: qjit(static_argnames=...)"
        raise CompileError(
            f"measure at {site}: postselect must be 0 or 1; it is {postselect!r}"
            f"{computed if isinstance(postselect, jax.core.Tracer) else ''}."
        )
    labels = qml.wires.Wires(wires)
    if len(labels) != 1:
        raise CompileError(f"measure ({site}) takes one wire, and was given {len(labels)}.")
    if circuit is None:
        raise CompileError(
            f"measure ({site}) stands outside of a QNode. Call it in a quantum function."
        )
    circuit.flush_active("measure")
    kept = -1 if postselect is None else postselect
    outcome = circuit.mid_measure(
        labels[0], reset=reset, postselect=kept, site=site, is_joint=is_joint
    )
    # In a tape, the outcome is PennyLane's own object for it.
    return outcome if isinstance(outcome, qml.ops.MeasurementValue) else as_outcome(outcome)


_ARITHMETIC = (
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
)
_LOGIC = {"and": jnp.bitwise_and, "or": jnp.bitwise_or, "xor": jnp.bitwise_xor}
_COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


def as_outcome(value: jax.core.Tracer) -> jax.core.Tracer:
    """Make an outcome of a boolean tracer that nothing else refers to yet."""
    # JAX has no public way to give a tracer other operators.  So the tracer becomes an instance of
    # a subclass of its class, and is for JAX what it was.
    tracer_type: Any = type(value)
    value.__class__ = _outcome_type(tracer_type)
    return value


@functools.cache
def _outcome_type(tracer_type: Any) -> Any:
    number = lambda value: _number(value, tracer_type)
    # PennyLane recognizes JAX's values by the module of their type.
    methods: dict[str, Any] = {"__slots__": (), "__module__": tracer_type.__module__}
    for function in _ARITHMETIC:
        name = function.__name__
        methods[f"__{name}__"] = _arithmetic(function, number)
        methods[f"__r{name}__"] = _arithmetic(_swapped(function), number)
    for name, function in _LOGIC.items():
        methods[f"__{name}__"] = _logic(function, tracer_type)
        methods[f"__r{name}__"] = _logic(_swapped(function), tracer_type)
    for function in _COMPARISONS:
        methods[f"__{function.__name__}__"] = _comparison(function, number)
    # A class with a comparison of its own has no hash otherwise; wires are looked up by it.
    methods["__hash__"] = tracer_type.__hash__
    methods["__invert__"] = lambda self: as_outcome(jnp.logical_not(self))
    methods["__neg__"] = lambda self: -number(self)
    methods["__pos__"] = number
    methods["__abs__"] = number
    return type("MidCircuitOutcome", (tracer_type,), methods)


def _number(value: object, tracer_type: Any) -> Any:
    return jnp.asarray(value, int) if type(value) is _outcome_type(tracer_type) else value


def _arithmetic(
    function: Callable[[Any, Any], Any], number: Callable[[Any], Any]
) -> Callable[..., Any]:
    return lambda self, other: function(number(self), number(other))


def _comparison(
    function: Callable[[Any, Any], Any], number: Callable[[Any], Any]
) -> Callable[..., Any]:
    return lambda self, other: as_outcome(function(number(self), number(other)))


def _logic(function: Callable[[Any, Any], Any], tracer_type: Any) -> Callable[..., Any]:
    def method(self: Any, other: object) -> Any:
        result = function(self, other)
        is_outcome = result.dtype == bool and result.ndim == 0 and type(result) is tracer_type
        return as_outcome(result) if is_outcome else result

    return method


def _swapped(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda one, other: function(other, one)


def measure_pauli_words() -> None:
    """Let programs measure Pauli words, however PennyLane's function was imported."""
    measure_by(_in_programs)


def _in_programs(uncompiled: Callable[..., Any]) -> Callable[..., Any]:
    def chosen(wires: Any, pauli_word: str, postselect: int | None = None) -> Any:
        call = _measured if is_tracing() else uncompiled
        return call(wires, pauli_word=pauli_word, postselect=postselect)

    return chosen


def _measured(wires: Any, pauli_word: str, postselect: int | None) -> Any:
    with qml.QueuingManager.stop_recording():
        # PennyLane checks the word and raises the error.
        labels = list(qml.ops.PauliMeasure(pauli_word, wires).wires)
        gates = [
            gate
            for wire, pauli in zip(labels, pauli_word, strict=True)
            for gate in _to_z(pauli, wire)
        ]
        gates += [qml.CNOT([one, other]) for one, other in itertools.pairwise(labels)]
        inverses = [qml.adjoint(gate, lazy=False) for gate in reversed(gates)]
    circuit = current_circuit()
    if circuit is not None:
        circuit.flush_active("measure")
    for gate in gates:
        qml.apply(gate)
    site = user_site()
    outcome = measure_wire(
        circuit, labels[-1], reset=False, postselect=postselect, site=site, is_joint=True
    )
    for gate in inverses:
        qml.apply(gate)
    return outcome


def _to_z(pauli: str, wire: Wire) -> list[Any]:
    if pauli == "X":
        return [qml.Hadamard(wire)]
    return [qml.adjoint(qml.S(wire)), qml.Hadamard(wire)] if pauli == "Y" else []
