"""The protocols by which measurement code (``circuits/measure``) asks a backend for results.

A quantum function returns PennyLane's measurement processes.  When all gates have been applied, the
backend calls ``measure_results`` with these processes and an object that has the members of
``Answers``.  For ``qml.expval(qml.X(0)), qml.sample(wires=[1])`` with 100 shots, measurement code
calls ::

    answers.apply([qml.Hadamard(0)])
    answers.sample([Frequencies(wires=(), signs=(0,), groups=(100,)), Samples()])

and computes both results from the two arrays that ``sample`` returns.  Without shots the backend
also gives an ``ExactValues`` (``ir/statistics.py``), whose methods compute exact values.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from bellhop.circuits.ir.device_measurements import SampleRequest
from bellhop.circuits.ir.device_spec import DeviceSpec, GateSet
from bellhop.circuits.ir.measurement_request import MeasurementRequest
from bellhop.circuits.ir.wires import WireMap


class MeasurementSite(Protocol):
    """The place where measurements stand: names wires and source lines, but has no results."""

    @property
    def where(self) -> str:
        """The QNode and its line, for errors."""

    @property
    def wires(self) -> WireMap:
        """Maps wire labels to qubits."""

    @property
    def has_mid_circuit(self) -> bool:
        """Whether a wire was measured in the middle of the circuit."""

    def error_location(self, operation: Any, /) -> AbstractContextManager[None]:
        """Add the source line of a measurement process to errors inside of the ``with`` block.

        Args:
            operation: PennyLane's measurement process.
        """

    def check_wires(self, wires: Sequence[Any], process: Any, /) -> None:
        """Let the running program check wires of a measurement process that are traced.

        Args:
            wires: wire labels, some of which may be tracers.
            process: PennyLane's measurement process, whose source line the error names.

        Raises:
            CompileError: if a wire label is unknown to the device.
        """


class Answers(MeasurementSite, Protocol):
    """Answers what measurement code asks when all gates of a circuit have been applied."""

    @property
    def groups(self) -> tuple[int, ...]:
        """The number of shots of each group over which means are taken; empty without shots."""

    @property
    def is_one_shot(self) -> bool:
        """Whether values that are no measurements get an axis of shots.

        They do where each shot may have other mid-circuit outcomes.
        """

    @property
    def has_run_per_shot(self) -> bool:
        """Whether each shot is an execution of its own, which draws one sample."""

    @property
    def drops_shots(self) -> bool:
        """Whether a run may drop shots, so that frequencies do not give counts."""

    def apply(self, operations: Sequence[Any], /) -> None:
        """Apply PennyLane operations that rotate wires into the basis of a measurement."""

    def sample(self, asked: Sequence[SampleRequest], /) -> list[Any]:
        """Draw one sample of all shots and return a result for each request.

        Args:
            asked: the requests; all are computed from one sample.

        Returns:
            an array for each request: ``[groups, outcomes]`` for ``Frequencies``, ``[shots,
            qubits]`` for ``Samples``, ``[shots, 2, wires]`` for ``ShadowSnapshots`` and ``[groups,
            words]`` for ``ShadowMeans``.
        """

    def average_over_groups(self, value: Any, /) -> Any:
        """Return the mean over each group of a value of the mid-circuit outcomes.

        Args:
            value: array of any shape, the value in the present execution.

        Returns:
            array ``[groups, *shape]``: what the present execution contributes to the means.
        """

    def broadcast_to_shots(self, value: Any, /) -> Any:
        """Return a value of the mid-circuit outcomes for each shot, as an array [shots, *shape]."""


class DeviceAnswers(Answers, Protocol):
    """Answers of a circuit that a device measures by lists of the runtime's measurements."""

    @property
    def device(self) -> DeviceSpec:
        """The device that runs the circuit."""

    @property
    def gate_set(self) -> GateSet:
        """The gates and observables that the device supports."""

    @property
    def postselects(self) -> bool:
        """Whether a mid-circuit measurement postselects."""

    def measure(self, request: MeasurementRequest, /) -> list[Any]:
        """Measure all measurements of a request.

        Args:
            request: the measurements, with the coefficients and matrices of their observables.

        Returns:
            an array for each measurement, in order.
        """
