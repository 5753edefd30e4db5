"""What a QNode's ``diff_method`` and ``gradient_kwargs`` mean for a compiled circuit."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bellhop.circuits.gates import shift_rules
from bellhop.circuits.gates.shift_rules import draw_directions
from bellhop.circuits.ir.device_measurements import Measurement
from bellhop.circuits.ir.diff_method import (
    ADJOINT,
    BEST,
    DIFFERENCE_METHODS,
    LIKELIHOOD_RATIO,
    PARAMETER_SHIFT,
    SECOND_DIFFERENCE_ERROR,
    SPSA,
)
from bellhop.errors import DifferentiableCompileError

_AMPLITUDES_WITH_SHOTS_ERROR = (
    "the amplitudes of StatePrep are differentiated with shots, which is done by the likelihood of "
    "samples where the runtime's engine runs the circuit: without loops of computed length and "
    "shadow_expval, by diff_method='best'. Use such a circuit, or default.qubit."
)
_PLUGIN_AMPLITUDES_ERROR = (
    "the amplitudes of StatePrep are differentiated by the adjoint method, which the engine alone "
    "does, and it has engine='plugin'. Use diff_method='best' or 'parameter-shift'."
)


@dataclass(frozen=True)
class Differentiation:
    """How the measurements of a circuit are differentiated.

    Attributes:
        method: by the parameters of gates, one of the names above.
        frequencies: the bits of the frequencies of each parameter, for shift rules.
        dynamic_frequencies: those of all parameters that only the run counts.
        options: of the method.
        obstacle: why there is no derivative; nothing where there is one.
        amplitude_differentiation: the same where the amplitudes that the state is prepared from
            are the last of the parameters; None without such.
        has_vjp: whether the engine has the VJP of all values, whatever the method of a Jacobian.
        single_pass: whether its linear part, or that of its Jacobian, is a ``LinearMap``.
    """

    method: str = ADJOINT
    frequencies: bytes = field(default=b"", repr=False)
    dynamic_frequencies: int = shift_rules.NO_FREQUENCIES
    options: tuple[tuple[str, Any], ...] = ()
    obstacle: str = ""
    amplitude_differentiation: "Differentiation | None" = field(default=None, repr=False)
    has_vjp: bool = False
    single_pass: bool = False

    def add_amplitudes(
        self, amplitudes: bytes, method: str, obstacle: str = ""
    ) -> "Differentiation":
        """Return the same, for a circuit whose state is prepared from amplitudes, if there are any.

        Args:
            amplitudes: the bits of their frequencies.
            method: by amplitudes and parameters.
            obstacle: why there is no derivative by amplitudes, where there is one by parameters.
        """
        if not amplitudes:
            return self
        by_amplitudes = replace(
            self,
            method=method,
            frequencies=self.frequencies + amplitudes,
            obstacle=self.obstacle or obstacle,
        )
        return replace(self, amplitude_differentiation=by_amplitudes)

    def select_rerun_method(self, measurements: Sequence[Measurement]) -> "Differentiation":
        """Return how the derivatives of runs at other parameters are made.

        Those of variances are made of their second moments, which no adjoint method gives.

        Raises:
            DifferentiableCompileError: for a state, of which no other method has a derivative.
        """
        if not self.is_adjoint or all(measurement.has_adjoint for measurement in measurements):
            return self
        if obstacle := _find_obstacle(measurements, _SECOND_REVERSE):
            raise DifferentiableCompileError(obstacle)
        by_amplitudes = (
            self.amplitude_differentiation
            and self.amplitude_differentiation.select_rerun_method(measurements)
        )
        return replace(self, method=PARAMETER_SHIFT, amplitude_differentiation=by_amplitudes)

    @property
    def is_adjoint(self) -> bool:
        """Whether the last derivative is the device's."""
        return self.method in (ADJOINT, LIKELIHOOD_RATIO)

    def make_basis(self, n_params: int) -> Any:
        """Return the directions in which a derivative is taken, in place of all parameters.

        They are rows of ones and minus ones, drawn here; None without such. What has no derivative,
        as bits, is zero there.
        """
        if self.method != SPSA:
            return None
        options = dict(self.options)
        rows = draw_directions(n_params, options["num_directions"], options["sampler_rng"])
        is_shifted = np.frombuffer(self.frequencies, np.uint8) != shift_rules.NO_FREQUENCIES
        return rows if is_shifted.all() else rows * is_shifted

    def make_shift_rules(
        self, static_order: int, dynamic_order: int, *, keep: bool
    ) -> shift_rules.ShiftRules:
        """Return the rules that differentiate by shifted parameters; what is not shifted has none.

        Args:
            static_order: how often by the parameters that are counted, or in the directions of a
                basis.
            dynamic_order: how often by those that only the run counts.
            keep: whether the first derivative by the latter is made as well.

        Raises:
            DifferentiableCompileError: where a parameter has no rule.
        """
        options = dict(self.options)
        by_dynamic = dynamic_order > 0 or keep
        given = options.get("shifts") if self.method == PARAMETER_SHIFT else None
        if self.method in DIFFERENCE_METHODS and static_order + dynamic_order > 1:
            raise DifferentiableCompileError(SECOND_DIFFERENCE_ERROR)
        if by_dynamic and (self.method == SPSA or given is not None):
            raise DifferentiableCompileError(
                "gates stand in a loop whose length the program computes, and their derivative is "
                "by diff_method='spsa' or by shifts that are given, which need as many parameters "
                "as are known. Use diff_method='best', or bounds that are Python numbers."
            )
        if self.is_adjoint:
            static_order, dynamic_order = (
                (static_order - 1, dynamic_order) if static_order else (0, dynamic_order - 1)
            )
        none = shift_rules.NO_FREQUENCIES
        counted = self.frequencies if static_order > 0 else bytes([none]) * len(self.frequencies)
        of_dynamic = self.dynamic_frequencies if dynamic_order > 0 or keep else none
        if self.method in DIFFERENCE_METHODS:
            if self.method == SPSA and static_order > 0:
                counted = bytes([1]) * options["num_directions"]
            return shift_rules.make_difference_rules(
                counted, of_dynamic, self.compute_difference_terms()
            )
        if shift_rules.UNKNOWN_FREQUENCIES in (*counted, of_dynamic):
            raise DifferentiableCompileError(
                "the derivative needs a parameter-shift rule, which a gate in it lacks. "
                "Use diff_method='finite-diff', or decompose the gate."
            )
        if given is None or static_order == 0:
            return shift_rules.make_parameter_shift_rules(counted, of_dynamic)
        try:
            return shift_rules.make_custom_shift_rules(counted, given)
        except ValueError as error:
            raise DifferentiableCompileError(
                f"the shifts of its gradient_kwargs do not fit: {error}. Give a tuple for each "
                "parameter of a gate that the program computes, with a shift for each frequency."
            ) from None

    def compute_difference_terms(self) -> np.ndarray:
        """Return coefficient and shift of each term of a difference, by a method of these."""
        options = dict(self.options)
        return shift_rules.compute_difference_terms(
            options["h"], options["approx_order"], options["strategy"]
        )


@dataclass(frozen=True)
class DifferentiationChoice:
    """A QNode's choice, before it is known what the circuit measures.

    Attributes:
        method: ``BEST`` or one of these methods; what else was asked for, if it is
            none of them.
        options: of the method.
        has_adjoint: whether the device has the adjoint method.
        by_likelihood: whether, with shots, by the likelihood of samples.
    """

    method: str
    options: tuple[tuple[str, Any], ...] = ()
    has_adjoint: bool = True
    by_likelihood: bool = False

    def resolve(
        self,
        measurements: Sequence[Measurement],
        frequencies: bytes,
        dynamic_frequencies: int,
        *,
        is_replayed: bool,
        n_values: int,
        is_counted: bool,
        amplitudes: bytes = b"",
        in_engine: bool = True,
        has_shots: bool = False,
        may_change_norm: bool = False,
    ) -> Differentiation:
        """Return how these measurements are differentiated.

        Args:
            measurements: of one device call.
            frequencies: the bits of those of each parameter.
            dynamic_frequencies: those of all parameters that only the run counts.
            is_replayed: whether only running the gates again differentiates: with shots, or
                with mid-circuit measurements.
            n_values: how many real values they have.
            is_counted: whether all parameters are counted before the run.
            amplitudes: the bits of those that the state is prepared from.
            in_engine: whether the runtime's engine runs the circuit.
            has_shots: whether they are made of samples.
            may_change_norm: whether a gate has a matrix that need not be unitary, so that there
                is no way back through it.
        """
        if has_shots and self.by_likelihood:
            return _make_likelihood_differentiation(
                measurements, frequencies, dynamic_frequencies, amplitudes
            )
        not_by_engine = self._explain_engine_limit(in_engine, is_counted, is_replayed)
        obstacle_of_others = _find_obstacle(measurements, not_by_engine)
        have_adjoint = is_cheaper = all(measurement.has_adjoint for measurement in measurements)
        if in_engine and is_counted and not is_replayed:
            have_adjoint = all(measurement.engine_has_adjoint for measurement in measurements)
            # A sweep back for each value costs more than two runs for each parameter.
            is_cheaper |= n_values <= 2 * len(frequencies + amplitudes) or bool(obstacle_of_others)
        has_adjoint = self.has_adjoint and have_adjoint and not (is_replayed or may_change_norm)
        method = self.method
        if method == BEST:
            method = ADJOINT if has_adjoint and is_cheaper else PARAMETER_SHIFT
        obstacle = ""
        if method not in (ADJOINT, PARAMETER_SHIFT, *DIFFERENCE_METHODS):
            obstacle = (
                f"it is differentiated, and its diff_method is '{method}'; bellhop supports "
                "'best', 'adjoint', 'parameter-shift', 'hadamard', 'spsa' and 'finite-diff' on "
                "this device."
            )
        elif obstacle_of_others and not (method == ADJOINT and has_adjoint):
            obstacle = obstacle_of_others
        elif method == ADJOINT and not self.has_adjoint:
            obstacle = (
                "it is differentiated, and the device does not have the adjoint method: none of "
                "its gates is marked differentiable. Use diff_method='best' or 'parameter-shift'."
            )
        elif method == ADJOINT and is_replayed:
            obstacle = (
                "it has shots, or mid-circuit measurements that the engine does not run, and is "
                "differentiated; the adjoint method goes back through neither. Use "
                "diff_method='best' or 'parameter-shift'."
            )
        elif method == ADJOINT and may_change_norm:
            obstacle = (
                "it is differentiated, and has a QubitUnitary whose matrix is not unitary or is "
                "computed in the program; the adjoint method goes back through unitary gates "
                "only. Use diff_method='best' or 'parameter-shift'."
            )
        elif method == ADJOINT and not have_adjoint:
            obstacle = (
                "it measures var or probs and is differentiated; the adjoint method of a device "
                "differentiates expectation values only. Use diff_method='best' or "
                "'parameter-shift'."
            )
        found = Differentiation(
            method,
            frequencies,
            dynamic_frequencies,
            self.options,
            obstacle,
            has_vjp=has_adjoint and in_engine and is_counted and self.method in (BEST, ADJOINT),
        )
        if has_shots:
            # A shift leaves a state of another norm, of which no samples are drawn.
            is_chosen = self.method in (BEST, PARAMETER_SHIFT)
            why_not = "" if in_engine and is_counted and is_chosen else _AMPLITUDES_WITH_SHOTS_ERROR
            return found.add_amplitudes(amplitudes, LIKELIHOOD_RATIO, why_not)
        if method == ADJOINT and not in_engine:
            # A plugin's tape begins with the state.
            if self.method == BEST:
                return found.add_amplitudes(amplitudes, PARAMETER_SHIFT)
            return found.add_amplitudes(amplitudes, ADJOINT, _PLUGIN_AMPLITUDES_ERROR)
        return found.add_amplitudes(amplitudes, method)

    def _explain_engine_limit(
        self, in_engine: bool, is_counted: bool, is_replayed: bool
    ) -> tuple[str, str]:
        """Return where the engine's adjoint method is not taken, and what to do instead."""
        if self.method not in (BEST, ADJOINT):
            return f"by diff_method='{self.method}'", "use diff_method='best'"
        if not in_engine:
            return "with engine='plugin', or without the engine,", "return expval or probs"
        if not is_counted:
            return "beside a loop whose length the program computes", "give the loop a known length"
        if is_replayed:
            return "after mid-circuit measurements", "return expval or probs"
        return (
            "after a QubitUnitary whose matrix is not unitary or is computed in the program",
            "return expval or probs",
        )


def _make_likelihood_differentiation(
    measurements: Sequence[Measurement],
    frequencies: bytes,
    dynamic_frequencies: int,
    amplitudes: bytes,
) -> Differentiation:
    obstacle = next((each.obstacle for each in measurements if each.obstacle), "")
    found = Differentiation(
        LIKELIHOOD_RATIO, frequencies, dynamic_frequencies, obstacle=obstacle, has_vjp=True
    )
    return found.add_amplitudes(amplitudes, LIKELIHOOD_RATIO)


# The same of a derivative of the engine's.
_SECOND_REVERSE = "twice, where the first is in reverse mode,", "return expval or probs"


def _find_obstacle(measurements: Sequence[Measurement], not_by_engine: tuple[str, str]) -> str:
    """Return why measurements have no derivative but by the engine's adjoint method; or nothing."""
    where, instead = not_by_engine
    for measurement in measurements:
        if measurement.obstacle and measurement.engine_has_adjoint:
            return (
                f"{measurement.obstacle} {where} is not supported on this device. Use "
                f"default.qubit, or {instead}."
            )
        if measurement.obstacle:
            return measurement.obstacle
    return ""
