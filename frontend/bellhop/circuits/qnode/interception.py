"""Calls of QNodes inside our programs: trace the quantum function into a circuit."""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import pennylane as qml
from jax.extend.core import ClosedJaxpr
from pennylane.queuing import AnnotatedQueue, process_queue

from bellhop._jax.patches.former_names import put_back_former_names
from bellhop._jax.private import convert_constvars_jaxpr
from bellhop._patching import patch
from bellhop.base.config import engine_of_environment
from bellhop.base.source import definition_site, function_name
from bellhop.circuits.circuit import linearization
from bellhop.circuits.circuit.circuit_primitive import CircuitBody
from bellhop.circuits.circuit.execution import QNodeCall, check_number_of_shots, trace_circuit
from bellhop.circuits.derivatives.diff_method import (
    HADAMARD,
    chosen_differentiation,
    method_of,
)
from bellhop.circuits.gates.broadcasting import ROW_STRUCT, Rows
from bellhop.circuits.gates.computed_controls import take_computed_values
from bellhop.circuits.gates.device import (
    GateSet,
    check_options,
    device_spec,
    is_in_single_precision,
)
from bellhop.circuits.gates.gridsynth import take_computed_angles
from bellhop.circuits.gates.rewrites import global_folding, passes_by_transforms, rewrites_of
from bellhop.circuits.gates.wires import WireMap, is_dynamic
from bellhop.circuits.in_program.execution import is_in_program, run_traced
from bellhop.circuits.in_program.null_qubit import is_null_device, run_null
from bellhop.circuits.measure.process import is_measurement
from bellhop.circuits.measure.shadow_seeds import note_drawn_seeds
from bellhop.circuits.pennylane.tape_transforms import call_on_tape, needs_tape
from bellhop.circuits.precision import without_precision_warnings
from bellhop.circuits.python_devices.execution import run_on_python_device
from bellhop.circuits.qnode.mitigation import current_mitigation
from bellhop.circuits.recording.allocation import number_needed
from bellhop.circuits.recording.deferral import deferring_if_possible
from bellhop.circuits.recording.nested import fold
from bellhop.circuits.recording.pauli_measurement import measure_pauli_words
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
    note_drawn_seeds()
    measure_pauli_words()
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
    where = f"the QNode '{function_name(qnode.func)}' ({definition_site(qnode.func)})"
    if "shots" in kwargs and "shots" not in inspect.signature(qnode.func).parameters:
        # PennyLane's former way to say how many.
        others = {name: value for name, value in kwargs.items() if name != "shots"}
        return call_qnode(qml.set_shots(qnode, kwargs["shots"]), args, others)
    _check_no_debugger(qnode, where)
    check_number_of_shots(qnode, where)
    if needs_tape(qnode):
        return call_on_tape(qnode, args, kwargs, where, call_qnode)
    leaves, in_tree = jax.tree.flatten((args, kwargs))
    # What the program does not compute stays static: numbers become constants of the gates.
    dynamic = [index for index, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]
    inputs = [leaves[index] for index in dynamic]

    def function(*inputs: Any) -> Any:
        given = dict(zip(dynamic, inputs, strict=True))
        full = [given.get(index, leaf) for index, leaf in enumerate(leaves)]
        args, kwargs = jax.tree.unflatten(in_tree, full)
        return qnode.func(*args, **kwargs)

    traced_call = QNodeCall(qnode, fold(function, global_folding()), inputs, where)
    if _runs_as_tapes(qnode):
        return run_on_python_device(traced_call)
    if is_in_program(qnode.device):
        run: Any = run_traced
    else:
        run = run_null if is_null_device(qnode.device) else _run_on_plugin
    return run(traced_call, _wire_map(qnode, function, inputs, where))


def _runs_as_tapes(qnode: qml.QNode) -> bool:
    """Tell whether a program calls the device: it is neither compiled nor part of programs.

    So it does for states in single precision, which no compiled interface has, and for Hadamard
    tests, which are other circuits, that PennyLane makes of tapes.
    """
    if is_in_program(qnode.device) or is_null_device(qnode.device):
        return False
    is_compiled = hasattr(qnode.device, "get_c_interface")
    return not is_compiled or is_in_single_precision(qnode.device) or method_of(qnode) == HADAMARD


def _run_on_plugin(call: QNodeCall, wires: WireMap) -> Any:
    """Trace a call of a QNode whose device is called by the runtime."""
    qnode, where, inputs = call.qnode, call.where, call.inputs
    check_options(qnode.device, where)
    gates = GateSet(qnode.device)
    differentiation = chosen_differentiation(qnode, where, has_adjoint=gates.has_adjoint)
    rewrites = rewrites_of(qnode)
    spec = replace(
        device_spec(qnode.device, len(wires)), passes=_passes(qnode), engine=_engine() != "plugin"
    )
    rows = Rows(None, where)

    def record(
        make: Callable[..., Circuit], handle: Any, row: Any, *inputs: Any
    ) -> tuple[Circuit, list[Any], Any]:
        nonlocal rows
        rows = Rows(row, where)
        circuit = make(handle, spec, gates, wires, where, differentiation, rows)
        circuit.rewrites = rewrites
        return circuit, *circuit.traced(call.function, *inputs)

    may_defer = qnode.execute_kwargs.get("mcm_method") in (None, "deferred")
    chosen = deferring_if_possible if may_defer else lambda trace: trace(Circuit)
    traced = trace_circuit(call, record, chosen, [ROW_STRUCT, *inputs], spec)
    consts, jaxpr = traced.closed.consts, convert_constvars_jaxpr(traced.closed)
    # Constants come first now; the handle must, for the circuit primitive.
    has_rows = rows.size is not None
    order = _handle_first(jaxpr, len(consts), has_rows=has_rows)
    body = CircuitBody(order, where, definition_site(qnode.func))

    def run(row: Any) -> list[Any]:
        return linearization.bind(
            body,
            [*consts, *([row] if has_rows else []), *inputs],
            device=traced.device,
            name=function_name(qnode.func),
            derivative_order=0,
            randomness=traced.randomness,
        )

    return rows.run(lambda row: traced.finish(run(row)), traced.together)


def _passes(qnode: qml.QNode) -> tuple[str, ...]:
    """Return the passes over the circuits of a QNode: its own, or the program's."""
    passes, options = passes_of(qnode), current_options()
    if passes is None:
        passes = () if options is None else options.circuit_passes
    return (*passes, *passes_by_transforms(qnode))


def _engine() -> str:
    """Return what may run circuits: as the program says, or else the environment."""
    options = current_options()
    return (options and options.engine) or engine_of_environment()


def _handle_first(jaxpr: Any, n_consts: int, *, has_rows: bool) -> ClosedJaxpr:
    consts, (handle, row, *inputs) = jaxpr.invars[:n_consts], jaxpr.invars[n_consts:]
    reordered = jaxpr.replace(
        invars=[handle, *consts, *([row] if has_rows else []), *inputs],
        debug_info=jaxpr.debug_info._replace(arg_names=None),
    )
    return ClosedJaxpr(reordered, ())


def _wire_map(
    qnode: qml.QNode, function: Callable[..., Any], inputs: Sequence[Any], where: str
) -> WireMap:
    if any(map(is_dynamic, qnode.device.wires or ())):
        raise CompileError(
            f"{where}: how many wires its device has is computed in the program, and XLA's arrays "
            "have one shape. Make that number static: qjit(static_argnums=...)."
        )
    if qnode.device.wires:
        labels = tuple(qnode.device.wires)
        # Only circuits that allocate wires need to know which they do not use.
        unused = lambda: [w for w in labels if w not in _used_wires(function, inputs, where)[0]]
        return WireMap(labels, where, unused)
    own, allocated = _used_wires(function, inputs, where)
    return WireMap((*own, *allocated), where, lambda: allocated)


def _used_wires(
    function: Callable[..., Any], inputs: Sequence[Any], where: str
) -> tuple[Sequence[Any], Sequence[int]]:
    """Return the wires that a circuit names, in PennyLane's order, and those that it allocates."""

    def labels_of_run() -> tuple[tuple[Any, ...], int]:
        labels: tuple[Any, ...] = ()
        needed = 0

        def run(*inputs: Any) -> tuple[()]:
            nonlocal labels, needed
            with circuit_scope(None), AnnotatedQueue() as queue:
                result = function(*inputs)
            operations, *_ = process_queue(queue)
            operations = [op for op in operations if not is_measurement(op)]
            processes = [
                leaf
                for leaf in jax.tree.leaves(result, is_leaf=is_measurement)
                # Outcomes are numbers; their wires stand among the operations.
                if is_measurement(leaf) and leaf.mv is None
            ]
            in_order = qml.wires.Wires.all_wires([part.wires for part in (*operations, *processes)])
            labels = tuple(w for w in in_order if not isinstance(w, qml.wires.DynamicWire))
            needed = number_needed(operations)
            return ()

        jax.eval_shape(run, *inputs)
        return labels, needed

    labels, needed = labels_of_run()
    if any(map(is_dynamic, labels)):
        # The index of a loop of known length is known where Python runs the loop.
        with unrolling():
            labels, needed = labels_of_run()
    if any(map(is_dynamic, labels)):
        raise CompileError(
            f"{where}: its wires are computed in the program, and the device has no wires of its "
            "own, or which are free must be known to allocate some. Say how many there are: "
            "qml.device(..., wires=n), and use qml.allocate with known wires alone."
        )
    # As PennyLane does: labels that are 0, 1, ... in any order stand for themselves.
    own = sorted(labels) if set(labels) == set(range(len(labels))) else labels
    first = max((label for label in labels if isinstance(label, int)), default=-1) + 1
    return own, range(first, first + needed)


def _check_no_debugger(qnode: qml.QNode, where: str) -> None:
    """Refuse ``qml.snapshots`` where PennyLane leaves them to the device, which we replace."""
    debugger = getattr(qnode.device, "_debugger", None)
    if debugger is not None and debugger.active:
        raise CompileError(
            f"{where}: qml.snapshots on {qnode.device.name} is not supported by bellhop. Use "
            "qml.device('lightning.qubit', wires=...), where the circuit runs once for each."
        )
