"""PennyLane's transforms that need a circuit as a whole: it is put on a tape while it is traced.

The transform makes other tapes of it, each of which is run as a circuit, and a result of
theirs.  A tape holds gates, measurements in the middle and what their outcomes decide: loops of
known length are unrolled onto it, and other control flow is refused.
"""

import contextlib
import copy
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml
from pennylane.transforms.core import CompilePipeline

from bellhop.base.source import function_name
from bellhop.circuits.front.quantum_function import CachedFunction
from bellhop.circuits.front.tapes.gate_parameters import GateParameters
from bellhop.circuits.front.tapes.tape_execution import ReturnedOutcome, apply_tape
from bellhop.circuits.ir.broadcasting import Rows
from bellhop.circuits.ir.measurement_types import is_measurement
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.circuits.passes.gridsynth import support_traced_angles
from bellhop.circuits.passes.operation_transforms import (
    add_transform_note,
    get_transform_name,
    insert_folding_before_noise,
    is_piecewise,
)
from bellhop.circuits.passes.tape_circuit import TapeCircuit
from bellhop.errors import CompileError
from bellhop.tracing.state import circuit_scope, override_trace_state

Call = Callable[..., Any]


# Transforms that make random choices, which would be made once.
_RANDOM_AT_TRACE_TIME = ("spsa_grad",)

_CONCRETIZATION_ERRORS = jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError

_SIGN_EXPAND = qml.transforms.sign_expand.tape_transform


# Transforms that look at numbers by NumPy, and whether a tape has such that are computed.
_NEEDS_NUMPY: dict[str, Callable[[qml.tape.QuantumScript], bool]] = {
    "convert_to_numpy_parameters": lambda tape: any(
        map(is_dynamic, tape.get_parameters(trainable_only=False))
    ),
    "sign_expand": lambda tape: any(
        is_dynamic(number)
        for process in tape.measurements
        if process.obs
        for number in process.obs.data
    ),
}


def _sum_in_program(transform: Any) -> Any:
    """Return a transform whose results are added up in the program, where NumPy would do it."""
    if transform.tape_transform is not _SIGN_EXPAND:
        return transform

    def sign_expand(tape: qml.tape.QuantumScript, *args: Any, **options: Any) -> Any:
        tapes, finish = _SIGN_EXPAND(tape, *args, **options)
        return tapes, lambda results: finish(jnp.stack(results))

    return type(transform)(sign_expand, transform.args, transform.kwargs)


def needs_tape(qnode: qml.QNode) -> bool:
    """Return whether a QNode has transforms that cannot see its circuit in pieces."""
    return not all(map(is_piecewise, qnode.compile_pipeline))


def call_on_tape(
    qnode: qml.QNode,
    function: CachedFunction,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    where: str,
    call: Call,
) -> Any:
    """Trace a call of a QNode whose transforms need its circuit as a tape.

    Args:
        qnode: the QNode.
        function: its quantum function.
        args: its arguments.
        kwargs: its arguments by name.
        where: the QNode and its line, for errors.
        call: traces a call of a QNode without such transforms.

    Returns:
        the result, in the structure that the quantum function returned where the transforms
        keep the number of its measurements, and as the transforms make it where they do not.

    Raises:
        CompileError: for a circuit that is no tape, for transforms that draw at random, and for
            those that ask for a number that the program computes.
    """
    names = ", ".join(map(get_transform_name, qnode.compile_pipeline))
    has_noise_model = "add_noise" in map(get_transform_name, qnode.compile_pipeline)
    for transform in qnode.compile_pipeline:
        if get_transform_name(transform) in _RANDOM_AT_TRACE_TIME:
            raise CompileError(
                f"{where}: the transform {get_transform_name(transform)} draws its directions "
                f"when the "
                "program is traced, so every call would have the same; it is not supported by "
                "bellhop. Use bellhop.grad or bellhop.jacobian of the QNode."
            )

    def make_error(construct: str) -> CompileError:
        return CompileError(
            f"{where}: the transform {names} needs the circuit as a tape of gates, and this one "
            f"has {construct}. Take one of the two out; for noise, write channels behind the "
            "gates, or let one qml.add_noise be the first transform of a QNode on default.mixed "
            "that is not mitigated."
        )

    tape_circuit = functools.partial(TapeCircuit, where, Rows(where).get_row(None), make_error)

    def record(*args: Any) -> tuple[qml.tape.QuantumScript, list[Any], Any]:
        # A wire that the program computes is in no set of wires of a noise model.
        recorder = tape_circuit(knows_wires=has_noise_model)
        # What is no tracer the user may look at.
        once, inputs = function.bind_arguments(args, kwargs, jax.core.Tracer)
        leaves, tree = once.apply_to_circuit(recorder, inputs)
        leaves = [
            ReturnedOutcome(obs=leaf) if isinstance(leaf, qml.ops.MeasurementValue) else leaf
            for leaf in leaves
        ]
        processes = list(filter(is_measurement, leaves))
        recorder.check_static(processes, "measurements")
        tape = qml.tape.QuantumScript(recorder.steps, processes, shots=qnode.shots)
        return tape, leaves, tree

    tape, leaves, tree = record(*args)
    processes = tape.measurements
    transforms, is_folded = insert_folding_before_noise(qnode.compile_pipeline)
    pipeline = CompilePipeline(list(map(support_traced_angles, transforms)))
    pipeline = CompilePipeline(list(map(_sum_in_program, pipeline)))
    for name in map(get_transform_name, qnode.compile_pipeline):
        if _NEEDS_NUMPY.get(name, lambda _: False)(tape):
            raise CompileError(
                f"{where}: the transform {name} makes NumPy arrays of parameters, and this circuit "
                "has some that are only known when the program runs. Leave it out, or make what "
                "they come from static (static_argnums)."
            )
    if pipeline.has_classical_cotransform() and pipeline[-1].kwargs.get("hybrid", True):
        pipeline.cotransform_cache = GateParameters(
            lambda *args: record(*args)[0], args, pipeline, where
        )
    # Nothing is collected for the recorder, so control flow of decompositions is PennyLane's own.
    transforming = tape_circuit()
    transforming.has_users_callbacks = False
    with qml.QueuingManager.stop_recording(), circuit_scope(transforming):
        try:
            with add_transform_note(names):
                tapes, finish = pipeline((tape,))
        except _CONCRETIZATION_ERRORS as error:
            raise CompileError(
                f"{where}: the transform {names} asks for a number that is only known when the "
                "program runs. Make what it comes from static (static_argnums), or a constant."
            ) from error
        except Exception as error:
            measured = any(isinstance(step, qml.ops.MidMeasure) for step in tape.operations)
            if isinstance(error, CompileError) or not measured:
                raise
            raise CompileError(
                f"{where}: the transform {names} does not take a circuit with bellhop.measure in "
                f"it: {type(error).__name__}: {error} Leave one of the two out."
            ) from error
        if pipeline.is_informative:
            # It tells something about the tape, which nobody runs.
            return finish(tapes)[0]
    if len(tapes) > 1 and any(isinstance(process, ReturnedOutcome) for process in processes):
        raise CompileError(
            f"{where}: the transform {names} runs the circuit {len(tapes)} times, and the quantum "
            "function returns an outcome of measure, which is that of one run. Return qml.sample "
            "or qml.expval of the outcome, or leave the transform out."
        )
    # Results come by tape, and one was put in.
    with override_trace_state(folding=None) if is_folded else contextlib.nullcontext():
        (transformed,) = finish(
            tuple(call(_make_tape_qnode(changed, qnode), (), {}) for changed in tapes)
        )

    def to_returned_structure(values: Any) -> Any:
        if len(processes) == 1:
            values = (values,)
        if not isinstance(values, tuple | list) or len(values) != len(processes):
            return values
        measured = iter(values)
        return jax.tree.unflatten(
            tree, [next(measured) if is_measurement(leaf) else leaf for leaf in leaves]
        )

    if qnode.shots.has_partitioned_shots:
        return tuple(map(to_returned_structure, transformed))
    return to_returned_structure(transformed)


def _make_tape_qnode(tape: qml.tape.QuantumScript, qnode: qml.QNode) -> qml.QNode:
    """Return a QNode that runs a tape as another QNode would, without transforms."""

    @functools.wraps(qnode.func)
    def function() -> Any:
        return apply_tape(tape)

    function.__name__ = function_name(qnode.func)
    changed = copy.copy(qnode)
    changed.func = function
    changed._compile_pipeline = CompilePipeline()
    return changed if tape.shots == qnode.shots else qml.set_shots(changed, tape.shots)
