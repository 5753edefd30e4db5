"""Calls of QNodes inside our programs: trace the quantum function into a circuit."""

import copy
import functools
import inspect
import itertools
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
from bellhop.base.equations import iterate_equations
from bellhop.base.source import definition_site, error_site, function_name
from bellhop.circuits.circuit.qnode_call import QNodeCall, check_number_of_shots
from bellhop.circuits.gates.computed_controls import making_controlled
from bellhop.circuits.gates.computed_powers import power_of_traced
from bellhop.circuits.gates.gridsynth import rs_decomposition
from bellhop.circuits.gates.noise_models import takes_noise_in_pieces
from bellhop.circuits.gates.rewrites import global_folding
from bellhop.circuits.gates.wires import WireMap, is_dynamic
from bellhop.circuits.measure.process import is_measurement
from bellhop.circuits.pennylane.tape_transforms import (
    call_on_tape,
    needs_tape,
)
from bellhop.circuits.precision import without_precision_warnings
from bellhop.circuits.qnode.circuit_runner import Runner, run_by_python, runner_of
from bellhop.circuits.recording.allocation import is_allocation
from bellhop.circuits.recording.gate_jaxpr import (
    Unknown,
    for_loop_p,
    has_gates,
    operations_of,
    operations_p,
    outcome_p,
    region_p,
)
from bellhop.circuits.recording.mid_circuit import measuring_pauli_words
from bellhop.circuits.recording.used_wires import UsedWires
from bellhop.circuits.recording.whole_function import (
    QuantumFunction,
    RunOnce,
    TracedQuantumFunction,
)
from bellhop.errors import CompileError
from bellhop.tracing.state import is_tracing, override_trace_state, trace_state


@functools.cache
def intercept_qnodes() -> None:
    """Make QNodes that are called while we trace part of the program."""
    restore_removed_names()
    patch_controlled(making_controlled)
    patch_pow(power_of_traced)
    patch_rs_decomposition(rs_decomposition)
    stack_traced_angles()
    mark_drawn_seeds()
    patch_pauli_measure(measuring_pauli_words)
    patch_qnode_call(_in_programs)


def _in_programs(uncompiled: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(uncompiled)
    def call(self: qml.QNode, *args: Any, **kwargs: Any) -> Any:
        if is_tracing():
            return call_qnode(self, args, kwargs)
        return uncompiled(self, *args, **kwargs)

    return call


@without_precision_warnings()
def call_qnode(qnode: qml.QNode, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Trace a call of a QNode.

    Returns:
        the measurements' values, in the structure that the quantum function returned.

    Raises:
        CompileError: for what circuits cannot do yet; names the QNode and its line.
    """
    if "shots" in kwargs and "shots" not in inspect.signature(qnode.func).parameters:
        # PennyLane's former way to say how many.
        others = {name: value for name, value in kwargs.items() if name != "shots"}
        return call_qnode(qml.set_shots(qnode, kwargs["shots"]), args, others)
    qnode = _with_transforms_of_function(qnode)
    result = _call(qnode, args, kwargs, runner_of(qnode))
    return _call(qnode, args, kwargs, None) if result is None else result


def _with_transforms_of_function(qnode: qml.QNode) -> qml.QNode:
    """Return a QNode with the transforms of its quantum function as its own first transforms."""
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


def _call(qnode: qml.QNode, args: Any, kwargs: Any, runner: Runner | None) -> Any:
    debugger = getattr(qnode.device, "_debugger", None)
    if debugger is not None and debugger.active:
        return _with_snapshots(qnode, debugger, args, kwargs)
    function, mitigation = RunOnce(qnode.func), trace_state().mitigation
    where = f"the QNode '{function_name(qnode.func)}' ({definition_site(qnode.func)})"

    def run() -> Any:
        with _named_in_errors(where):
            return _run(qnode, function, args, kwargs, where, runner)

    # Tapes have no loops, and noise models know wires, and so the numbers of iterations.
    with override_trace_state(unrolls=needs_tape(qnode) or runner is None):
        return run() if mitigation is None else mitigation.run(run)


def _run(
    qnode: qml.QNode, function: RunOnce, args: Any, kwargs: Any, where: str, runner: Runner | None
) -> Any:
    check_number_of_shots(qnode, where)
    if needs_tape(qnode) and not takes_noise_in_pieces(qnode):
        return call_on_tape(qnode, function, args, kwargs, where, call_qnode)
    # On a tape the user may look at what is no tracer.
    computed = jax.core.Tracer if needs_tape(qnode) else jax.Array
    once, inputs = function.of(args, kwargs, computed, folds=global_folding())
    if needs_tape(qnode) and _allocates_alone(once.traced(where, inputs)):
        # What it allocates is a wire of the device on a tape alone.
        return call_on_tape(qnode, function, args, kwargs, where, call_qnode)
    traced_call = QNodeCall(qnode, once, inputs, where)
    if runner is None:
        return run_by_python(traced_call)
    result = runner(traced_call, _wire_map(qnode, once, inputs, where))
    if result is None and not _has_outcomes(once.traced(where, inputs)):
        return run_by_python(traced_call)
    return result


def _has_outcomes(function: TracedQuantumFunction) -> bool:
    """Tell whether a function measures in the middle, of which tapes have PennyLane's own objects.

    For these it is run anew.
    """
    return any(eqn.primitive is outcome_p for eqn in iterate_equations(function.closed.jaxpr))


@contextmanager
def _named_in_errors(where: str) -> Iterator[None]:
    """Add a note that names the QNode to exceptions which do not."""
    try:
        yield
    except Exception as error:
        site = error_site(error)
        # None of the user's frames may lie between the call of the QNode and the error.
        note = f"raised in {where}{'' if site == '<unknown>' else f', at {site}'}"
        if where not in "\n".join([str(error), *getattr(error, "__notes__", ())]):
            error.add_note(note)
        raise


def _wire_map(
    qnode: qml.QNode, function: QuantumFunction, inputs: Sequence[Any], where: str
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


def _allocates_alone(function: TracedQuantumFunction) -> bool:
    """Tell whether a circuit of gates alone allocates wires."""
    equations = list(filter(has_gates, iterate_equations(function.closed.jaxpr)))
    operations = itertools.chain.from_iterable(map(operations_of, equations))
    of_gates = operations_p, region_p, for_loop_p
    return any(map(is_allocation, operations)) and all(e.primitive in of_gates for e in equations)


def _used_wires(
    function: QuantumFunction, inputs: Sequence[Any], where: str
) -> tuple[Sequence[Any], Sequence[int]]:
    """Return the wires that a circuit names, in PennyLane's order, and those that it allocates."""
    traced = function.traced(where, inputs)
    used, labels = _wires_of(traced, goes_through_loops=False)
    if any(isinstance(label, Unknown) for label in labels):
        # The number of an iteration is known where all iterations are gone through.
        used, labels = _wires_of(traced, goes_through_loops=True)
    if any(isinstance(label, Unknown) for label in labels):
        raise CompileError(
            f"{where}: its wires are computed in the program, and the device has no wires of its "
            "own, or which are free must be known to allocate some. Say how many there are: "
            "qml.device(..., wires=n), and use qml.allocate with known wires alone."
        )
    # As PennyLane does: labels that are 0, 1, ... in any order stand for themselves.
    own = sorted(labels) if set(labels) == set(range(len(labels))) else labels
    first = max((label for label in labels if isinstance(label, int)), default=-1) + 1
    return own, range(first, first + used.n_allocated)


def _wires_of(
    function: TracedQuantumFunction, *, goes_through_loops: bool
) -> tuple[UsedWires, list[Any]]:
    used = UsedWires(function.closed, goes_through_loops=goes_through_loops)
    leaves = function.leaves.with_values(used.results)
    # Outcomes are numbers; their wires stand among the operations.
    return used, used.of([leaf for leaf in leaves if is_measurement(leaf) and leaf.mv is None])


def _with_snapshots(
    qnode: qml.QNode, debugger: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Trace a QNode of ``qml.snapshots`` whose device PennyLane leaves them to: a circuit for each.

    Returns:
        the result; the debugger has the snapshots.
    """
    if not qnode.device.wires:
        where = f"the QNode '{function_name(qnode.func)}' ({definition_site(qnode.func)})"
        raise CompileError(
            f"{where}: qml.snapshots needs to know the wires of the state at each. Say how many "
            "there are: qml.device(..., wires=n)."
        )
    # The last transform gives numbers to snapshots without a tag, as the one here does.
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
