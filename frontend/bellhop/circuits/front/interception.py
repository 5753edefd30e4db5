"""Calls of QNodes inside our programs: trace the quantum function into a circuit."""

import contextlib
import copy
import functools
import inspect
import itertools
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
from bellhop._pennylane.patches.power_operations import make_powers_by
from bellhop._pennylane.patches.qnode_calls import patch_qnode_call
from bellhop._pennylane.patches.rs_decomposition import patch_rs_decomposition
from bellhop._pennylane.patches.shadow_seeds import note_drawn_seeds
from bellhop._pennylane.patches.stacked_angles import stack_traced_angles
from bellhop._pennylane.quantum_function_transforms import split_transforms
from bellhop.base.source import definition_site, error_site, function_name
from bellhop.circuits.backends.choose import choose_backend, run_python_device
from bellhop.circuits.front.mid_circuit_measure import wrap_pauli_measure
from bellhop.circuits.front.quantum_function import (
    CachedFunction,
    QuantumFunction,
    TracedQuantumFunction,
)
from bellhop.circuits.front.read_config import read_config
from bellhop.circuits.front.tapes.tape_transforms import call_on_tape, needs_tape
from bellhop.circuits.gates.allocation import Allocations
from bellhop.circuits.gates.traced_controls import wrap_controlled_constructor
from bellhop.circuits.gates.traced_powers import wrap_power
from bellhop.circuits.ir.backend_registry import Runner
from bellhop.circuits.ir.circuit import Circuit
from bellhop.circuits.ir.circuit_config import CircuitConfig
from bellhop.circuits.ir.gate_jaxpr import (
    UnknownValue,
    for_loop_p,
    get_operations,
    has_gates,
    operations_p,
    outcome_p,
    region_p,
)
from bellhop.circuits.ir.measurement_types import is_measurement
from bellhop.circuits.ir.precision import is_double
from bellhop.circuits.ir.seeds import offer_device_seed
from bellhop.circuits.ir.wires import WireMap, is_dynamic
from bellhop.circuits.passes.gridsynth import rs_decomposition
from bellhop.circuits.passes.noise_models import can_add_noise_piecewise
from bellhop.circuits.passes.operation_transforms import (
    adds_noise,
    get_global_folding,
    make_rewrite,
)
from bellhop.circuits.passes.used_wires import UsedWires
from bellhop.errors import CompileError
from bellhop.jaxprs.equations import iterate_equations
from bellhop.passes import PAULI_TWIRLING
from bellhop.tracing.state import is_tracing, override_trace_state, trace_state


@functools.cache
def intercept_qnodes() -> None:
    """Make QNodes that are called while we trace part of the program."""
    restore_removed_names()
    patch_controlled(wrap_controlled_constructor)
    make_powers_by(wrap_power)
    patch_rs_decomposition(rs_decomposition)
    stack_traced_angles()
    note_drawn_seeds()
    patch_pauli_measure(wrap_pauli_measure)
    patch_qnode_call(_intercept_call)


@contextlib.contextmanager
def _without_precision_warnings() -> Iterator[None]:
    """Let PennyLane ask for 128 bits where JAX's 64-bit types are off."""
    if is_double():
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Explicitly requested dtype", module="jax|pennylane|autoray"
        )
        yield


def _intercept_call(uncompiled: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(uncompiled)
    def call(self: qml.QNode, *args: Any, **kwargs: Any) -> Any:
        if is_tracing():
            return call_qnode(self, args, kwargs)
        return uncompiled(self, *args, **kwargs)

    return call


@_without_precision_warnings()
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
    qnode = _merge_function_transforms(qnode)
    where = f"the QNode '{function_name(qnode.func)}' ({definition_site(qnode.func)})"
    with _add_error_note(where):
        config = read_config(qnode, where)
        result = _call_with_runner(
            qnode, args, kwargs, config, choose_backend(qnode.device, config)
        )
        return _call_with_runner(qnode, args, kwargs, config, None) if result is None else result


def _merge_function_transforms(qnode: qml.QNode) -> qml.QNode:
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


def _call_with_runner(
    qnode: qml.QNode, args: Any, kwargs: Any, config: CircuitConfig, runner: Runner | None
) -> Any:
    debugger = getattr(qnode.device, "_debugger", None)
    if debugger is not None and debugger.active:
        return _call_with_snapshots(qnode, debugger, args, kwargs)
    function, mitigation = CachedFunction(qnode.func), trace_state().mitigation

    def run() -> Any:
        return _trace_call(qnode, function, args, kwargs, config, runner)

    # Tapes have no loops, and noise models know wires, and so the numbers of iterations.
    with override_trace_state(unrolls=needs_tape(qnode) or runner is None):
        return run() if mitigation is None else mitigation.run(run)


def _trace_call(
    qnode: qml.QNode,
    function: CachedFunction,
    args: Any,
    kwargs: Any,
    config: CircuitConfig,
    runner: Runner | None,
) -> Any:
    where = config.where
    if PAULI_TWIRLING in config.passes:
        _prepare_twirling(qnode, config)
    if needs_tape(qnode) and not can_add_noise_piecewise(config, qnode.device):
        return call_on_tape(qnode, function, args, kwargs, where, call_qnode)
    # On a tape the user may look at what is no tracer.
    computed = jax.core.Tracer if needs_tape(qnode) else jax.Array
    once, inputs = function.bind_arguments(
        args, kwargs, computed, n_folds=get_global_folding(), change=make_rewrite(config)
    )
    if needs_tape(qnode) and _has_only_gates_and_allocations(once.get_traced(where, inputs)):
        # What it allocates is a wire of the device on a tape alone.
        return call_on_tape(qnode, function, args, kwargs, where, call_qnode)
    circuit = Circuit(once, inputs, config)
    if runner is None:
        return run_python_device(circuit, qnode.device)
    result = runner(circuit, qnode.device, _make_wire_map(qnode, once, inputs, where))
    if result is None and not _has_outcomes(once.get_traced(where, inputs)):
        return run_python_device(circuit, qnode.device)
    return result


def _prepare_twirling(qnode: qml.QNode, config: CircuitConfig) -> None:
    """Offer the device's seed for random Paulis, and check that noise models will see them.

    Raises:
        CompileError: where noise is added on a tape, before Paulis are drawn.
    """
    if not config.shots.total:
        offer_device_seed(qnode.device)
    on_tape = needs_tape(qnode) and not can_add_noise_piecewise(config, qnode.device)
    if on_tape and adds_noise(config.transforms):
        raise CompileError(
            f"{config.where}: pauli_twirling together with noise that is not added piece by piece "
            "is not supported. Let one qml.add_noise be the first transform of a QNode on "
            "default.mixed that is not mitigated."
        )


def _has_outcomes(function: TracedQuantumFunction) -> bool:
    """Return whether a function measures in the middle, of which tapes have PennyLane's own objects.

    For these it is run anew.
    """
    return any(eqn.primitive is outcome_p for eqn in iterate_equations(function.closed.jaxpr))


@contextmanager
def _add_error_note(where: str) -> Iterator[None]:
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


def _make_wire_map(
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
        unused = lambda: [
            w for w in labels if w not in _find_used_wires(function, inputs, where)[0]
        ]
        return WireMap(labels, where, unused)
    own, allocated = _find_used_wires(function, inputs, where)
    return WireMap((*own, *allocated), where, lambda: allocated)


def _has_only_gates_and_allocations(function: TracedQuantumFunction) -> bool:
    """Return whether a circuit of gates alone allocates wires."""
    equations = list(filter(has_gates, iterate_equations(function.closed.jaxpr)))
    operations = itertools.chain.from_iterable(map(get_operations, equations))
    of_gates = operations_p, region_p, for_loop_p
    return any(map(Allocations.is_allocation, operations)) and all(
        e.primitive in of_gates for e in equations
    )


def _find_used_wires(
    function: QuantumFunction, inputs: Sequence[Any], where: str
) -> tuple[Sequence[Any], Sequence[int]]:
    """Return the wires that a circuit names, in PennyLane's order, and those that it allocates."""
    traced = function.get_traced(where, inputs)
    used, labels = _collect_wires(traced, unroll_loops=False)
    if any(isinstance(label, UnknownValue) for label in labels):
        # The number of an iteration is known where all iterations are gone through.
        used, labels = _collect_wires(traced, unroll_loops=True)
    if any(isinstance(label, UnknownValue) for label in labels):
        raise CompileError(
            f"{where}: its wires are computed in the program, and the device has no wires of its "
            "own, or which are free must be known to allocate some. Say how many there are: "
            "qml.device(..., wires=n), and use qml.allocate with known wires alone."
        )
    # As PennyLane does: labels that are 0, 1, ... in any order stand for themselves.
    own = sorted(labels) if set(labels) == set(range(len(labels))) else labels
    first = max((label for label in labels if isinstance(label, int)), default=-1) + 1
    return own, range(first, first + used.n_allocated)


def _collect_wires(
    function: TracedQuantumFunction, *, unroll_loops: bool
) -> tuple[UsedWires, list[Any]]:
    used = UsedWires(function.closed, unroll_loops=unroll_loops)
    leaves = function.leaves.with_values(used.results)
    # Outcomes are numbers; their wires stand among the operations.
    return used, used.list_wires(
        [leaf for leaf in leaves if is_measurement(leaf) and leaf.mv is None]
    )


def _call_with_snapshots(
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
