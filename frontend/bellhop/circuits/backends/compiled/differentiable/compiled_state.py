"""Represent a circuit's state in the runtime, and the equations that act on it.

Code that records circuits calls the methods of ``CompiledState``, and code that reads recorded
circuits uses ``CircuitEquation``.  The primitives are hidden from both.  ::

    state = CompiledState(handle)
    state = state.apply_gates(gates, params, offset, wires)
    handle, value = state.measure((Expval(),), device, differentiation, *vectors)

is traced to ::

    state = quantum_gates[gates=...] handle params offset wires
    handle value = quantum_measure[measuring=...] state coefficients matrices params amplitudes
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import JaxprEqn

from bellhop.base.types import Operand
from bellhop.circuits.backends.compiled.differentiable.differentiation import Differentiation
from bellhop.circuits.backends.compiled.differentiable.internal_measurements import ShotMembership
from bellhop.circuits.backends.compiled.differentiable.measurement_primitives import (
    MeasurementSet,
    MeasureOperands,
    Query,
    is_derivative_product,
    measure_p,
)
from bellhop.circuits.backends.compiled.differentiable.score_function import bind_score
from bellhop.circuits.backends.compiled.differentiable.state_primitives import (
    BOOL,
    HANDLE,
    HANDLE_STRUCT,
    NOT_DIFFERENTIABLE,
    Amplitudes,
    GateOperands,
    call,
    gates_p,
    is_call,
    restart_run,
)
from bellhop.circuits.ir.device_measurements import Measurement
from bellhop.circuits.ir.device_spec import DeviceSpec
from bellhop.circuits.ir.diff_method import DiffMethod
from bellhop.circuits.ir.precision import Precision
from bellhop_mlir.dialects.gate import Gate


class CompiledState(NamedTuple):
    """A circuit's state, held by the runtime and identified by a handle.

    An instance lives while a circuit is traced. Each operation that changes the state returns a new
    handle, so data dependences between handles order the operations.

    Attributes:
        handle: traced array ``uint32[2]``, by which the runtime finds the state.
    """

    handle: Any

    @staticmethod
    def handle_struct() -> jax.ShapeDtypeStruct:
        """Return the shape and dtype of a handle, for ``jax.make_jaxpr``."""
        return HANDLE_STRUCT

    def apply_gates(
        self,
        gates: Sequence[Gate],
        params: Any,
        offset: Any,
        wires: Any,
        *,
        n_iterations: int | Operand | None = None,
        obstacle: str = "",
        is_preparation: bool = False,
    ) -> "CompiledState":
        """Apply gates, and return the state after the gates.

        Args:
            gates: the gates, with their static parameters and wires.
            params: array ``[n]`` of the traced parameters of the gates; for a loop of at most
                ``most`` iterations ``[most * n]``, of which the first `n_iterations` are used.
            offset: integer scalar, the index of ``params[0]`` among the parameters by which the
                circuit is differentiated; None for parameters without a derivative.
            wires: integer array ``[m]`` of the traced wires; for a loop ``[most * m]``.
            n_iterations: how often the gates are repeated; None if the gates are not in a loop.
            obstacle: the error message if the gates have no derivative by ``params``; empty if they
                have one.
            is_preparation: whether the only gate prepares the state from the amplitudes ``params``.
        """
        handle = gates_p.bind(
            self.handle,
            params,
            jnp.int32(NOT_DIFFERENTIABLE) if offset is None else offset,
            wires,
            *([] if n_iterations is None else [jnp.int32(n_iterations)]),
            gates=tuple(gates),
            obstacle=obstacle,
            amplitudes=Amplitudes.GIVEN if is_preparation else Amplitudes.NONE,
        )
        return CompiledState(handle)

    def mid_measure(self, wire: Any, *, postselect: int, reset: bool, site: str) -> list[Any]:
        """Measure a wire mid-circuit.

        Args:
            wire: int32 scalar, the qubit.
            postselect: the postselected outcome; -1 for no postselection.
            reset: whether the wire is reset to zero afterwards.
            site: ``file:line`` of the user's call, for errors.

        Returns:
            the handle of the state after the measurement, and the outcome, a boolean scalar.
        """
        options = {"postselect": postselect, "reset": reset, "site": site}
        return call("mid_measure", [self.handle, wire], HANDLE, BOOL, **options)

    def measure(
        self,
        measurements: Sequence[Measurement],
        device: DeviceSpec,
        differentiation: Differentiation,
        coefficients: Any,
        matrices: Any,
        params: Any,
        amplitudes: Any,
        perturbation: Any = None,
    ) -> list[Any]:
        """Measure the state at the end of the circuit.

        Args:
            measurements: the measurements, in the order of the results.
            device: the device that runs the circuit.
            differentiation: how the results are differentiated.
            coefficients: array ``[c]``, the coefficients of observables.
            matrices: array ``[m]``, the data of observables' matrices.
            params: array ``[p]``, the traced parameters of all gates outside of loops with a
                dynamic trip count.
            amplitudes: array ``[a]``, from which the state is prepared; empty if it is not.
            perturbation: real scalar zero, whose tangent represents the tangents of gate parameters
                in loops with a dynamic trip count; None if there are none.

        Returns:
            a list of the handle after the measurement, and an array for each measurement.
        """
        operands = MeasureOperands(
            self.handle, coefficients, matrices, params, amplitudes, perturbation
        )
        measuring = MeasurementSet(tuple(measurements), device, differentiation)
        return operands.bind(measure_p, measuring=measuring, query=Query.VALUES)

    def measure_shots(self, device: DeviceSpec) -> list[Any]:
        """Measure which shots the current execution of the circuit represents.

        Shots with equal mid-circuit outcomes may share one execution.

        Returns:
            the handle of the state afterwards, and an array ``u8[shots]``: 1 for the shots of this
            execution, else 0.
        """
        nothing = jnp.zeros(0, Precision.real_type())
        by_likelihood = Differentiation(DiffMethod.LIKELIHOOD_RATIO)
        operands = nothing, nothing, nothing, nothing
        return self.measure([ShotMembership()], device, by_likelihood, *operands)

    def score(
        self, params: Any, amplitudes: Any, perturbation: Any, device: DeviceSpec
    ) -> list[Any]:
        """Return the score of this execution: a zero with the tangent of the log-probability.

        The score is the scalar 0.0. Its tangent is the tangent of the logarithm of the probability
        of all outcomes that this execution has drawn, for derivatives of averages over shots.

        Args:
            params: array ``[p]``, the traced parameters of all gates outside of loops with a
                dynamic trip count.
            amplitudes: array ``[a]``, from which the state is prepared.
            perturbation: real scalar zero, whose tangent represents the tangents of gate parameters
                in loops with a dynamic trip count; None if there are none.
            device: the device that runs the circuit.

        Returns:
            a list: the handle of the state afterwards, and the score.
        """
        return bind_score(self.handle, params, amplitudes, perturbation, device)

    def restart(self) -> list[Any]:
        """End an execution of the circuit and start the next execution.

        Returns:
            a list: the handle of the next execution's state, whether there is to be a next
            execution, and whether the ended execution counts, because all its postselections held.
        """
        return restart_run(self.handle)


@dataclass(frozen=True)
class CircuitEquation:
    """An equation of a recorded circuit, with properties to classify it.

    Code that reads the jaxprs of circuits uses it instead of the primitives.

    Attributes:
        eqn: any equation. If it does not belong to a circuit, the properties are false, empty or
            None. The property `operands` may be read only if it is a final measurement.
    """

    eqn: JaxprEqn

    @property
    def is_gates(self) -> bool:
        """Whether the equation applies gates, once or in a loop."""
        return self.eqn.primitive is gates_p

    @property
    def is_gates_once(self) -> bool:
        """Whether the equation applies gates outside of a loop."""
        return self.is_gates and GateOperands(*self.eqn.invars).n_iterations is None

    @property
    def is_mid_measurement(self) -> bool:
        """Whether the equation is a mid-circuit measurement."""
        return is_call(self.eqn, "mid_measure")

    @property
    def is_derivative_product(self) -> bool:
        """Whether the equation computes a VJP or Hessian-vector product of measured values."""
        return is_derivative_product(self.eqn)

    @property
    def measuring(self) -> MeasurementSet | None:
        """The final measurements that the equation makes; None for other equations.

        The object also has the device, and how the measurements are differentiated.
        """
        return self.eqn.params["measuring"] if self.eqn.primitive is measure_p else None

    @property
    def measurements(self) -> Sequence[Measurement]:
        """The final measurements; empty for other equations."""
        return () if self.measuring is None else self.measuring.measurements

    @property
    def operands(self) -> MeasureOperands:
        """The variables that a final measurement takes as operands, by name."""
        return MeasureOperands.from_equation(self.eqn)
