"""Interception of QNode calls while a program is traced."""

import contextlib
import copy
import functools
import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import pennylane as qml
from pennylane.transforms.core import BoundTransform, CompilePipeline

from bellhop._jax.patches.removed_jax_names import restore_removed_names
from bellhop._pennylane.patches.controlled_operations import patch_controlled
from bellhop._pennylane.patches.pauli_measure import patch_pauli_measure
from bellhop._pennylane.patches.power_operations import patch_pow
from bellhop._pennylane.patches.qnode_calls import patch_qnode_call
from bellhop._pennylane.patches.rs_decomposition import patch_rs_decomposition
from bellhop._pennylane.patches.shadow_seeds import mark_drawn_seeds
from bellhop._pennylane.patches.stacked_angles import stack_traced_angles
from bellhop._pennylane.quantum_function_transforms import split_transforms
from bellhop.base.exception_attributes import add_note as add_exception_note
from bellhop.base.source import error_site, name_with_site
from bellhop.circuits.backends.choose.choose_executor import choose, choose_fallback, get_runner
from bellhop.circuits.front.mid_circuit_measure import wrap_pauli_measure
from bellhop.circuits.front.quantum_function import (
    CachedFunction,
    QuantumFunction,
    TracedQuantumFunction,
)
from bellhop.circuits.front.read_config import read_config
from bellhop.circuits.front.tapes.tape_transforms import call_on_tape, needs_tape
from bellhop.circuits.front.traced_controls import wrap_controlled_constructor
from bellhop.circuits.ir.circuit import Circuit
from bellhop.circuits.ir.circuit_config import CircuitConfig, Shots
from bellhop.circuits.ir.execution_plan import Declined, ExecutionPlan
from bellhop.circuits.ir.executors import Executor
from bellhop.circuits.ir.gate_jaxpr import GateJaxpr, UnknownValue
from bellhop.circuits.ir.measurement_types import is_measurement
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.ir.seeds import offer_device_seed
from bellhop.circuits.ir.wires import WireMap, is_dynamic
from bellhop.circuits.measure.measurement_registry import is_computed_from_tape
from bellhop.circuits.passes.gridsynth import rs_decomposition
from bellhop.circuits.passes.noise.noise_pass import NoisePass
from bellhop.circuits.passes.operation_transforms import QNodeTransforms
from bellhop.circuits.passes.pass_chain import PassChain
from bellhop.circuits.passes.used_wires import UsedWires
from bellhop.compiler.compile_timing import add_note
from bellhop.errors import CompileError
from bellhop.passes import PAULI_TWIRLING
from bellhop.tracing.state import is_tracing, override_trace_state, trace_state


@functools.cache
def intercept_qnodes() -> None:
    """Patch PennyLane so that QNodes called during tracing become part of the program.

    The first call patches classes and functions of PennyLane in place, for the whole process;
    further calls do nothing.
    """
    restore_removed_names()
    patch_controlled(wrap_controlled_constructor)
    patch_pow()
    patch_rs_decomposition(rs_decomposition)
    stack_traced_angles()
    mark_drawn_seeds()
    patch_pauli_measure(wrap_pauli_measure)
    patch_qnode_call(_intercept_call)


@contextlib.contextmanager
def _without_precision_warnings() -> Iterator[None]:
    """Ignore JAX's warnings about unavailable 64-bit dtypes within the ``with`` block.

    PennyLane requests 64-bit dtypes. If JAX's x64 mode is enabled, no warning is ignored.
    """
    if Precision.is_double():
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Explicitly requested dtype", module="jax|pennylane|autoray"
        )
        yield


def _intercept_call(uncompiled: Callable[..., Any]) -> Callable[..., Any]:
    """Make a ``QNode.__call__`` that calls ``call_qnode`` while a program is traced.

    Outside of tracing it calls ``uncompiled``, PennyLane's method.
    """

    @functools.wraps(uncompiled)
    def call(self: qml.QNode, *args: Any, **kwargs: Any) -> Any:
        """Trace the call into the program if a program is traced, else let PennyLane run it."""
        if is_tracing():
            return call_qnode(self, args, kwargs)
        return uncompiled(self, *args, **kwargs)

    return call


@_without_precision_warnings()
def call_qnode(qnode: qml.QNode, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Trace a call of a QNode into the program.

    If the first choice of a backend does not support the circuit, another backend is chosen and the
    circuit is traced again.

    Args:
        qnode: the QNode that is called.
        args: the QNode's positional arguments.
        kwargs: the QNode's keyword arguments; may include PennyLane's legacy argument ``shots``.

    Returns:
        the measurements' values, traced arrays in the structure of the quantum function's result,
        or in the structure that the QNode's transforms return.

    Raises:
        CompileError: if the circuit is not supported; names the QNode and its line.
    """
    if "shots" in kwargs and "shots" not in inspect.signature(qnode.func).parameters:
        # PennyLane's legacy argument of QNode calls.
        if isinstance(kwargs["shots"], jax.core.Tracer):
            # The function has no parameter `shots` that could be declared static.
            where = f"the QNode {name_with_site(qnode.func)}"
            raise CompileError(
                f"{where}: the QNode is called with a traced argument shots, expected a static "
                "number, as XLA's arrays have fixed shapes. Set the shots on the QNode: "
                f"{Shots.ADVICE}."
            )
        others = {name: value for name, value in kwargs.items() if name != "shots"}
        return call_qnode(qml.set_shots(qnode, kwargs["shots"]), args, others)
    qnode = _merge_function_transforms(qnode)
    where = f"the QNode {name_with_site(qnode.func)}"
    with _add_error_note(where):
        config = read_config(qnode, where)
        plan = choose(qnode.device, config)
        result = _call_with_plan(qnode, args, kwargs, config, plan)
        if isinstance(result, Declined):
            plan = choose_fallback(result, plan, qnode.device, config)
            result = _call_with_plan(qnode, args, kwargs, config, plan)
        return result


def _merge_function_transforms(qnode: qml.QNode) -> qml.QNode:
    """Move the transforms of a QNode's quantum function to a copy of the QNode.

    PennyLane's transforms can be applied to the function before ``qml.qnode`` wraps it.  Such
    transforms run before the QNode's own transforms.

    Returns:
        a copy with the bare function and all transforms; ``qnode`` itself if the function has none.
    """
    function, transforms = split_transforms(qnode.func)
    if not transforms:
        return qnode
    transformed = qml.QNode(function, qnode.device)
    for transform, args, kwargs in transforms:
        transformed = transform(transformed, *args, **kwargs)
    changed = copy.copy(qnode)
    changed.func = function
    changed._compile_pipeline = CompilePipeline(
        [*transformed.compile_pipeline, *qnode.compile_pipeline]
    )
    return changed


def _call_with_plan(
    qnode: qml.QNode, args: Any, kwargs: Any, config: CircuitConfig, plan: ExecutionPlan
) -> Any:
    """Trace a QNode call for execution by the backend of ``plan``.

    Zero-noise extrapolation may trace the circuit several times. Under ``qml.snapshots``, the
    snapshots are measured too and stored in the device's debugger; ``config`` and ``plan`` are then
    not used, as each circuit gets its own.

    Args:
        qnode: the QNode that is called.
        args: its positional arguments.
        kwargs: its keyword arguments.
        config: the execution settings that were read from the QNode.
        plan: the chosen backend and its settings.

    Returns:
        the measurements' values. If the backend does not support the circuit and the call must be
        traced again for another backend, a ``Declined`` object with the reason.
    """
    debugger = getattr(qnode.device, "_debugger", None)
    if debugger is not None and debugger.active:
        return _call_with_snapshots(qnode, debugger, args, kwargs)
    function, mitigation = CachedFunction(qnode.func), trace_state().mitigation

    def run() -> Any:
        """Trace the call once."""
        return _trace_call(qnode, function, args, kwargs, config, plan)

    # Tapes have no loops, and noise models need static wires, so loops are unrolled for both.
    with override_trace_state(unrolls=needs_tape(qnode) or plan.executor is Executor.TAPES):
        return run() if mitigation is None else mitigation.run(run)


def _trace_call(
    qnode: qml.QNode,
    function: CachedFunction,
    args: Any,
    kwargs: Any,
    config: CircuitConfig,
    plan: ExecutionPlan,
) -> Any:
    """Trace the quantum function of a QNode call, and its execution on a backend.

    If the backend does not support the circuit, another backend gets the same traced function. A
    QNode with transforms that need a tape is traced by ``call_on_tape`` instead, unless a
    ``NoisePass`` can add its noise.

    Args:
        qnode: the QNode that is called.
        function: the quantum function, which caches its traced form.
        args: its positional arguments.
        kwargs: its keyword arguments.
        config: the execution settings that were read from the QNode.
        plan: the chosen backend and its settings.

    Returns:
        the measurements' values; or a ``Declined`` object if the function must be traced again.
        That is so if only a device that is called through Python supports the circuit, and the
        circuit has mid-circuit measurements.
    """
    where = config.where
    if PAULI_TWIRLING in config.passes:
        _prepare_twirling(qnode, config)
    if needs_tape(qnode) and not NoisePass.can_be_used(config, qnode.device):
        return call_on_tape(qnode, function, args, kwargs, where, call_qnode)
    # On a tape, transforms may read concrete arrays, so these remain constants.
    computed = jax.core.Tracer if needs_tape(qnode) else jax.Array
    passes = PassChain.from_config(config)
    once, inputs = function.bind_arguments(args, kwargs, computed, passes)
    if needs_tape(qnode) and _has_only_gates_and_allocations(once.get_traced(where, inputs)):
        # On a tape, the noise model sees an allocated wire as a wire of the device.
        return call_on_tape(qnode, function, args, kwargs, where, call_qnode)
    device = qnode.device

    def run(plan: ExecutionPlan) -> Any:
        """Trace the execution on the backend of ``plan``, and note the backend.

        The note is for ``verbose=True``; some backends add it themselves.

        Returns:
            the measurements' values, or ``Declined`` if the backend does not support the circuit.
        """
        circuit = Circuit(once, inputs, config, plan)
        # A device that Python calls maps wire labels itself.
        wires = (
            WireMap((), where)
            if plan.executor is Executor.TAPES
            else _make_wire_map(qnode, once, inputs, where)
        )
        result = get_runner(plan, device)(circuit, device, wires)
        # The runtime's and the arrays' backends complete the plan, and add the note.
        completes_plan = plan.executor in (Executor.ENGINE, Executor.PLUGIN, Executor.ARRAYS)
        if not (completes_plan or isinstance(result, Declined)):
            add_note(f"{config.name} ({config.site}) is executed by {plan}")
        return result

    try:
        result = run(plan)
    except CompileError:
        # A device that Python calls gets all measurements. Only the backend can trace the function,
        # as it chooses the inputs, so the measurements are known after it has declined.
        gets_all = plan.executor in (Executor.TAPES, Executor.NULL, Executor.REGISTERED)
        result = None if gets_all else _decline_transforms(once.get_traced(where, inputs), where)
        if result is None:
            raise
    if isinstance(result, Declined):
        other = choose_fallback(result, plan, device, config)
        is_for_tapes = other.executor is Executor.TAPES
        if not (is_for_tapes and _has_outcomes(once.get_traced(where, inputs))):
            return run(other)
    return result


def _decline_transforms(function: TracedQuantumFunction, where: str) -> Declined | None:
    """Find out whether a circuit has a user's `MeasurementTransform`, which needs a tape.

    PennyLane computes such a measurement from a tape, so only the ``tapes`` backend supports it.

    Args:
        function: the traced quantum function.
        where: the QNode's name and line, for error messages.

    Returns:
        a ``Declined`` object with the reason to choose another backend; None if the circuit has no
        such measurement.

    Raises:
        CompileError: if the circuit has such a measurement and a mid-circuit measurement.
    """
    names = [kind.__name__ for kind in function.leaf_types if is_computed_from_tape(kind)]
    if not names:
        return None
    if _has_outcomes(function):
        raise CompileError(
            f"{where}: {names[0]}, a MeasurementTransform, is not supported in a circuit with "
            "mid-circuit measurements. Measure expval, var, probs, sample or counts instead."
        )
    return Declined(
        f"the circuit measures {names[0]}, which is computed from a tape", needs_tape=True
    )


def _prepare_twirling(qnode: qml.QNode, config: CircuitConfig) -> None:
    """Check that a QNode supports Pauli twirling, and offer a seed to the program.

    Without shots, the seed is drawn from the device's random generator, unless the program has a
    seed already. With shots, no seed is drawn here.

    Args:
        qnode: the QNode.
        config: its execution settings.

    Raises:
        CompileError: if the QNode's noise is added to a tape, because twirling must come before the
            noise.
    """
    if not config.shots.total:
        offer_device_seed(qnode.device)
    on_tape = needs_tape(qnode) and not NoisePass.can_be_used(config, qnode.device)
    if on_tape and QNodeTransforms(config.transforms).adds_noise:
        raise CompileError(
            f"{config.where}: pauli_twirling is not supported with the noise of the QNode's "
            f"transforms {', '.join(QNodeTransforms(config.transforms).names)}. Add noise by one "
            "qml.add_noise as the first transform, use default.mixed, and leave out error "
            "mitigation."
        )


def _has_outcomes(function: TracedQuantumFunction) -> bool:
    """Return whether a traced function has mid-circuit measurements.

    If it has, a tape cannot be made from the traced function: the function must be traced again,
    with PennyLane's ``MeasurementValue`` objects as outcomes.
    """
    return GateJaxpr(function.closed, ()).has_outcomes


@contextmanager
def _add_error_note(where: str) -> Iterator[None]:
    """Add a note with the QNode and the user's line to exceptions raised in the ``with`` block.

    An exception whose message or notes name the QNode already gets no note.
    """
    try:
        yield
    except Exception as error:
        site = error_site(error)
        # The site is unknown if no frame of the user is in the traceback.
        note = f"raised in {where}{'' if site == '<unknown>' else f', at {site}'}"
        if where not in "\n".join([str(error), *getattr(error, "__notes__", ())]):
            add_exception_note(error, note)
        raise


def _make_wire_map(
    qnode: qml.QNode, function: QuantumFunction, inputs: Sequence[Any], where: str
) -> WireMap:
    """Map wire labels to qubits: the labels of the device, or of the circuit.

    Args:
        qnode: the QNode. If its device has no wires, the map has the wires that the circuit uses,
            and additional wires for ``qml.allocate``.
        function: the quantum function. It is traced now if the device has no wires; otherwise it is
            traced when ``qml.allocate`` needs an unused wire, if it was not traced before.
        inputs: its arguments that are arrays.
        where: the QNode's name and line, for error messages.

    Returns:
        the map. With a device with wires, ``qml.allocate`` raises an error if a wire of the circuit
        is traced.

    Raises:
        CompileError: if a wire label of the device, or their number, is traced; or if the device
            has no wires and a wire of the circuit is traced.
    """
    if any(map(is_dynamic, qnode.device.wires or ())):
        raise CompileError(
            f"{where}: the number or a label of the device's wires is traced, expected static "
            "wires, as XLA's arrays have fixed shapes. Make the argument wires of the device "
            "static: qjit(static_argnums=...)."
        )
    if qnode.device.wires:
        labels = tuple(qnode.device.wires)
        # Computed lazily, since only circuits that allocate wires need the unused labels.
        unused = lambda: [
            w
            for w in labels
            if w not in _find_used_wires(function, inputs, where, has_device_wires=True)[0]
        ]
        return WireMap(labels, where, unused)
    own, allocated = _find_used_wires(function, inputs, where, has_device_wires=False)
    return WireMap((*own, *allocated), where, lambda: allocated)


def _has_only_gates_and_allocations(function: TracedQuantumFunction) -> bool:
    """Return whether a circuit allocates wires and, apart from that, only applies gates.

    For loops, and adjoint and controlled functions, count as gates. False for a circuit with
    mid-circuit measurements, or with conditionals or while loops that apply gates.

    Args:
        function: the traced quantum function.
    """
    gates = GateJaxpr(function.closed, ())
    return gates.has_allocations and gates.is_straight


def _find_used_wires(
    function: QuantumFunction, inputs: Sequence[Any], where: str, *, has_device_wires: bool
) -> tuple[Sequence[Any], Sequence[int]]:
    """Find the wires that a circuit uses, and choose labels for allocated wires.

    A circuit with gates on the wires 0 and 1, which allocates one wire, gives ``[0, 1], [2]``.

    Args:
        function: the quantum function, which is traced if necessary.
        inputs: its arguments that are arrays.
        where: the QNode's name and line, for error messages.
        has_device_wires: whether the device has wires; selects the text of the error.

    Returns:
        the wire labels of gates and measurements, in PennyLane's order; and new integer labels, one
        for each additional wire that ``qml.allocate`` needs.

    Raises:
        CompileError: if a wire is traced, even in unrolled loops.
    """
    traced = function.get_traced(where, inputs)
    used, labels = _collect_wires(traced, unroll_loops=False)
    if any(isinstance(label, UnknownValue) for label in labels):
        # Wires that depend on the loop index are static in unrolled loops.
        used, labels = _collect_wires(traced, unroll_loops=True)
    if any(isinstance(label, UnknownValue) for label in labels):
        if has_device_wires:
            raise CompileError(
                f"{where}: a wire is traced, expected static wires, as the circuit calls "
                "qml.allocate, which chooses wires that no gate uses. Use wires of the device in "
                "place of qml.allocate, or make the traced wires static."
            )
        raise CompileError(
            f"{where}: a wire is traced, expected static wires, as the device was made without "
            "wires. Pass the number of wires: qml.device(..., wires=n)."
        )
    # As in PennyLane, labels that are 0, 1, ... in any order are sorted.
    own = sorted(labels) if set(labels) == set(range(len(labels))) else labels
    first = max((label for label in labels if isinstance(label, int)), default=-1) + 1
    return own, range(first, first + used.n_allocated)


def _collect_wires(
    function: TracedQuantumFunction, *, unroll_loops: bool
) -> tuple[UsedWires, list[Any]]:
    """Collect the wires of the gates and measurements of a traced function.

    Args:
        function: the traced function.
        unroll_loops: whether each iteration of a loop is visited with a static index, which finds
            wires that are computed from the index.

    Returns:
        the analysis of the gates; and the wire labels in PennyLane's order, each once, with an
        ``UnknownValue`` for each traced wire.
    """
    used = UsedWires(function.closed, unroll_loops=unroll_loops)
    leaves = function.leaves.with_values(used.results)
    # Measurements of mid-circuit outcomes are skipped: `used` has the wires of `measure`.
    return used, used.list_wires(
        [leaf for leaf in leaves if is_measurement(leaf) and leaf.mv is None]
    )


def _call_with_snapshots(
    qnode: qml.QNode, debugger: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Trace a QNode under ``qml.snapshots``, with one circuit for each snapshot.

    Used for devices whose simulator would collect the snapshots in PennyLane. The snapshots'
    traced values are stored in ``debugger.snapshots`` by tag. The debugger is inactive during the
    trace.

    Args:
        qnode: the QNode.
        debugger: the device's debugger, with the dictionary ``snapshots``.
        args: the QNode's positional arguments.
        kwargs: the QNode's keyword arguments.

    Returns:
        the measurements' values of the QNode without its snapshots.

    Raises:
        CompileError: if the device has no fixed wires.
    """
    if not qnode.device.wires:
        where = f"the QNode {name_with_site(qnode.func)}"
        raise CompileError(
            f"{where}: qml.snapshots needs a device with a known number of wires. Pass the number: "
            "qml.device(..., wires=n)."
        )
    # The last transform numbers the snapshots without a tag; `qml.snapshots` below does it too.
    *transforms, _ = qnode.compile_pipeline
    changed = copy.copy(qnode)
    changed._compile_pipeline = CompilePipeline([*transforms, BoundTransform(qml.snapshots)])
    debugger.active = False
    try:
        snapshots = call_qnode(changed, args, kwargs)
    finally:
        debugger.active = True
    result = snapshots.pop("execution_results")
    debugger.snapshots.update(snapshots)
    return result
