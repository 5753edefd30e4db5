"""Choose how the measurements of a compiled circuit are differentiated."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Optional

from bellhop.circuits.ir.device_measurements import Measurement
from bellhop.circuits.ir.diff_method import DiffMethod
from bellhop.circuits.ir.execution_plan import ExecutionPlan
from bellhop.circuits.ir.executors import Executor


@dataclass(frozen=True)
class CircuitFacts:
    """Facts about a traced circuit that decide how its results are differentiated.

    An instance describes the measurements that one call of the runtime makes. The runtime has two
    executors: Bellhop's engine, a simulator, and the plugin, a device's compiled library.

    Attributes:
        measurements: the measurements, in order.
        n_values: the number of real numbers in their results; a complex number counts twice.
        n_params: the number of traced gate parameters outside of loops with a dynamic trip count,
            plus the number of real numbers in the amplitudes from which the circuit prepares its
            state.
        in_engine: whether Bellhop's engine executes the circuit, and not a device's plugin.
        has_static_count: whether no gate is in a loop with a dynamic trip count, so that the number
            of gate parameters is static.
        needs_rerun: whether a derivative must run the gates again: with shots, or with mid-circuit
            measurements through which the engine's adjoint method does not go back.
        has_shots: whether the results are computed from samples.
        may_change_norm: whether a gate's matrix may not be unitary, so that the adjoint method
            cannot undo the gate.
        device_has_adjoint: whether the device has an adjoint method.
    """

    measurements: Sequence[Measurement]
    n_values: int
    n_params: int
    in_engine: bool
    has_static_count: bool
    needs_rerun: bool
    has_shots: bool
    may_change_norm: bool
    device_has_adjoint: bool

    def offers_jacobian(self, executor: Executor) -> bool:
        """Return whether an executor's adjoint method differentiates all measurements.

        Args:
            executor: Bellhop's engine or the device's plugin.
        """
        return all(m.has_jacobian(executor) for m in self.measurements)

    @property
    def can_use_engine_adjoint(self) -> bool:
        """Whether the adjoint method of Bellhop's engine, also for probabilities, can be used.

        The engine must execute the circuit, without loops of dynamic trip count, and without a
        rerun.
        """
        return self.in_engine and self.has_static_count and not self.needs_rerun

    @property
    def adjoint_supports_measurements(self) -> bool:
        """Whether the available adjoint method differentiates all measurements.

        This is the engine's method if `can_use_engine_adjoint`, else the method of the device's
        plugin.
        """
        return self.offers_jacobian(
            Executor.ENGINE if self.can_use_engine_adjoint else Executor.PLUGIN
        )

    @property
    def has_adjoint(self) -> bool:
        """Whether an adjoint method differentiates the circuit.

        The device has a method that differentiates all measurements, and it can undo all gates: the
        circuit has neither shots, nor matrices that may change the norm, nor mid-circuit outcomes
        that need a rerun.
        """
        is_reversible = not (self.needs_rerun or self.may_change_norm)
        return self.device_has_adjoint and self.adjoint_supports_measurements and is_reversible

    @property
    def is_sweep_cheaper(self) -> bool:
        """Whether the adjoint method costs at most as much as parameter shifts.

        True if the adjoint methods of plugins differentiate all measurements (expectation values):
        then one pass through the circuit is enough. For other measurements, only the engine's
        adjoint method counts (False if it cannot be used). It needs one pass for each value, and
        parameter shifts need two executions for each parameter.
        """
        # A sweep gives all means of a plugin at once.
        are_means = self.offers_jacobian(Executor.PLUGIN)
        return are_means or (self.can_use_engine_adjoint and self.n_values <= 2 * self.n_params)


@dataclass(frozen=True)
class DerivativeChoice:
    """How the measurements of one call of the runtime are differentiated.

    `choose_derivative` makes it from the user's ``diff_method`` and the traced circuit.

    Attributes:
        method: the derivative method, a constant of `DiffMethod`, or the user's name of an unknown
            method.
        obstacle: the error message if a derivative does not exist; empty if it exists.
        has_vjp: whether Bellhop's engine computes vector-Jacobian products of all results directly,
            also if ``method`` would give the Jacobian in another way.
        by_amplitudes: the choice for derivatives with respect to gate parameters and to the
            amplitudes from which the state is prepared. None in that choice itself.
    """

    method: str
    obstacle: str = ""
    has_vjp: bool = False
    by_amplitudes: Optional["DerivativeChoice"] = None


def choose_derivative(plan: ExecutionPlan, facts: CircuitFacts) -> DerivativeChoice:
    """Choose how the measurements of one call of the runtime are differentiated.

    It raises no error: a missing derivative is an error only if a program needs it, so the message
    is stored in the choice.

    Args:
        plan: how the circuit is executed. Its ``diff_method`` is the user's, or ``BEST``, or
            ``LIKELIHOOD_RATIO`` for the score function of samples.
        facts: properties of circuit and device that decide about the method.

    Returns:
        the choice for derivatives by gate parameters alone; its ``by_amplitudes`` is the choice for
        derivatives that may include amplitudes.
    """
    if plan.diff_method == DiffMethod.LIKELIHOOD_RATIO:
        obstacle = next((each.obstacle for each in facts.measurements if each.obstacle), "")
        choice = DerivativeChoice(plan.diff_method, obstacle, has_vjp=True)
        return replace(choice, by_amplitudes=choice)
    method = _choose_method(plan.diff_method, facts)
    by_engine = facts.has_adjoint and facts.in_engine and facts.has_static_count
    choice = DerivativeChoice(
        method,
        _find_obstacle(plan.diff_method, method, facts),
        has_vjp=by_engine and plan.diff_method in (DiffMethod.BEST, DiffMethod.ADJOINT),
    )
    return replace(choice, by_amplitudes=_include_amplitudes(choice, plan.diff_method, facts))


def _choose_method(asked: str, facts: CircuitFacts) -> str:
    """Return the method that differentiates with respect to gate parameters.

    For ``BEST``, it is the adjoint method if it supports the circuit and is not more expensive, or
    if no other method supports all measurements; else parameter shifts.

    Args:
        asked: the user's ``diff_method``; any other than ``BEST`` is returned unchanged.
        facts: properties of circuit and device.
    """
    if asked != DiffMethod.BEST:
        return asked
    # Other methods do not differentiate all measurements, so the sweep's cost does not matter.
    is_alone = facts.can_use_engine_adjoint and any(each.obstacle for each in facts.measurements)
    is_best = facts.has_adjoint and (facts.is_sweep_cheaper or is_alone)
    return DiffMethod.ADJOINT if is_best else DiffMethod.PARAMETER_SHIFT


_AMPLITUDES_WITH_SHOTS_ERROR = (
    "the circuit has shots and is differentiated with respect to the amplitudes of StatePrep, "
    "which needs bellhop's engine, diff_method='best' or 'parameter-shift', and a circuit without "
    "shadow_expval and without loops of dynamic trip count. Use default.qubit, or a circuit "
    "without shots."
)
_PLUGIN_AMPLITUDES_ERROR = (
    "the circuit is differentiated with respect to the amplitudes of StatePrep by the adjoint "
    "method of the device's plugin, which differentiates gates only. Use diff_method='best' or "
    "'parameter-shift'."
)


def _include_amplitudes(
    choice: DerivativeChoice, asked: str, facts: CircuitFacts
) -> DerivativeChoice:
    """Choose the method for derivatives that may include amplitudes of ``StatePrep``.

    Args:
        choice: the choice for derivatives with respect to gate parameters alone.
        asked: the user's ``diff_method``.
        facts: properties of circuit and device.

    Returns:
        ``choice`` with another method and obstacle if necessary.
    """
    if facts.has_shots:
        # Shifted amplitudes have another norm, and samples need a normalized state.
        by_angles = asked in (DiffMethod.BEST, DiffMethod.PARAMETER_SHIFT)
        is_supported = facts.in_engine and facts.has_static_count and by_angles
        obstacle = "" if is_supported else _AMPLITUDES_WITH_SHOTS_ERROR
        method: str = DiffMethod.LIKELIHOOD_RATIO
    elif choice.method == DiffMethod.ADJOINT and not facts.in_engine:
        # A plugin's adjoint method starts from the prepared state, and ends there.
        is_free = asked == DiffMethod.BEST
        obstacle = "" if is_free else _PLUGIN_AMPLITUDES_ERROR
        method = DiffMethod.PARAMETER_SHIFT if is_free else choice.method
    else:
        obstacle, method = "", choice.method
    return replace(choice, method=method, obstacle=choice.obstacle or obstacle)


# Why the adjoint method does not differentiate a circuit: the first predicate that holds counts.
_ADJOINT_OBSTACLES: tuple[tuple[Callable[[CircuitFacts], bool], str], ...] = (
    (
        lambda facts: not facts.device_has_adjoint,
        "the circuit is differentiated with diff_method='adjoint', which the device does not "
        "support: the device declares no gate as differentiable. Use diff_method='best' or "
        "'parameter-shift'.",
    ),
    (
        lambda facts: facts.has_shots,
        "the circuit has shots and is differentiated with diff_method='adjoint', which does not "
        "support shots. Use diff_method='best' or 'parameter-shift'.",
    ),
    (
        lambda facts: facts.needs_rerun,
        "the circuit has mid-circuit measurements that bellhop's engine does not run, and is "
        "differentiated with diff_method='adjoint', which does not support them. Use "
        "diff_method='best' or 'parameter-shift'.",
    ),
    (
        lambda facts: facts.may_change_norm,
        "the circuit has a QubitUnitary whose matrix is traced or not unitary, and is "
        "differentiated with diff_method='adjoint', which supports unitary gates only. Use "
        "diff_method='best' or 'parameter-shift'.",
    ),
    (
        lambda facts: not facts.adjoint_supports_measurements,
        "the circuit measures var or probs and is differentiated with diff_method='adjoint', which "
        "differentiates expectation values only on this device. Use diff_method='best' or "
        "'parameter-shift'.",
    ),
)


def _find_obstacle(asked: str, method: str, facts: CircuitFacts) -> str:
    """Return the error message if a method cannot differentiate the measurements; else "".

    Args:
        asked: the user's ``diff_method``, for the message.
        method: the method for derivatives with respect to gate parameters.
        facts: properties of circuit and device.
    """
    is_adjoint = method == DiffMethod.ADJOINT
    is_known = is_adjoint or method == DiffMethod.PARAMETER_SHIFT
    if not (is_known or DiffMethod.has_differences(method)):
        return (
            f"the circuit is differentiated with diff_method='{method}', which is not supported on "
            "this device, expected 'best', 'adjoint', 'parameter-shift', 'hadamard', 'spsa' or "
            "'finite-diff'. Use diff_method='best'."
        )
    if is_adjoint and facts.has_adjoint:
        return ""
    obstacle = _find_measurement_obstacle(facts.measurements, _explain_engine_limit(asked, facts))
    if obstacle or not is_adjoint:
        return obstacle
    return next(text for holds, text in _ADJOINT_OBSTACLES if holds(facts))


# Where the engine's adjoint method is not available, and a remedy: the first predicate that holds
# counts. `_find_measurement_obstacle` joins both to the end of a message: "... not {where}. Use
# default.qubit, or {remedy}."
_ENGINE_LIMITS: tuple[tuple[Callable[[CircuitFacts], bool], tuple[str, str]], ...] = (
    (
        lambda facts: not facts.in_engine,
        (
            "with engine='plugin' or on devices without the engine",
            "return expval or probs",
        ),
    ),
    (
        lambda facts: not facts.has_static_count,
        (
            "in a circuit with a loop of dynamic trip count",
            "give the loop a static trip count",
        ),
    ),
    (lambda facts: facts.needs_rerun, ("after mid-circuit measurements", "return expval or probs")),
    (
        lambda facts: True,
        (
            "after a QubitUnitary whose matrix is traced or not unitary",
            "return expval or probs",
        ),
    ),
)


def _explain_engine_limit(asked: str, facts: CircuitFacts) -> tuple[str, str]:
    """Explain why the adjoint method of Bellhop's engine cannot be used, for an error message.

    Args:
        asked: the user's ``diff_method``.
        facts: properties of circuit and device.

    Returns:
        in which circuits the method cannot be used, such as "after mid-circuit measurements", and
        what the user can do instead.
    """
    if asked not in (DiffMethod.BEST, DiffMethod.ADJOINT):
        return f"with diff_method='{asked}'", "diff_method='best'"
    return next(limit for holds, limit in _ENGINE_LIMITS if holds(facts))


def find_second_order_obstacle(measurements: Sequence[Measurement]) -> str:
    """Return the error message if a VJP of measurements has no derivative; else "".

    The derivative of a VJP runs the circuit with other parameters, which does not work for a state
    (the engine's adjoint method alone differentiates it), samples, counts and shadows.

    Args:
        measurements: the measurements whose vector-Jacobian product is differentiated.
    """
    where = "for a second derivative whose first derivative is in reverse mode"
    return _find_measurement_obstacle(measurements, (where, "return expval or probs"))


def _find_measurement_obstacle(
    measurements: Sequence[Measurement], not_by_engine: tuple[str, str]
) -> str:
    """Return the error message for measurements that cannot be differentiated; else "".

    Call it where the adjoint method of Bellhop's engine cannot be used, so that measurements which
    only this method differentiates, such as a state, have no derivative.

    Args:
        measurements: the measurements.
        not_by_engine: where the engine's adjoint method cannot be used, and what the user can do
            instead: two parts of the message.

    Returns:
        the message for the first measurement that only the engine's adjoint method differentiates,
        or no method differentiates; empty if other methods differentiate all measurements.
    """
    where, remedy = not_by_engine
    for measurement in measurements:
        if measurement.obstacle and measurement.has_jacobian(Executor.ENGINE):
            return (
                f"{measurement.obstacle} is supported only by the adjoint method of bellhop's "
                f"engine, not {where}. Use default.qubit, or {remedy}."
            )
        if measurement.obstacle:
            return measurement.obstacle
    return ""
