"""PennyLane's transforms of whole circuits, which need a tape.

The transform returns new tapes, each of which is run as a circuit, and a function that combines
their results.  A tape holds gates, mid-circuit measurements and conditionals on their outcomes:
loops with a static trip count are unrolled, and other control flow is not supported.
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

from bellhop.base.source import set_function_name
from bellhop.circuits.front.quantum_function import CachedFunction
from bellhop.circuits.front.tapes.gate_parameters import GateParameters
from bellhop.circuits.front.tapes.tape_execution import ReturnedOutcome, apply_tape
from bellhop.circuits.front.tapes.traced_wires_check import check_traced_wires
from bellhop.circuits.gates.gate_check import check_is_gate
from bellhop.circuits.ir.broadcasting import Rows
from bellhop.circuits.ir.measurement_types import is_measurement
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.circuits.passes.operation_transforms import QNodeTransforms
from bellhop.circuits.passes.tape_circuit import TapeCircuit
from bellhop.errors import CompileError
from bellhop.tracing.state import circuit_scope, override_trace_state

Call = Callable[..., Any]


# Transforms that draw random numbers, which would be drawn only once, during tracing.
_RANDOM_AT_TRACE_TIME = ("spsa_grad",)

_CONCRETIZATION_ERRORS = jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError

_SIGN_EXPAND = qml.transforms.sign_expand.tape_transform


# Transforms that convert numbers to NumPy; each function returns whether a tape has traced ones.
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


def _stack_sign_expand_results(transform: Any) -> Any:
    """Change the transform ``sign_expand`` so that its postprocessing gets one array.

    The changed transform stacks the results of its tapes, which PennyLane's postprocessing then
    sums.

    Args:
        transform: PennyLane's ``BoundTransform``.

    Returns:
        the changed transform; ``transform`` itself if it is not ``sign_expand``.
    """
    if transform.tape_transform is not _SIGN_EXPAND:
        return transform

    def sign_expand(tape: qml.tape.QuantumScript, *args: Any, **options: Any) -> Any:
        """Apply PennyLane's transform; its postprocessing gets the stacked results."""
        tapes, finish = _SIGN_EXPAND(tape, *args, **options)
        return tapes, lambda results: finish(jnp.stack(results))

    return type(transform)(sign_expand, transform.args, transform.kwargs)


def needs_tape(qnode: qml.QNode) -> bool:
    """Return whether a QNode has a transform that needs the whole circuit as a tape."""
    return not QNodeTransforms(qnode.compile_pipeline).is_piecewise


def call_on_tape(
    qnode: qml.QNode,
    function: CachedFunction,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    where: str,
    call: Call,
) -> Any:
    """Trace a QNode call whose transforms need the circuit as a tape.

    The circuit is recorded on a tape, the transforms map it to new tapes, each new tape is traced
    as a circuit, and the postprocessing of the transforms combines the results.

    Args:
        qnode: the QNode that is called.
        function: the QNode's quantum function, which caches its traced form.
        args: the QNode's positional arguments.
        kwargs: the QNode's keyword arguments.
        where: the QNode's name and line, for error messages.
        call: ``call_qnode``, which traces the QNode of each resulting tape.

    Returns:
        the result: in the structure of the quantum function's result if the transforms keep the
        number of measurements, else in the structure that the transforms return; with a shot
        vector, a tuple of such results. For an informative transform, which returns a property of
        the tape, the property.

    Raises:
        CompileError: if the circuit cannot be a tape or has a projector among its gates; if a
            transform draws random directions, needs the value of a tracer, or may compare wires of
            which some are traced; or if the function returns a mid-circuit outcome, and there are
            several new tapes.
    """
    original = QNodeTransforms(qnode.compile_pipeline)
    names = ", ".join(original.names)
    has_noise_model = "add_noise" in original.names
    for name in original.names:
        if name in _RANDOM_AT_TRACE_TIME:
            raise CompileError(
                f"{where}: the transform {name} is not supported by "
                "bellhop: it draws random directions while the program is traced, so every call "
                "would use the same directions. Use bellhop.grad or bellhop.jacobian of the QNode."
            )

    def make_error(construct: str) -> CompileError:
        """Make the error for a construct, such as "a while_loop", that a tape cannot hold."""
        noise_remedy = (
            "; for noise, write channels after the gates, or make one qml.add_noise the first "
            "transform of a QNode on default.mixed without error mitigation"
        )
        return CompileError(
            f"{where}: the transform {names} needs a tape of gates, which cannot hold {construct}. "
            f"Remove the transform or {construct}{noise_remedy if original.adds_noise else ''}."
        )

    tape_circuit = functools.partial(TapeCircuit, where, Rows(where).get_row(None), make_error)

    def record(*args: Any) -> tuple[qml.tape.QuantumScript, list[Any], Any]:
        """Record the QNode's circuit for some arguments on a tape.

        Returns:
            the tape; and the leaves and the tree structure of the quantum function's result.
        """
        # Noise models compare wires, so they need static ones.
        recorder = tape_circuit(requires_static_wires=has_noise_model)
        # Concrete arrays remain constants, whose values transforms may read.
        once, inputs = function.bind_arguments(args, kwargs, jax.core.Tracer)
        try:
            leaves, tree = once.apply_to_circuit(recorder, inputs)
        except TypeError as error:
            if all(type(value).__hash__ is not None for value in inputs):
                raise
            # JAX does not hash the tracers of vmap, and PennyLane hashes wires.
            raise CompileError(
                f"{where}: the transform {names} does not support a circuit whose wires "
                "jax.vmap maps over. Call the QNode for each wire, or leave the transform out."
            ) from error
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
    for step in tape.operations:
        if isinstance(step, qml.Projector):
            # A projector on a transformed tape is the postselection of a deferred measurement.
            check_is_gate(step, where, is_part=False, can_apply_matrices=False)
    # Noise models have an error of their own.
    check_traced_wires(qnode.compile_pipeline, tape, where)
    transforms, is_folded = original.insert_folding()
    pipeline = CompilePipeline(QNodeTransforms(transforms).support_traced_angles())
    in_program = QNodeTransforms(list(map(_stack_sign_expand_results, pipeline)))
    has_shots = bool(qnode.shots)
    pipeline = CompilePipeline(in_program.keep_matrix_derivatives(has_shots=has_shots))
    for name in original.names:
        if _NEEDS_NUMPY.get(name, lambda _: False)(tape):
            raise CompileError(
                f"{where}: the transform {name} converts parameters to NumPy arrays, which is not "
                "supported for traced parameters. Leave the transform out, or make the arguments "
                "that the parameters are computed from static (static_argnums)."
            )
    if pipeline.has_classical_cotransform() and pipeline[-1].kwargs.get("hybrid", True):
        pipeline.cotransform_cache = GateParameters(
            lambda *args: record(*args)[0], args, pipeline, where
        )
    # Control flow in decompositions is PennyLane's own, without callbacks of the user.
    transforming = tape_circuit()
    transforming.has_users_callbacks = False
    with qml.QueuingManager.stop_recording(), circuit_scope(transforming):
        try:
            with original.note_errors():
                tapes, finish = pipeline((tape,))
        except _CONCRETIZATION_ERRORS as error:
            raise CompileError(
                f"{where}: the transform {names} needs the value of a traced number. Make the "
                "arguments that the number is computed from static (static_argnums), or constants."
            ) from error
        except Exception as error:
            measured = any(isinstance(step, qml.ops.MidMeasure) for step in tape.operations)
            if isinstance(error, CompileError) or not measured:
                raise
            raise CompileError(
                f"{where}: the transform {names} does not support circuits with bellhop.measure. "
                "Leave out the transform or the measurement. PennyLane raised "
                f"{type(error).__name__}: {error}"
            ) from error
        if pipeline.is_informative:
            # Informative transforms return a property of the tape, which is not run.
            return finish(tapes)[0]
    if len(tapes) > 1 and any(isinstance(process, ReturnedOutcome) for process in processes):
        raise CompileError(
            f"{where}: the transform {names} runs the circuit {len(tapes)} times, and the quantum "
            "function returns an outcome of measure, which each run would define differently. "
            "Return a measurement of the outcome, such as qml.expval, or leave the transform out."
        )
    # `finish` returns one result for each input tape, here for one.
    with override_trace_state(folding=None) if is_folded else contextlib.nullcontext():
        (transformed,) = finish(
            tuple(call(_make_tape_qnode(changed, qnode), (), {}) for changed in tapes)
        )

    def to_returned_structure(values: Any) -> Any:
        """Rebuild the quantum function's result from the values of its measurements.

        Args:
            values: the value of the only measurement, or a sequence of the measurements' values.

        Returns:
            the result; ``values`` itself if the transforms changed the number of measurements.
        """
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
    """Make a QNode that runs a tape.

    The new QNode has the device, settings and name of ``qnode``, the shots of the tape, and no
    transforms.
    """

    @functools.wraps(qnode.func)
    def function() -> Any:
        """Apply the tape to the current circuit."""
        return apply_tape(tape)

    changed = copy.copy(qnode)
    changed.func = set_function_name(qnode.func, function)
    changed._compile_pipeline = CompilePipeline()
    return changed if tape.shots == qnode.shots else qml.set_shots(changed, tape.shots)
