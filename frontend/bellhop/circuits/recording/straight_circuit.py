"""A circuit while its quantum function is traced: queued operations become JAX equations.

The quantum function ::

    qml.RX(2 * x, 0)
    qml.RY(0.5, 0)
    return qml.expval(qml.Z(0))

is traced to ::

    { lambda ; state:u32[2] x:f64[]. let
        angle = mul 2.0 x
        state = quantum_gates[gates=(RX, RY(0.5))] state [angle] 0 []
        state value = quantum_measure[measuring=(Expval(Z),)] state [] [] [angle]
      in (state, value) }

``state`` is a handle, by which the runtime finds the state.  ``quantum_gates`` takes it, the
parameters of these gates, their offset in the vector of all parameters of the circuit, and the
wires that the program computes (none here).  Parameters that are constants are part of the gates.
``quantum_measure`` takes the coefficients and matrices of observables, and what it is
differentiated by: the vector of all parameters, and the amplitudes of a ``StatePrep`` (left out).
"""

import functools
import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax.numpy as jnp
import numpy as np

from bellhop.base.types import Handle, Operand, Wire
from bellhop.circuits.derivatives.diff_method import ADJOINT, BEST, BY_DIFFERENCES, PARAMETER_SHIFT
from bellhop.circuits.derivatives.differentiation_choice import DifferentiationChoice
from bellhop.circuits.derivatives.dynamic_count import DynamicCount
from bellhop.circuits.derivatives.score import score_of
from bellhop.circuits.gates.broadcasting import TracedRow
from bellhop.circuits.gates.device import DeviceSpec, GateSet
from bellhop.circuits.gates.gate_run import Derivative, GateRun, RepeatedRun
from bellhop.circuits.gates.gates import (
    GateList,
    naming,
)
from bellhop.circuits.gates.preparations import prepared_together
from bellhop.circuits.gates.shift_rules import NO_FREQUENCIES
from bellhop.circuits.gates.unitarity import may_change_norm
from bellhop.circuits.gates.wires import WireMap, as_int32, is_dynamic
from bellhop.circuits.measure.device_measurements import Snapshots
from bellhop.circuits.measure.measurements import MeasurementList
from bellhop.circuits.measure.sampling import Asked
from bellhop.circuits.memory import check_result_fits
from bellhop.circuits.operations.measurement_primitives import (
    MeasureOperands,
    Measuring,
    Query,
    measure_p,
)
from bellhop.circuits.operations.shadows_of_one_shot import taken_alone
from bellhop.circuits.operations.state_primitives import (
    BOOL,
    HANDLE,
    NOT_DIFFERENTIABLE,
    Amplitudes,
    call,
    gates_p,
)
from bellhop.circuits.precision import real_type
from bellhop.circuits.recording.gate_replay import Player
from bellhop.circuits.recording.iterations import Use
from bellhop.circuits.recording.pending import PendingRuns
from bellhop.circuits.recording.played_circuit import PlayedCircuit


class StraightCircuit(PlayedCircuit):
    """A circuit that is traced to ``quantum_gates`` and ``quantum_measure``, without control flow.

    It holds the handle of the state, and the parameters of all gates so far in order of execution.
    Operations are bound as runs: one ``quantum_gates`` for as many gates as possible.  So the last
    run is pending until something other than a gate follows.

    Args:
        handle: the handle of a fresh state.
        device: the device, for errors and for what it can measure.
        gates: the gates that the device applies; others are decomposed.
        wires: gives the qubit of a wire label.
        where: the QNode and its line, for errors.
        differentiation: how the QNode is differentiated.
        rows: the row of the batches of parameters.

    Attributes:
        has_mid_circuit: whether it has measured a wire in the middle.
        postselects: whether one of these measurements postselects.
        is_tree: whether the circuit runs once for each combination of mid-circuit outcomes.
        groups: the number of shots of each group over which means are taken.
    """

    def __init__(
        self,
        handle: Handle,
        device: DeviceSpec,
        gates: GateSet,
        wires: WireMap,
        where: str,
        differentiation: DifferentiationChoice,
        rows: TracedRow,
    ) -> None:
        super().__init__(wires, where, rows)
        self._pending = PendingRuns(self._apply, device.passes)
        self._state = handle
        self._session = handle
        self._differentiation = differentiation
        self.device = device
        self.has_mid_circuit = False
        self.postselects = False
        self.is_tree = False
        self.groups: tuple[int, ...] = ()
        self.gate_set = gates
        self._offset: Any = jnp.int32(0)
        self._params: list[Any] = []
        self._frequencies: list[np.ndarray] = []
        # What the state is prepared from where the program computes it, and the bits of each.
        self._amplitudes: Any = jnp.zeros(0, real_type())
        self._amplitude_bits = b""
        # Parameters of loops of dynamic length, and whether there are some: if not, no loop and no
        # conditional carries this.
        self._dynamic_count = DynamicCount.first()
        self._has_dynamic_count = False
        self._is_dynamic_count = False
        self._dynamic_frequencies = NO_FREQUENCIES
        self._runs_in_engine = device.engine
        self._may_change_norm = False

    @property
    def handle(self) -> Any:
        """The handle of the state after all operations so far; binds pending gates."""
        self._pending.flush()
        self._pending.is_one_run = False
        return self._state

    @handle.setter
    def handle(self, handle: Handle) -> None:
        self._state = handle

    def apply(self, operations: Sequence[Any]) -> None:
        """Append the gates of operations."""
        for run in self._runs(operations).runs:
            if isinstance(run, GateRun):
                self._pending.add(run)
            else:
                Player().play_operation(run)

    def _runs(self, operations: Sequence[Any], most: int | None = None) -> GateList:
        """Return the gates of operations; not of all, where they are more, or no straight run."""
        gates = GateList(
            self.gate_set,
            self.wires,
            self.where,
            rows=self.rows,
            is_first=self._pending.is_fresh,
            sites=self.site_of,
            by_differences=self._differentiation.method in BY_DIFFERENCES,
        )
        if self._pending.is_fresh and self.gate_set.applies("StatePrep"):
            operations = prepared_together(operations)
        for op in operations:
            with self.at(op), naming(op, self.where):
                gates.add(op)
            if most is not None and not gates.is_straight(most):
                break
        return gates

    def _apply(
        self, run: GateRun, params: Any, wires: Any, n_iterations: int | Operand | None = None
    ) -> None:
        obstacle = self._gates_obstacle(run)
        self._may_change_norm |= may_change_norm(
            run.gates, if_computed=self.gate_set.keeps_matrices
        )
        # Reading the handle binds pending gates, which moves the offset.  So it comes first.
        handle = self.handle
        is_prepared = run.derivative is Derivative.BY_AMPLITUDES
        if is_prepared:
            self._amplitudes, self._amplitude_bits = params, bytes(run.frequencies)
        is_counted = not obstacle and not is_prepared
        offset = self._dynamic_count.number if self._is_dynamic_count else self._offset
        self.handle = gates_p.bind(
            handle,
            params,
            offset if is_counted else jnp.int32(NOT_DIFFERENTIABLE),
            wires,
            *([] if n_iterations is None else [jnp.int32(n_iterations)]),
            gates=tuple(run.gates),
            obstacle=obstacle,
            amplitudes=Amplitudes.GIVEN if is_prepared else Amplitudes.NONE,
        )
        if not run.n_params or not is_counted:
            return
        count = run.n_params if n_iterations is None else n_iterations * run.n_params
        if self._is_dynamic_count:
            self._dynamic_count = self._dynamic_count.add(self._session, params, count)
            self._dynamic_frequencies |= functools.reduce(operator.or_, run.frequencies)
            return
        self._offset = self._offset + jnp.int32(count)
        self._params.append(params)
        frequencies = np.asarray(run.frequencies, np.uint8)
        self._frequencies.append(np.tile(frequencies, 1 if n_iterations is None else n_iterations))

    def _in_blocks(self, repeated: RepeatedRun) -> tuple[Use, Any]:
        """Return a function that applies the gates of a block of iterations, and its first state.

        Both are for ``use_iterations``.

        Args:
            repeated: the gates of one iteration.
        """
        _, *state = self._circuit_state(())

        def apply(state: Any, inputs: Any, n_iterations: int | Operand) -> Any:
            params, wires = map(jnp.ravel, inputs)
            with self._part(*state, is_dynamic_count=True):
                self._apply(repeated.run, params, wires, n_iterations * repeated.n_iterations)
                _, *state = self._circuit_state(())
            return state

        return apply, state

    def _circuit_state(self, carried: tuple[Any, ...]) -> Any:
        count = self._dynamic_count if self._has_dynamic_count else None
        return carried, self.handle, self._offset, count

    def _resume(self, state: Any) -> tuple[Any, ...]:
        carried, self.handle, self._offset, count = state
        self._dynamic_count = count or self._dynamic_count
        return tuple(carried)

    def _gates_obstacle(self, run: GateRun) -> str:
        """Return why gates cannot be differentiated by their parameters; empty if they can."""
        if run.derivative is Derivative.NONE:
            names = ", ".join(dict.fromkeys(gate.name for gate in run.gates if gate.slots))
            return (
                f"the parameters of {names} are differentiated, which the adjoint method cannot "
                "do, nor parameter shifts. Use gates with angles, diff_method='finite-diff', or "
                "differentiate by other arguments."
            )
        return ""

    @contextmanager
    def _part(
        self,
        handle: Handle,
        offset: Any,
        dynamic_count: DynamicCount,
        *,
        is_dynamic_count: bool = False,
    ) -> Iterator[None]:
        """Trace a loop's body or a branch as a jaxpr of its own.

        Args:
            handle: the handle of the state at its beginning, an input of that jaxpr.
            offset: the offset of its first parameter.
            dynamic_count: the dynamic-count parameters before it.
            is_dynamic_count: whether the parameters in it are dynamic-count ones.
        """
        outer = self.handle, self._offset, self._dynamic_count, self._params, self._frequencies
        was_dynamic_count = self._is_dynamic_count
        self.handle, self._offset, self._dynamic_count = handle, offset, dynamic_count
        self._params, self._frequencies = [], []
        self._is_dynamic_count = was_dynamic_count or is_dynamic_count
        # A state preparation in it is not the first operation of the circuit.
        self._pending.is_fresh = False
        try:
            yield
        finally:
            self._pending.run = None
            self._pending.is_one_run = False
            self.handle, self._offset, self._dynamic_count, self._params, self._frequencies = outer
            self._is_dynamic_count = was_dynamic_count

    def _params_vector(self) -> Any:
        return jnp.concatenate([jnp.zeros(0, real_type()), *self._params])

    def _frequencies_vector(self) -> np.ndarray:
        return np.concatenate([np.zeros(0, np.uint8), *self._frequencies])

    def mid_measure(self, label: Wire, *, reset: bool, postselect: int, site: str) -> Any:
        """Measure a wire, collapse the state, and return the outcome."""
        if is_dynamic(label):
            wire = as_int32(self.wires.dynamic(label))
        else:
            wire = jnp.int32(self.wires(label))
        asked = {"postselect": postselect, "reset": reset, "site": site}
        self.handle, outcome = call("mid_measure", [self.handle, wire], HANDLE, BOOL, **asked)
        self._pending.is_fresh = False
        self.has_mid_circuit = True
        self.postselects |= postselect >= 0
        if self._is_dynamic_count:
            self._dynamic_count, self.handle, outcome = self._dynamic_count.remember(
                self.handle, self._session, outcome
            )
        return outcome

    def measure(self, measured: MeasurementList) -> list[Any]:
        """Measure, and return the values in order."""
        if not measured.measurements:
            return []
        for measurement in measured.measurements:
            self._runs_in_engine &= measurement.in_engine
            result = measurement.result(self.device)
            check_result_fits(result.shape, result.dtype, self.device.qubits, self.where)
        # Binds pending gates.
        handle = self.handle
        params, amplitudes = self._params_vector(), self._amplitudes
        frequencies, amplitude_bits = self._frequencies_vector().tobytes(), self._amplitude_bits
        if self.is_one_shot:
            # What is drawn in it is differentiated as a whole, by its score.
            params = amplitudes = jnp.zeros(0, real_type())
            frequencies = amplitude_bits = b""
        differentiation = self._differentiation.of(
            measured.measurements,
            frequencies,
            self._dynamic_frequencies,
            is_replayed=self._is_replayed(),
            n_values=sum(m.n_values(self.device) for m in measured.measurements),
            is_counted=not self._has_dynamic_count,
            amplitudes=amplitude_bits,
            in_engine=self._runs_in_engine,
            has_shots=self.device.shots > 0,
            may_change_norm=self._may_change_norm,
        )
        operands = MeasureOperands(
            handle,
            measured.coefficient_vector(),
            measured.matrix_vector(),
            params,
            amplitudes,
            None if self.is_one_shot else self._perturbation(),
        )
        measuring = Measuring(tuple(measured.measurements), self.device, differentiation)
        self.handle, *values = operands.bind(measure_p, measuring=measuring, query=Query.VALUES)
        return values

    def score(self) -> list[Any]:
        """Return the score of all that a run of one shot has drawn; nothing where it has none."""
        is_exact = self._differentiation.method in (ADJOINT, BEST, PARAMETER_SHIFT)
        # Reading the handle binds pending gates, whose parameters are among the others.
        handle = self.handle
        if not (is_exact and self._runs_in_engine) or self._may_change_norm:
            return []
        params = self._params_vector()
        self.handle, score = score_of(
            handle, params, self._amplitudes, self._perturbation(), self.device
        )
        return [score]

    def _perturbation(self) -> Any:
        """Return the perturbation of dynamic-count parameters; None where there are none."""
        return self._dynamic_count.perturbation if self._has_dynamic_count else None

    def _is_replayed(self) -> bool:
        """Tell whether derivatives need the circuit to run again, with shifted parameters.

        The adjoint method of plugins does not go back through a mid-circuit measurement.  That of
        the engine does, in each run of a circuit that goes through all outcomes.
        """
        if not self.has_mid_circuit:
            return self.device.shots > 0
        return not (self.is_tree and self._runs_in_engine)

    def sample(self, asked: Sequence[Asked]) -> list[Any]:
        """Sample once, and return each of the results that are computed from these samples."""
        snapshots = [what for what in asked if isinstance(what, Snapshots)]
        if self.runs_alone and snapshots:
            return taken_alone(self, snapshots)
        samples = MeasurementList(self)
        samples.sample(asked)
        return self.measure(samples)

    def mean_of_groups(self, value: Any) -> Any:
        """Return a value that is the same for all shots, once for each group of shots."""
        return jnp.broadcast_to(value, (len(self.groups), *value.shape))

    def of_each_shot(self, value: Any) -> Any:
        """Return a value that is the same for all shots, once for each shot."""
        return jnp.broadcast_to(value, (self.device.shots, *value.shape))
