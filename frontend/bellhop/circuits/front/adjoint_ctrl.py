"""``qml.adjoint`` and ``qml.ctrl`` of quantum functions with control flow.

For ``f = lambda: for_loop(0, 3)(lambda i: qml.RX(x * i, 0))()``::

    qml.adjoint(f)()    applies    for_loop(0, 3)(lambda i: qml.adjoint(qml.RX(x * (2 - i), 0)))()
    qml.ctrl(f, 1)()    applies    for_loop(0, 3)(lambda i: qml.ctrl(qml.RX(x * i, 0), 1))()

``f`` is traced once, to a jaxpr with gates (``gate_jaxpr``). It becomes a ``quantum_region``
equation of the enclosing function's jaxpr, which ``passes/regions`` expands.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pennylane as qml

from bellhop.circuits.ir.gate_jaxpr import GateJaxpr
from bellhop.circuits.passes.regions.collected_operations import collect_operations
from bellhop.circuits.passes.tracing_circuit import TracingCircuit
from bellhop.circuits.passes.used_wires import UsedWires
from bellhop.control_flow.trace_body import Gates
from bellhop.tracing.current_circuit import CurrentCircuit, RecordingCircuit


class AppliedFunction(Gates):
    """Describes the gates that a call of an adjoint or controlled function applied.

    Users may inspect it like the operation that PennyLane returns. The gates are in the circuit
    before the object is made; the object itself applies no gates.

    Args:
        circuit: the circuit to which the gates were applied.
        gates: the traced quantum function, before inversion or control.
        controls: control wires and control values; None for an adjoint.
    """

    def __init__(
        self,
        circuit: CurrentCircuit,
        gates: GateJaxpr,
        controls: tuple[Any, Any] | None,
    ) -> None:
        self._circuit = circuit
        self._gates = gates
        self._controls = controls

    @property
    def operations(self) -> list[Any]:
        """The applied operations in order, without operations in loops and conditionals."""
        with qml.QueuingManager.stop_recording():
            return collect_operations(self._gates, self._controls, self._circuit.where)

    @property
    def operation(self) -> Any:
        """The applied operation if ``operations`` has exactly one; else None."""
        operations = self.operations
        return operations[0] if len(operations) == 1 else None

    @property
    def wires(self) -> qml.wires.Wires:
        """The control wires and the wires of all gates, also in loops and conditionals.

        All wires of the circuit if any of these wires is traced.
        """
        controls = [] if self._controls is None else list(self._controls[0])
        if any(isinstance(wire, jax.core.Tracer) for wire in controls):
            return qml.wires.Wires(self._circuit.labels())
        wires = UsedWires(self._gates.closed).list_wires_or(self._circuit.labels())
        return qml.wires.Wires.all_wires([qml.wires.Wires(controls), qml.wires.Wires(wires)])


def apply_adjoint(circuit: RecordingCircuit, function: Callable[[], Any]) -> AppliedFunction:
    """Trace a quantum function and append its adjoint to the traced circuit.

    Args:
        circuit: the circuit that is being traced, which receives the gates.
        function: the quantum function, without arguments; its result is ignored.

    Returns:
        a description of the applied gates, which the user may inspect.
    """
    tracing = TracingCircuit(circuit.where, circuit, is_inverted=True)
    return _append_adjoint_or_ctrl(circuit, tracing.trace_gates(_drop_result(function)), None)


def apply_controlled(
    circuit: RecordingCircuit, wires: Any, values: Any, function: Callable[[], Any]
) -> AppliedFunction:
    """Trace a quantum function and append its controlled form to the traced circuit.

    Args:
        circuit: the circuit that is being traced, which receives the gates.
        wires: the control wires: a label, a tracer or a sequence.
        values: a sequence with a control value for each wire, or one value for all wires; None for
            True. Values may be traced.
        function: the quantum function, without arguments; its result is ignored.

    Returns:
        a description of the applied gates, which the user may inspect.
    """
    labels = qml.wires.Wires(wires)
    if values is None:
        values = True
    is_single = not isinstance(values, Sequence) and np.ndim(values) == 0
    controls = labels, [values] * len(labels) if is_single else list(values)
    tracing = TracingCircuit(circuit.where, circuit)
    return _append_adjoint_or_ctrl(circuit, tracing.trace_gates(_drop_result(function)), controls)


def _append_adjoint_or_ctrl(
    circuit: RecordingCircuit, gates: GateJaxpr, controls: tuple[Any, Any] | None
) -> AppliedFunction:
    """Append the adjoint or controlled form of a traced function to a circuit.

    Args:
        circuit: the circuit that is being traced.
        gates: the traced quantum function, before inversion or control.
        controls: control wires and a list of control values; None to append the adjoint.

    Returns:
        a description of the applied gates, which the user may inspect.
    """
    circuit.append_adjoint_or_ctrl(gates, controls)
    return AppliedFunction(circuit, gates, controls)


def _drop_result(function: Callable[..., Any]) -> Callable[..., None]:
    """Wrap a function so that it returns None."""

    def run(*args: Any, **kwargs: Any) -> None:
        """Call the function and return None."""
        function(*args, **kwargs)

    return run
