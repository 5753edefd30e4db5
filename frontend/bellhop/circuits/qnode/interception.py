"""Calls of QNodes inside our programs: trace the quantum function into a circuit."""

import functools
from dataclasses import replace
from typing import Any

import jax
import pennylane as qml
from jax.extend.core import ClosedJaxpr
from pennylane.queuing import AnnotatedQueue, process_queue

from bellhop._jax.patches.former_names import put_back_former_names
from bellhop._jax.private import convert_constvars_jaxpr
from bellhop._patching import patch
from bellhop.base.source import definition_site, function_name
from bellhop.circuits.circuit import circuit_primitive
from bellhop.circuits.circuit.execution import check_number_of_shots, trace_circuit
from bellhop.circuits.derivatives.diff_method import chosen_differentiation
from bellhop.circuits.gates.broadcasting import ROW_STRUCT, Rows
from bellhop.circuits.gates.computed_controls import take_computed_values
from bellhop.circuits.gates.device import GateSet, check_options, device_spec
from bellhop.circuits.gates.gridsynth import take_computed_angles
from bellhop.circuits.gates.rewrites import global_folding, passes_by_transforms, rewrites_of
from bellhop.circuits.gates.wires import WireMap, is_dynamic
from bellhop.circuits.in_program.default_qubit import is_default_qubit
from bellhop.circuits.in_program.execution import run_traced
from bellhop.circuits.in_program.null_qubit import is_null_device, run_null
from bellhop.circuits.measure.process import is_measurement
from bellhop.circuits.pennylane.tape_transforms import call_on_tape, needs_tape
from bellhop.circuits.precision import without_precision_warnings
from bellhop.circuits.qnode.mitigation import current_mitigation
from bellhop.circuits.recording.nested import fold
from bellhop.circuits.recording.recording import Circuit
from bellhop.control_flow.interpretation import unrolling
from bellhop.errors import CompileError
from bellhop.passes import passes_of
from bellhop.tracing.state import circuit_scope, current_options, is_tracing


@patch("QNode.__call__", "QNodes that a program calls are circuits of it")
def intercept_qnodes() -> None:
    """Make QNodes that are called while we trace part of the program."""
    put_back_former_names()
    take_computed_values()
    take_computed_angles()
    original = qml.QNode.__call__

    @functools.wraps(original)
    def call(self: qml.QNode, *args: Any, **kwargs: Any) -> Any:
        if is_tracing():
            return call_qnode(self, args, kwargs)
        return original(self, *args, **kwargs)

    qml.QNode.__call__ = call


@without_precision_warnings()
def call_qnode(qnode: qml.QNode, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Trace a call of a QNode.

    Returns:
        the measurements' values, in the structure that the quantum function returned.

    Raises:
        CompileError: for what circuits cannot do yet; names the QNode and its line.
    """
    mitigation = current_mitigation()
    if mitigation is not None:
        return mitigation.run(lambda: call_qnode(qnode, args, kwargs))
    name = function_name(qnode.func)
    where = f"the QNode '{name}' ({definition_site(qnode.func)})"
    _check_no_debugger(qnode, where)
    check_number_of_shots(qnode, where)
    if needs_tape(qnode):
        return call_on_tape(qnode, args, kwargs, where, call_qnode)
    if is_default_qubit(qnode.device):
        return _call_in_program(run_traced, qnode, args, kwargs, where)
    if is_null_device(qnode.device):
        return _call_in_program(run_null, qnode, args, kwargs, where)
    _check_supported(qnode, where)
    leaves, in_tree = jax.tree.flatten((args, kwargs))
    # What the program does not compute stays static: numbers become constants of the gates.
    dynamic = [index for index, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]
    gates = GateSet(qnode.device)
    differentiation = chosen_differentiation(qnode, where)
    wires = _wire_map(qnode, leaves, in_tree, dynamic, where)
    rewrites = rewrites_of(qnode)
    spec = replace(device_spec(qnode.device, len(wires)), passes=_passes(qnode))

    rows = Rows(None, where)

    def record(handle: Any, row: Any, *inputs: Any) -> tuple[Circuit, list[Any], Any]:
        nonlocal rows
        args, kwargs = _arguments(leaves, in_tree, dynamic, inputs)
        rows = Rows(row, where)
        circuit = Circuit(handle, spec, gates, wires, where, differentiation, rows)
        circuit.rewrites = rewrites
        function = fold(qnode.func, global_folding())
        return circuit, *circuit.traced(lambda: function(*args, **kwargs))

    inputs = [leaves[index] for index in dynamic]
    traced = trace_circuit(record, [ROW_STRUCT, *inputs], qnode=qnode, device=spec, where=where)
    consts, jaxpr = traced.closed.consts, convert_constvars_jaxpr(traced.closed)
    # Constants come first now; the handle must, for the circuit primitive.
    has_rows = rows.size is not None
    order = _handle_first(jaxpr, len(consts), has_rows=has_rows)
    body = circuit_primitive.CircuitBody(order, where, definition_site(qnode.func))

    def run(row: Any) -> list[Any]:
        return circuit_primitive.bind(
            body,
            [*consts, *([row] if has_rows else []), *inputs],
            device=traced.device,
            name=name,
            derivative_order=0,
            randomness=traced.randomness,
        )

    return rows.run(lambda row: traced.finish(run(row)))


def _call_in_program(
    run: Any, qnode: qml.QNode, args: tuple[Any, ...], kwargs: dict[str, Any], where: str
) -> Any:
    """Trace a call of a QNode whose device is no plugin but a part of the program."""
    leaves, in_tree = jax.tree.flatten((args, kwargs))
    dynamic = [index for index, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]
    wires = _wire_map(qnode, leaves, in_tree, dynamic, where)
    inputs = [leaves[index] for index in dynamic]

    def function(*inputs: Any) -> Any:
        args, kwargs = _arguments(leaves, in_tree, dynamic, inputs)
        return fold(qnode.func, global_folding())(*args, **kwargs)

    return run(function, inputs, qnode=qnode, wires=wires, where=where)


def _passes(qnode: qml.QNode) -> tuple[str, ...]:
    """Return the passes over the circuits of a QNode: its own, or the program's."""
    passes, options = passes_of(qnode), current_options()
    if passes is None:
        passes = () if options is None else options.circuit_passes
    return (*passes, *passes_by_transforms(qnode))


def _arguments(leaves: list[Any], in_tree: Any, dynamic: list[int], inputs: Any) -> Any:
    """Return the arguments of a call with ``inputs`` in place of its dynamic leaves."""
    full = list(leaves)
    for index, value in zip(dynamic, inputs, strict=True):
        full[index] = value
    return jax.tree.unflatten(in_tree, full)


def _handle_first(jaxpr: Any, n_consts: int, *, has_rows: bool) -> ClosedJaxpr:
    consts, (handle, row, *inputs) = jaxpr.invars[:n_consts], jaxpr.invars[n_consts:]
    reordered = jaxpr.replace(
        invars=[handle, *consts, *([row] if has_rows else []), *inputs],
        debug_info=jaxpr.debug_info._replace(arg_names=None),
    )
    return ClosedJaxpr(reordered, ())


def _wire_map(
    qnode: qml.QNode, leaves: list[Any], in_tree: Any, dynamic: list[int], where: str
) -> WireMap:
    if any(map(is_dynamic, qnode.device.wires or ())):
        raise CompileError(
            f"{where}: how many wires its device has is computed in the program, and XLA's arrays "
            "have one shape. Make that number static: qjit(static_argnums=...)."
        )
    labels = qnode.device.wires or _used_wires(qnode, leaves, in_tree, dynamic, where)
    return WireMap(labels, where)


def _used_wires(
    qnode: qml.QNode, leaves: list[Any], in_tree: Any, dynamic: list[int], where: str
) -> Any:
    """Return the wires of a circuit in PennyLane's order, for a device without its own."""

    def labels_of_run() -> tuple[Any, ...]:
        labels: tuple[Any, ...] = ()

        def run(*inputs: Any) -> tuple[()]:
            nonlocal labels
            args, kwargs = _arguments(leaves, in_tree, dynamic, inputs)
            with circuit_scope(None), AnnotatedQueue() as queue:
                result = qnode.func(*args, **kwargs)
            operations, *_ = process_queue(queue)
            operations = [op for op in operations if not is_measurement(op)]
            processes = [
                process
                for process in jax.tree.leaves(result, is_leaf=is_measurement)
                if is_measurement(process)
            ]
            in_order = qml.wires.Wires.all_wires([part.wires for part in (*operations, *processes)])
            labels = tuple(in_order)
            return ()

        jax.eval_shape(run, *(leaves[index] for index in dynamic))
        return labels

    labels = labels_of_run()
    if any(map(is_dynamic, labels)):
        # The index of a loop of known length is known where Python runs the loop.
        with unrolling():
            labels = labels_of_run()
    if any(map(is_dynamic, labels)):
        raise CompileError(
            f"{where}: its wires are computed in the program, and the device has no wires of its "
            "own. Say how many there are: qml.device(..., wires=n)."
        )
    # As PennyLane does: labels that are 0, 1, ... in any order stand for themselves.
    return sorted(labels) if set(labels) == set(range(len(labels))) else labels


def _check_no_debugger(qnode: qml.QNode, where: str) -> None:
    """Refuse ``qml.snapshots`` where PennyLane leaves them to the device, which we replace."""
    debugger = getattr(qnode.device, "_debugger", None)
    if debugger is not None and debugger.active:
        raise CompileError(
            f"{where}: qml.snapshots on {qnode.device.name} is not supported by bellhop. Use "
            "qml.device('lightning.qubit', wires=...), where the circuit runs once for each."
        )


def _check_supported(qnode: qml.QNode, where: str) -> None:
    if not hasattr(qnode.device, "get_c_interface"):
        raise CompileError(
            f"{where}: the device '{qnode.device.name}' has no compiled plugin "
            "(get_c_interface), so it cannot run inside qjit. Use "
            "qml.device('lightning.qubit', wires=...) or 'default.qubit'."
        )
    check_options(qnode.device, where)
