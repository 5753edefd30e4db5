"""The Python function that a program calls for a circuit: it executes tapes on a device.

A `CircuitFunction` fills a tape template with the values of operands, executes the tape, and
returns the results as arrays, with their derivatives if it has an order of differentiation.
"""

import contextlib
import copy
import math
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
import pennylane as qml
from autograd.core import make_vjp
from autograd.tracer import getval
from pennylane.exceptions import AllocationError

from bellhop._pennylane.patches.shadow_seeds import user_seed
from bellhop.base.finite_diff_step import finite_diff_step
from bellhop.circuits.backends.tapes.template import Template
from bellhop.circuits.gates.allocation import Allocations
from bellhop.circuits.ir.circuit_config import CircuitConfig
from bellhop.circuits.ir.diff_method import DiffMethod
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.measure.measurement_registry import is_computed_from_tape
from bellhop.circuits.measure.result_types import ProcessResult
from bellhop.errors import CompileError

# A lock per device: XLA calls from several threads, and devices are not thread-safe.
_locks: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()
_locks_lock = threading.Lock()

_SHADOWS = (qml.measurements.ClassicalShadowMP, qml.measurements.ShadowExpvalMP)

_EXECUTE_OPTIONS = ("cache", "cachesize", "device_vjp", "executor_backend", "grad_on_execution")


@dataclass(frozen=True)
class CircuitFunction:
    """The Python function that a program calls to run a circuit on its device.

    It fills a tape template with the values of the operands, executes the tape and returns arrays.
    A derivative needs another instance, made by `differentiate`. Instances live as long as the
    program.

    Attributes:
        config: the QNode's settings.
        device: the PennyLane device that executes the tapes.
        where: the QNode's name and line, which begin error messages.
        template: the tape with placeholders for traced values.
        operands: shape and dtype of each operand that fills the template, without batch axes.
        results: the shape, dtype and measurement process of each result of a tape; with a shot
            vector, all results of the first entry, then of the next entry.
        is_seeded: whether a random seed follows the operands in a call.
        perturbed_operands: indices of the operands with respect to which it is differentiated.
        order: the highest order of the derivatives that are returned after the results; 0 for none.
        method: PennyLane's ``diff_method`` for the derivatives; None without derivatives.
    """

    config: CircuitConfig = field(compare=False)
    device: Any = field(compare=False)
    where: str
    template: Template
    operands: tuple[jax.ShapeDtypeStruct, ...]
    results: tuple[ProcessResult, ...]
    is_seeded: bool
    perturbed_operands: tuple[int, ...] = ()
    order: int = 0
    method: Any = None

    @property
    def __name__(self) -> str:
        return str(self.config.function.__name__)

    def make_example_tape(self) -> qml.tape.QuantumScript:
        """Return a tape with zeros for all operands, to query what the device supports."""
        # Amplitudes of zero have no norm, which gives warnings of divisions by zero.
        with np.errstate(all="ignore"):
            return self.template.make_example_tape(
                [np.zeros(x.shape, x.dtype) for x in self.operands]
            )

    def check_allocations(self) -> None:
        """Raise a `CompileError` if the device lacks wires that ``qml.allocate`` needs.

        It builds an example tape, while the circuit is traced.
        """
        if not any(Allocations.is_allocation(part.prototype) for part in self.template.parts):
            return
        try:
            self.make_example_tape()
        except (AllocationError, KeyError) as error:
            raise CompileError(
                f"{self.where}: the device has too few wires for qml.allocate, or an allocated "
                "wire is used after qml.deallocate. Use a device with more wires, or deallocate "
                "each wire once, after its last use. PennyLane raised "
                f"{type(error).__name__}: {error}"
            ) from error

    def differentiate(self, operands: Sequence[int], method: Any) -> "CircuitFunction":
        """Return a copy that also returns the derivatives of the next higher order.

        Args:
            operands: indices of the operands with respect to which the last call is differentiated;
                they are added to `perturbed_operands`.
            method: PennyLane's ``diff_method`` for all orders.
        """
        every = tuple(sorted({*self.perturbed_operands, *operands}))
        return replace(self, perturbed_operands=every, order=self.order + 1, method=method)

    def get_leading_axes(self, operands: Sequence[Any]) -> tuple[int, ...]:
        """Return the shape of the batch axes that ``jax.vmap`` added to the operands.

        It is ``()`` without such axes, and without operands.

        Args:
            operands: the operands of a call, with the seed if any. All have these axes first.
        """
        if not operands:
            return ()
        # A circuit without operands may have a seed, which has one axis.
        n_axes = len(self.operands[0].shape) if self.operands else 1
        # An operand may be a Python scalar, where JAX executes eagerly.
        return np.shape(operands[0])[: np.ndim(operands[0]) - n_axes]

    def __call__(self, *operands: np.ndarray) -> list[np.ndarray]:
        """Execute the circuit, once per row if the operands have leading batch axes.

        The device is locked meanwhile. A seed holds for this call only: the device's generator is
        restored.

        Args:
            *operands: arrays for the template, then the seed if the function is seeded.

        Returns:
            the results, then the derivatives of each order, all with the leading batch axes.
        """
        leaves = list(operands)
        seed = leaves.pop() if self.is_seeded else None
        rows = self.get_leading_axes(operands)
        flat = [
            np.reshape(leaf, (math.prod(rows), *like.shape))
            for leaf, like in zip(leaves, self.operands, strict=True)
        ]
        # Without operands there is one row.
        flat = flat or [np.zeros(math.prod(rows))]
        with (
            _lock_device(self.device),
            _seed_device(self.device, seed),
            qml.QueuingManager.stop_recording(),
        ):
            results = (
                self._execute_with_derivatives(flat) if self.order else self._execute_rows(flat)
            )
        return [result.reshape((*rows, *result.shape[1:])) for result in results]

    def _execute_rows(self, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Execute one tape for each batch row, without derivatives.

        Args:
            operands: arrays ``[rows, ...]``.

        Returns:
            an array ``[rows, ...]`` for each of `results`.
        """
        n_rows = len(operands[0])
        tapes = [self._make_tape([each[row] for each in operands]) for row in range(n_rows)]
        values = self._execute(tapes, interface=None, diff_method=None)
        columns = zip(*map(self._flatten_results, values), strict=True)
        return [
            np.stack([result.read_array(value) for value in column])
            for result, column in zip(self.results, columns, strict=True)
        ]

    def _execute_with_derivatives(self, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Execute a tape for each batch row, and differentiate its results.

        Below, n is the number of elements of all perturbed operands, and m the number of elements
        of all results.

        Args:
            operands: arrays ``[rows, ...]``.

        Returns:
            the results ``[rows, ...]``; then, for each order k up to `order`, the derivatives of
            all results ``[rows, m, n, ..., n]`` with k axes n.
        """
        n_rows = len(operands[0])
        sizes = [math.prod(self.operands[number].shape) for number in self.perturbed_operands]
        starts = np.cumsum([0, *sizes])

        # PennyLane returns zero for second derivatives of tapes with several measurements, so there
        # is one tape for each measurement.
        n_parts = len(self.template.measured) if self.order > 1 else 1

        def function(parameters: Any) -> Any:
            """Map the perturbed operands ``[rows, n]`` to the results ``[rows, m]``.

            The function that autograd differentiates, through ``qml.execute``.
            """
            tapes: list[Any] = []
            for row in range(n_rows):
                values = [each[row] for each in operands]
                for number, start, size in zip(
                    self.perturbed_operands, starts, sizes, strict=False
                ):
                    shape = self.operands[number].shape
                    values[number] = (
                        qml.math.reshape(parameters[row, start : start + size], shape)
                        if shape
                        else parameters[row, start]
                    )
                tape = self._make_tape(values)
                if n_parts == 1:
                    tapes.append(tape)
                else:
                    tapes += [tape.copy(measurements=[part]) for part in tape.measurements]
            results = self._execute(
                tapes,
                interface="autograd",
                diff_method=self.method,
                max_diff=self.order,
                gradient_kwargs=self._get_gradient_kwargs(),
            )
            flat = [
                [
                    qml.math.reshape(value, (-1,))
                    for value in self._join_part_results(results[i : i + n_parts])
                ]
                for i in range(0, len(results), n_parts)
            ]
            return qml.math.stack([qml.math.concatenate(row) for row in flat])

        columns = [np.reshape(operands[number], (n_rows, -1)) for number in self.perturbed_operands]
        parameters = np.concatenate(columns, axis=1).astype(float)
        *ends, m = np.cumsum([math.prod(result.shape) for result in self.results])
        flat, *derivatives = evaluate_derivatives(function, parameters, m, self.order)
        values = [
            part.reshape(n_rows, *result.shape).astype(result.dtype)
            for part, result in zip(np.split(flat, ends, axis=1), self.results, strict=True)
        ]
        real = np.result_type(*(result.dtype for result in self.results))
        return [*values, *(derivative.astype(real) for derivative in derivatives)]

    def _get_gradient_kwargs(self) -> dict[str, Any]:
        """Return the user's ``gradient_kwargs``, with a larger step in single precision.

        The step ``h`` is a default for finite differences: the user's own value is kept.
        """
        options = dict(self.config.gradient_kwargs)
        if Precision.is_single_device(self.device) and DiffMethod.has_differences(
            self.config.diff_method
        ):
            # In single precision, rounding errors dominate with PennyLane's default step.
            return {"h": finite_diff_step(np.complex64), **options}
        return options

    def _make_tape(self, values: Sequence[Any]) -> qml.tape.QuantumScript:
        """Make a tape: fill the template with operand values, and set seeds of classical shadows.

        Args:
            values: the value of each operand, without batch axes.
        """
        tape = self.template.make_tape(values)
        measured = list(map(self._draw_shadow_bases, tape.measurements))
        return tape.copy(measurements=measured)

    def _draw_shadow_bases(self, process: qml.measurements.MeasurementProcess) -> Any:
        """Give a classical shadow a random seed for its bases, if the user set none.

        The seed of the returned copy is drawn from the device's generator, or from a new generator
        if the device has none. Other measurement processes, and shadows with the user's seed, are
        returned unchanged.
        """
        is_shadow = isinstance(process, _SHADOWS)
        if not is_shadow or user_seed(process) is not None:
            return process
        generator = getattr(self.device, "_rng", None)
        if not isinstance(generator, np.random.Generator):
            generator = np.random.default_rng()
        drawn = copy.copy(process)
        drawn.seed = int(generator.integers(2**30))
        return drawn

    def _execute(self, tapes: Sequence[Any], **options: Any) -> Any:
        """Call ``qml.execute`` on this function's device.

        Args:
            tapes: the tapes to execute.
            options: keyword arguments of ``qml.execute``; the QNode's ``execute_kwargs`` override
                them.

        Returns:
            the result of each tape, in PennyLane's nested structure.
        """
        if self._applies_transforms():
            return [self._apply_transforms(tape, options) for tape in tapes]
        return self._execute_on_device(tapes, options)

    def _applies_transforms(self) -> bool:
        """Return whether to compute the circuit's results by `_apply_transforms`.

        True if a measurement is a user's ``MeasurementTransform`` and the device would reject it.
        PennyLane's devices reject such measurements, except for the facade of legacy devices.
        """
        device = type(self.device)
        is_of_pennylane = device.__module__.startswith("pennylane")
        is_legacy = issubclass(device, qml.devices.LegacyDeviceFacade)
        kinds = [type(part.prototype) for part in self.template.measured]
        return any(map(is_computed_from_tape, kinds)) and is_of_pennylane and not is_legacy

    def _apply_transforms(self, tape: qml.tape.QuantumScript, options: dict[str, Any]) -> Any:
        """Compute a tape's results, of which some are of a user's ``MeasurementTransform``.

        Such a measurement computes its result from the tape and the device; all other measurements
        are executed on the device.

        Args:
            tape: the tape.
            options: keyword arguments of ``qml.execute`` for the other measurements.

        Returns:
            the results in PennyLane's nested structure.
        """
        is_transform = lambda process: is_computed_from_tape(type(process))
        results = []
        for shots in list(tape.shots) or [None]:
            part = tape.copy(shots=shots)
            others = [each for each in part.measurements if not is_transform(each)]
            values: Any = iter(())
            if others:
                [found] = self._execute_on_device([part.copy(measurements=others)], options)
                values = iter(found if len(others) > 1 else (found,))
            each = [
                process.process(part, self.device) if is_transform(process) else next(values)
                for process in part.measurements
            ]
            results.append(tuple(each) if len(each) > 1 else each[0])
        return tuple(results) if self.template.shots.is_vector else results[0]

    def _execute_on_device(self, tapes: Sequence[Any], options: dict[str, Any]) -> Any:
        """Call ``qml.execute`` on this function's device, with the QNode's options.

        Args:
            tapes: the tapes, whose measurements the device supports.
            options: keyword arguments of ``qml.execute``; the QNode's ``execute_kwargs`` override
                them.

        Returns:
            the result of each tape, in PennyLane's nested structure.
        """
        given = self.config.execute_kwargs
        options |= {name: given[name] for name in _EXECUTE_OPTIONS if name in given}
        return qml.execute(
            tapes,
            self.device,
            mcm_method=given.get("mcm_method"),
            postselect_mode=given.get("postselect_mode"),
            **options,
        )

    def _join_part_results(self, parts: Sequence[Any]) -> list[Any]:
        """Return a circuit's results as a flat list, in the order of the attribute `results`.

        The circuit was executed as one tape, or as a tape for each measurement.

        Args:
            parts: the result of each tape.
        """
        if len(parts) == 1:
            return self._flatten_results(parts[0])
        if not self.template.shots.is_vector:
            return list(parts)
        return [value for group in zip(*parts, strict=True) for value in group]

    def _flatten_results(self, values: Any) -> list[Any]:
        """Return a tape's results as a flat list, in the order of the attribute `results`.

        Args:
            values: the tape's result from ``qml.execute``, nested by shot vector and measurement.
        """
        groups = values if self.template.shots.is_vector else (values,)
        if len(self.template.measured) == 1:
            return list(groups)
        return [value for group in groups for value in group]


@contextlib.contextmanager
def _lock_device(device: qml.devices.Device) -> Iterator[None]:
    """Hold a device's lock in the ``with`` block, since devices are not thread-safe."""
    with _locks_lock:
        lock = _locks.setdefault(device, threading.RLock())
    with lock:
        yield


@contextlib.contextmanager
def _seed_device(device: qml.devices.Device, seed: Any) -> Iterator[None]:
    """Seed a device's generator in the ``with`` block, and restore it afterwards.

    Args:
        device: the device. Without a NumPy generator in ``_rng``, it is not changed.
        seed: integer array, drawn by the program; None to leave the generator as it is.
    """
    generator = getattr(device, "_rng", None)
    if seed is None or not isinstance(generator, np.random.Generator):
        yield
        return
    # The generator's state is set in place, because other objects of the device may share it.
    bits = generator.bit_generator
    before, bits.state = bits.state, type(bits)(np.ravel(seed)).state
    try:
        yield
    finally:
        bits.state = before


# From parameters [tapes, n] to results [tapes, m].
Function = Callable[[Any], Any]


def evaluate_derivatives(
    function: Function, parameters: np.ndarray, m: int, order: int
) -> list[np.ndarray]:
    """Evaluate a function of several tapes and its derivatives with autograd.

    One backward pass gives a row of the Jacobians of all tapes, since a tape does not depend on the
    parameters of another tape.

    Args:
        function: maps parameters ``[tapes, n]`` to results ``[tapes, m]``, by ``qml.execute`` with
            autograd's interface.
        parameters: real array ``[tapes, n]``.
        m: the number of results per tape.
        order: the highest order of the derivatives.

    Returns:
        the results ``[tapes, m]``, then the derivatives ``[tapes, m, n]``, ``[tapes, m, n, n]``,
        ...
    """
    n_tapes, n = parameters.shape
    sizes = [m * n**k for k in range(order + 1)]
    for size in sizes[:-1]:
        function = _append_jacobian(function, size)
    # PennyLane's results may still be wrapped in autograd boxes of lower orders.
    flat = np.asarray(getval(function(parameters)), float)
    return [
        part.reshape(n_tapes, m, *[n] * k)
        for k, part in enumerate(np.split(flat, np.cumsum(sizes[:-1]), axis=1))
    ]


def _append_jacobian(function: Function, size: int) -> Function:
    """Return a function that also returns the Jacobian of some of its results.

    Applied repeatedly, it gives derivatives of higher orders.

    Args:
        function: maps parameters ``[tapes, n]`` to values ``[tapes, total]``.
        size: the number of values at the end to differentiate.

    Returns:
        a function with values ``[tapes, total + size * n]``.
    """

    def evaluate_both(parameters: Any) -> Any:
        """Evaluate ``function``; append the Jacobian of its last ``size`` values, flattened."""
        vjp, values = make_vjp(function, parameters)
        n_tapes, total = values.shape
        rows = []
        for number in range(total - size, total):
            cotangent = np.zeros(values.shape)
            cotangent[:, number] = 1.0
            rows.append(vjp(cotangent))
        jacobian = qml.math.reshape(qml.math.stack(rows, axis=1), (n_tapes, -1))
        return qml.math.concatenate([values, jacobian], axis=1)

    return evaluate_both
