"""Interfaces through which measurement code gets results from a backend.

Measurement code is in ``circuits/measure``.  A quantum function returns PennyLane's measurement
processes.  When all gates have been applied, the backend calls ``measure_results`` with these
processes and an object that implements ``Answers``.  For ``qml.expval(qml.X(0)),
qml.sample(wires=[1])`` with 100 shots, measurement code calls ::

    answers.apply([qml.Hadamard(0)])
    answers.sample([Frequencies(wires=(), signs=(0,), groups=(100,)), Samples()])

and computes both results from the two arrays that ``sample`` returns.  Without shots the backend
also passes an ``ExactValues`` (``ir/statistics.py``), whose methods compute exact values.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from bellhop.circuits.ir.device_measurements import SampleRequest
from bellhop.circuits.ir.device_spec import DeviceSpec, GateSet
from bellhop.circuits.ir.measurement_request import MeasurementRequest
from bellhop.circuits.ir.wires import WireMap


class MeasurementSite(Protocol):
    """Interface of a circuit for checks of the wires of its final measurements.

    The object is a backend's circuit after all gates.  Checks need its wire labels, and the source
    lines of its measurements for error messages, but no results.
    """

    @property
    def where(self) -> str:
        """The QNode and its line, for errors."""

    @property
    def wires(self) -> WireMap:
        """Maps wire labels to qubits."""

    @property
    def has_mid_circuit(self) -> bool:
        """Whether the circuit has a mid-circuit measurement."""

    def error_location(self, operation: Any, /) -> AbstractContextManager[None]:
        """Return a context manager that adds a measurement's source line to errors.

        ``operation`` is PennyLane's measurement process, which the ``with`` block handles.
        """

    def check_wires(self, wires: Sequence[Any], process: Any, /) -> None:
        """Check a measurement's wires: static wires now, traced wires at run time.

        The check at run time requires that the wires exist and are distinct.

        Args:
            wires: wire labels, some of which may be tracers.
            process: PennyLane's measurement process, whose source line the error names.

        Raises:
            CompileError: if a static wire label is unknown to the device.
        """


class Answers(MeasurementSite, Protocol):
    """Interface of a backend that samples the final state of a circuit.

    The backend's circuit implements this interface and passes itself to ``measure_results`` when
    all gates have been applied.  Measurement code calls the methods in the trace of the circuit.
    """

    @property
    def groups(self) -> tuple[int, ...]:
        """The number of shots of each entry of the shot vector; empty without shots."""

    @property
    def is_one_shot(self) -> bool:
        """Whether each shot has its own mid-circuit outcomes.

        Returned values that are not measurements then get a leading axis of shots, otherwise a
        leading axis of shot groups.
        """

    @property
    def has_run_per_shot(self) -> bool:
        """Whether each shot is a separate execution, which draws one sample."""

    @property
    def drops_shots(self) -> bool:
        """Whether shots may be dropped when a postselection fails.

        A count is then not a relative frequency times the number of shots.
        """

    def apply(self, operations: Sequence[Any], /) -> None:
        """Apply PennyLane operations that rotate wires into the basis of a measurement."""

    def sample(self, requests: Sequence[SampleRequest], /) -> list[Any]:
        """Sample all shots once, and compute each requested result from this sample.

        Args:
            requests: the requested results: objects that describe them, such as ``Samples()``.

        Returns:
            an array for each request, in order: ``[groups, outcomes]`` for ``Frequencies``,
            ``[shots, qubits]`` for ``Samples``, ``[shots, 2, wires]`` for ``ShadowSnapshots`` and
            ``[groups, words]`` for ``ShadowMeans``. A group is an entry of the shot vector (or a
            part of it), a word a Pauli word.
        """

    def average_over_groups(self, value: Any, /) -> Any:
        """Return this execution's contribution to a value's mean over each group of shots.

        A group is an entry of the shot vector.  If several executions of the circuit share the
        shots, the value is multiplied by the fraction of each group's shots that belong to this
        execution.  The sum over all executions is then the mean.

        Args:
            value: array ``[*shape]``, computed from the mid-circuit outcomes of this execution.

        Returns:
            array ``[groups, *shape]``.
        """

    def broadcast_to_shots(self, value: Any, /) -> Any:
        """Repeat an array of this execution for each of its shots, along a new first axis."""


class DeviceAnswers(Answers, Protocol):
    """Interface of a backend whose device executes ``Measurement`` objects.

    The engine and compiled plugins are such devices.  Without shots, they compute exact values.
    """

    @property
    def device(self) -> DeviceSpec:
        """The device that runs the circuit."""

    @property
    def gate_set(self) -> GateSet:
        """The gates and observables that the device supports."""

    @property
    def postselects(self) -> bool:
        """Whether any mid-circuit measurement postselects."""

    def measure(self, request: MeasurementRequest, /) -> list[Any]:
        """Perform all measurements of a request.

        Returns:
            an array for each of ``request.measurements``, in order, with the shape and dtype of its
            ``result_aval``.
        """
