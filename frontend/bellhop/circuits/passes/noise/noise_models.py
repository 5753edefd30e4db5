"""Apply PennyLane's noise models to one operation at a time.

If the model adds a ``DepolarizingChannel(p)`` after each ``RX``::

    NoiseInserter(...).add_noise(RX(x, 0))    [RX(x, 0), DepolarizingChannel(p, 0)]

So noise can be added to a circuit that is not a tape: one with loops of dynamic trip count,
conditionals and mid-circuit measurements.
"""

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import numpy as np
import pennylane as qml
from pennylane.operation import StatePrepBase
from pennylane.tape import make_qscript

from bellhop.base.types import Wire
from bellhop.circuits.gates.allocation import Allocations
from bellhop.circuits.gates.decompositions import get_pennylane_decomposition
from bellhop.circuits.gates.tape_control_flow import ControlFlow
from bellhop.circuits.ir.circuit_config import CircuitConfig
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.circuits.passes.operation_transforms import QNodeTransforms
from bellhop.errors import CompileError
from bellhop.tracing.state import CONCRETIZATION_ERRORS, trace_state

# The code of the functions that ``partial_wires`` returns. They pass wires on without reading
# them, so the wires may be traced.
_PARTIAL_WIRES_CODE = qml.noise.partial_wires(qml.PauliX).__code__


class NoiseInserter:
    """Adds a PennyLane noise model's noise to one operation or measurement at a time.

    Args:
        where: the QNode's name and line, which begin error messages.
        noise_model: a ``qml.NoiseModel``.
        level: the ``level`` argument of ``qml.add_noise``. With ``"user"``, templates are
            decomposed before noise is added, as in PennyLane.
    """

    def __init__(self, where: str, noise_model: Any, level: Any = "user") -> None:
        self._where = where
        self._model = noise_model
        self._decomposes_templates = level == "user"

    @classmethod
    def from_config(cls, config: CircuitConfig) -> "NoiseInserter | None":
        """Make the inserter of a QNode's noise; None unless `add_noise` is its first transform."""
        if QNodeTransforms(config.transforms).names[:1] != ("add_noise",):
            return None
        first = config.transforms[0]
        return cls(config.where, *first.args, **first.kwargs)

    @staticmethod
    def can_add_piecewise(config: CircuitConfig, device: qml.devices.Device) -> bool:
        """Return whether noise can be added to a QNode's operations one at a time.

        Otherwise PennyLane adds the noise to a tape, without dynamic loops and conditionals. True
        if

        - the device is ``default.mixed``;
        - ``add_noise`` is the first transform: earlier transforms would change the operations that
          get noise;
        - no later transform needs the whole circuit;
        - the circuit is not folded.

        Args:
            config: the QNode's settings, with its transforms.
            device: the QNode's device.
        """
        is_noise_first = QNodeTransforms(config.transforms).names[:1] == ("add_noise",)
        is_mixed = type(device) is qml.devices.DefaultMixed
        rest = QNodeTransforms(config.transforms[1:])
        return is_mixed and is_noise_first and rest.is_piecewise and trace_state().folding is None

    @staticmethod
    def is_same_operation(one: Any, other: Any) -> bool:
        """Return whether two operations are equal; traced values must be identical."""
        if one is other:
            return True
        if type(one) is not type(other):
            return False
        if not any(map(is_dynamic, [*one.data, *one.wires, *other.data, *other.wires])):
            return bool(qml.equal(one, other))
        ones, others = map(_list_components, (one, other))
        return len(ones) == len(others) and all(map(_is_known_equal, ones, others))

    def add_noise(self, op: qml.operation.Operator, *, is_first: bool = False) -> list[Any]:
        """Return an operation with the noise around it, in order.

        Args:
            op: the operation. The list contains the same object, or the parts of a decomposed
                template, as PennyLane decomposes it.
            is_first: whether the operation is the circuit's first; an initial state preparation is
                not decomposed.

        Raises:
            CompileError: for an allocation of wires, or if the noise model reads a traced value.
        """
        self._reject_allocation(op)
        with qml.QueuingManager.stop_recording():
            stays = not self._decomposes_templates or (is_first and isinstance(op, StatePrepBase))
            parts = [op] if stays else list(_decompose_template(op))
            return [each for part in parts for each in self._add_noise_to_part(part)]

    def add_conditional_noise(self, op: qml.operation.Operator) -> list[Any]:
        """Return an operation with its noise, in a branch on a mid-circuit outcome.

        The noise model sees a ``qml.ops.Conditional`` of the operation; the list contains the
        operation itself. PennyLane decomposes a conditional template only if it also decomposes
        another operation of the tape, which is not known here.

        Args:
            op: the operation, without its condition.

        Raises:
            CompileError: if the noise would depend on this decomposition, if the noise model reads
                a traced value, and for an allocation of wires.
        """
        self._reject_allocation(op)
        with qml.QueuingManager.stop_recording():
            conditional = qml.ops.Conditional(None, op)
            noisy = self._add_noise_to_part(conditional)
            parts = list(_decompose_template(op)) if self._decomposes_templates else [op]
            if parts[0] is not op:
                inner = [self._add_noise_to_part(qml.ops.Conditional(None, part)) for part in parts]
                if any(len(each) > 1 for each in [noisy, *inner]):
                    raise CompileError(
                        f"{self._where}: {op.name} depends on a mid-circuit measurement, so "
                        f"qml.add_noise cannot tell whether noise applies to {op.name} or to the "
                        f"gates of its decomposition. Write these gates instead of {op.name}, or "
                        "write the channels instead of qml.add_noise."
                    )
            return [op if each is conditional else each for each in noisy]

    def _reject_allocation(self, op: qml.operation.Operator) -> None:
        """Raise an error if an operation allocates or deallocates wires.

        Raises:
            CompileError: for an ``Allocate`` or ``Deallocate`` operation.
        """
        if Allocations.is_allocation(op):
            raise CompileError(
                f"{self._where}: {op.name} with qml.add_noise is supported only in circuits "
                "without measure, conditionals and loops with a dynamic trip count. Use wires of "
                "the device in place of qml.allocate, or write channels after the gates in place "
                "of qml.add_noise."
            )

    def find_outcome_noise(
        self, label: Wire, *, reset: bool, postselect: int
    ) -> tuple[list[Any], list[Any]]:
        """Return the noise around a mid-circuit measurement.

        Args:
            label: the label of the measured wire.
            reset: whether the wire is reset to zero after the measurement.
            postselect: the outcome to postselect on, 0 or 1; -1 for none.

        Returns:
            the list of noise operations before the measurement, and the list after it.
        """
        kept = None if postselect < 0 else postselect
        with qml.QueuingManager.stop_recording():
            measured = qml.ops.MidMeasure(qml.wires.Wires(label), reset=reset, postselect=kept)
        noisy = self.add_noise(measured)
        position = next(n for n, each in enumerate(noisy) if each is measured)
        return noisy[:position], noisy[position + 1 :]

    def find_measurement_noise(self, process: qml.measurements.MeasurementProcess) -> list[Any]:
        """Return the noise operations before a measurement at the end of a circuit.

        Args:
            process: the measurement process. The noise depends on it, so measurements with
                different noise need separate copies of the final state.

        Raises:
            CompileError: if the noise model has noise for measurements and a wire is traced, or if
                it reads another traced value.
        """
        with qml.QueuingManager.stop_recording():
            noise: list[Any] = []
            if self._model.meas_map and any(map(is_dynamic, process.wires)):
                raise _traced_wires_error(self._where, f"the measurement {process}")
            for condition, function in self._model.meas_map.items():
                if self._matches_condition(condition, process):
                    noise += self._make_noise(function, process)
            return noise

    def _add_noise_to_part(self, op: qml.operation.Operator) -> list[Any]:
        """Return an operation with its noise in order, without decomposing it.

        Control flow gets no noise.
        """
        if ControlFlow.is_instance(op):
            return [op]
        operations = [op]
        for condition, function in self._model.model_map.items():
            if not self._matches_condition(condition, _hide_traced_wires(op, self._where)):
                continue
            noise = self._make_noise(function, op)
            # A noise function that applies the operation itself sets its position in the noise.
            index = next(
                (n for n, each in enumerate(noise) if NoiseInserter.is_same_operation(each, op)),
                None,
            )
            if index is None:
                operations += noise
            else:
                operations = noise[:index] + operations + noise[index + 1 :]
        return operations

    def _matches_condition(self, condition: Callable[[Any], Any], thing: object) -> bool:
        """Return whether an operation or measurement fulfils a condition of the noise model."""
        return self._call_model(lambda: bool(condition(thing)))

    def _make_noise(self, function: Callable[..., Any], thing: Any) -> list[Any]:
        """Call a noise function of the model, and return the operations that it queues.

        Args:
            function: a noise function, a value of the model's ``model_map`` or ``meas_map``.
            thing: the operation or measurement process to which the noise is added.

        Raises:
            CompileError: if a wire is traced and the function may read wires, or if the function
                needs the concrete value of a tracer.
        """
        # A function that compares a traced wire with a set of wires would silently add no noise.
        may_read_wires = getattr(function, "__code__", None) is not _PARTIAL_WIRES_CODE
        if may_read_wires and any(map(is_dynamic, thing.wires)):
            raise _traced_wires_error(self._where, thing.name)
        make = lambda: make_qscript(function)(thing, **self._model.metadata).operations
        return list(self._call_model(make))

    def _call_model(self, ask: Callable[[], Any]) -> Any:
        """Call a function of the noise model; explain JAX's errors about traced values.

        Args:
            ask: the function, without arguments; its result is returned.

        Raises:
            CompileError: if the function needs the concrete value of a tracer.
        """
        try:
            return ask()
        except CONCRETIZATION_ERRORS as error:
            raise CompileError(
                f"{self._where}: the noise model reads a traced value, which is known only when "
                "the program runs. Compute the value from static arguments (static_argnums) or "
                "constants."
            ) from error


def _list_components(op: qml.operation.Operator) -> list[Any]:
    """Return an operation's parameters, wires and hyperparameters in one list."""
    return [*op.data, *op.wires, *op.hyperparameters.values()]


def _is_known_equal(one: Any, other: Any) -> bool:
    """Return whether two parameters, wires or operators are certainly equal.

    Traced values are equal only if they are the same object.
    """
    if one is other or is_dynamic(one) or is_dynamic(other):
        return one is other
    if isinstance(one, qml.operation.Operator):
        return NoiseInserter.is_same_operation(one, other)
    return bool(np.array_equal(one, other))


def _decompose_template(op: qml.operation.Operator) -> Iterator[Any]:
    """Decompose a template or an adjoint recursively, as ``qml.add_noise`` does.

    Yields:
        the gates in order; ``op`` itself if it is neither a template nor an adjoint, or cannot be
        decomposed.
    """
    is_template = hasattr(qml.templates, op.name) or isinstance(op, qml.ops.Adjoint)
    if ControlFlow.is_instance(op) or not op.has_decomposition or not is_template:
        yield op
        return
    for part in get_pennylane_decomposition(op) or ():
        yield from _decompose_template(part)


class _UnreadableWires:
    """Replacement for wires of which one is traced; any use of it raises an error.

    Without it, a noise condition that compares a traced wire with a label would be False, and the
    noise would be missing.

    Args:
        error: the error that each use of the object raises.
    """

    def __init__(self, error: CompileError) -> None:
        self._error = error

    def _raise_error(self, *_: object) -> Any:
        """Raise the error; operators and attributes of this object call this method."""
        raise self._error

    __iter__ = __len__ = __getitem__ = __contains__ = __add__ = __radd__ = _raise_error
    __eq__ = __hash__ = _raise_error

    def __getattr__(self, name: str) -> Any:
        self._raise_error()


def _hide_traced_wires(op: qml.operation.Operator, where: str) -> Any:
    """Copy an operation so that reading its traced wires raises an error.

    Conditions of noise models get the copy, since they may read wires. An operation without traced
    wires is returned itself.
    """
    if not any(map(is_dynamic, op.wires)):
        return op
    seen = copy(op)
    wires = _UnreadableWires(_traced_wires_error(where, op.name))
    seen._wires = wires
    for name, value in op.hyperparameters.items():
        if isinstance(value, qml.operation.Operator):
            seen.hyperparameters[name] = _hide_traced_wires(value, where)
        elif isinstance(value, qml.wires.Wires):
            seen.hyperparameters[name] = wires
    return seen


def _traced_wires_error(where: str, name: str) -> CompileError:
    """Return the error for a noise model that may read traced wires.

    ``name`` is the operation or measurement process on these wires.
    """
    return CompileError(
        f"{where}: the noise model may read the wires of {name}, which are traced, expected static "
        "wires. Use conditions on types (qml.noise.op_in) with noise by qml.noise.partial_wires, "
        "or loops whose bounds are Python numbers."
    )
