"""Choose how a compiled circuit is differentiated, from ``diff_method``."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bellhop.circuits.gates.shift_rules import FrequencyBits, ShiftRules
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
    "the amplitudes of StatePrep are differentiated with shots, which is supported with "
    "diff_method='best', and without loops of dynamic trip count, shadow_expval and "
    "engine='plugin'. Use such a circuit, or default.qubit."
)
_PLUGIN_AMPLITUDES_ERROR = (
    "the amplitudes of StatePrep are differentiated by the adjoint method, which is not supported "
    "with engine='plugin'. Use diff_method='best' or 'parameter-shift'."
)


@dataclass(frozen=True)
class Differentiation:
    """How the measurements of a circuit are differentiated.

    Attributes:
        method: the method by gate parameters, a name of ``ir/diff_method.py``.
        frequencies: one byte for each static-count parameter: the bit set of its frequencies, for
            shift rules.
        dynamic_frequencies: the bit set of frequencies that all dynamic-count parameters share.
        options: the ``gradient_kwargs`` of the method.
        obstacle: the reason if a derivative does not exist; otherwise empty.
        amplitude_differentiation: how to differentiate if the amplitudes that prepare the state are
            appended to the parameters; None for circuits without amplitudes.
        has_vjp: whether the engine has the VJP of all values, whichever method gives the Jacobian.
        single_pass: whether the derivative, or the derivative of the Jacobian, is a ``LinearMap``
            of one adjoint sweep.
    """

    method: str = ADJOINT
    frequencies: bytes = field(default=b"", repr=False)
    dynamic_frequencies: int = FrequencyBits.NONE
    options: tuple[tuple[str, Any], ...] = ()
    obstacle: str = ""
    amplitude_differentiation: "Differentiation | None" = field(default=None, repr=False)
    has_vjp: bool = False
    single_pass: bool = False

    def add_amplitudes(
        self, amplitudes: bytes, method: str, obstacle: str = ""
    ) -> "Differentiation":
        """Return a copy that also differentiates by the amplitudes that prepare the state.

        Args:
            amplitudes: one byte for each amplitude: the bit set of its frequencies.  If it is
                empty, the circuit has no amplitudes, and the result is `self`.
            method: the method for parameters and amplitudes together.
            obstacle: the reason if a derivative by amplitudes does not exist; otherwise empty.
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
        """Return a copy for derivatives that run the circuit with other parameters.

        Such a derivative of a variance needs its second moment, which the adjoint method does not
        differentiate.  So the parameter-shift method replaces the adjoint method.

        Args:
            measurements: the measurements to differentiate.

        Raises:
            DifferentiableCompileError: for a state, which only the adjoint method differentiates.
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
        """Whether the last order of differentiation is the device's adjoint method."""
        return self.method in (ADJOINT, LIKELIHOOD_RATIO)

    def make_basis(self, n_params: int) -> Any:
        """Draw the random directions of SPSA.

        Args:
            n_params: the number of static-count parameters.

        Returns:
            array ``[num_directions, n_params]`` of ones and minus ones, with zeros for parameters
            without a derivative; None for other methods than SPSA.
        """
        if self.method != SPSA:
            return None
        options = dict(self.options)
        rows = ShiftRules.draw_directions(
            n_params, options["num_directions"], options["sampler_rng"]
        )
        is_shifted = np.frombuffer(self.frequencies, np.uint8) != FrequencyBits.NONE
        return rows if is_shifted.all() else rows * is_shifted

    def make_shift_rules(self, static_order: int, dynamic_order: int, *, keep: bool) -> ShiftRules:
        """Build the parameter-shift or finite-difference rules of a derivative.

        Args:
            static_order: the order in static-count parameters, or along the directions of a basis.
            dynamic_order: the order in dynamic-count parameters.
            keep: whether the session also computes and keeps the first derivative in dynamic-count
                parameters.

        Raises:
            DifferentiableCompileError: if a parameter has no rule.
        """
        options = dict(self.options)
        by_dynamic = dynamic_order > 0 or keep
        given = options.get("shifts") if self.method == PARAMETER_SHIFT else None
        if self.method in DIFFERENCE_METHODS and static_order + dynamic_order > 1:
            raise DifferentiableCompileError(SECOND_DIFFERENCE_ERROR)
        if by_dynamic and (self.method == SPSA or given is not None):
            raise DifferentiableCompileError(
                "gates are in a loop with a dynamic trip count, and diff_method='spsa' and "
                "explicit shifts need a static number of parameters. Use diff_method='best', or "
                "bounds that are Python numbers."
            )
        if self.is_adjoint:
            static_order, dynamic_order = (
                (static_order - 1, dynamic_order) if static_order else (0, dynamic_order - 1)
            )
        none = FrequencyBits.NONE
        counted = self.frequencies if static_order > 0 else bytes([none]) * len(self.frequencies)
        of_dynamic = self.dynamic_frequencies if dynamic_order > 0 or keep else none
        if self.method in DIFFERENCE_METHODS:
            if self.method == SPSA and static_order > 0:
                counted = bytes([1]) * options["num_directions"]
            return ShiftRules.from_differences(counted, of_dynamic, self.compute_difference_terms())
        if FrequencyBits.UNKNOWN in (*counted, of_dynamic):
            raise DifferentiableCompileError(
                "the derivative needs a parameter-shift rule, which a gate in it lacks. "
                "Use diff_method='finite-diff', or decompose the gate."
            )
        if given is None or static_order == 0:
            return ShiftRules.from_frequencies(counted, of_dynamic)
        try:
            return ShiftRules.from_shifts(counted, given)
        except ValueError as error:
            raise DifferentiableCompileError(
                f"the shifts of its gradient_kwargs do not fit: {error}. Give a tuple for each "
                "traced parameter of a gate, with a shift for each frequency."
            ) from None

    def compute_difference_terms(self) -> np.ndarray:
        """Return the coefficient and the shift of each term of a finite difference.

        Returns:
            array ``[terms, 2]``, for ``diff_method='finite-diff'`` and ``'spsa'``.
        """
        options = dict(self.options)
        return ShiftRules.compute_difference_terms(
            options["h"], options["approx_order"], options["strategy"]
        )


@dataclass(frozen=True)
class DifferentiationChoice:
    """A QNode's ``diff_method``, before the circuit's measurements are known.

    Attributes:
        method: ``BEST``, the name of a supported method, or the user's unsupported name.
        options: the ``gradient_kwargs`` of the method.
        has_adjoint: whether the device supports the adjoint method.
        by_likelihood: whether derivatives with shots use the likelihood ratio of samples.
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
        """Choose how the measurements of one device call are differentiated.

        Args:
            measurements: the measurements.
            frequencies: one byte for each static-count parameter: the bit set of its frequencies.
            dynamic_frequencies: the bit set of frequencies that dynamic-count parameters share.
            is_replayed: whether derivatives have to run the gates again: with shots, or with
                mid-circuit measurements that the engine does not run.
            n_values: the number of real values that are measured.
            is_counted: whether all parameters are static-count parameters.
            amplitudes: one byte for each amplitude that prepares the state, as ``frequencies``.
            in_engine: whether the engine runs the circuit.
            has_shots: whether the measurements are computed from samples.
            may_change_norm: whether a gate's matrix may not be unitary, so that the adjoint method
                cannot undo the gate.

        Returns:
            the differentiation; its ``obstacle`` is the reason if a derivative does not exist.
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
            # An adjoint sweep for each value may cost more than two runs for each parameter.
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
                "differentiated; the adjoint method supports neither. Use "
                "diff_method='best' or 'parameter-shift'."
            )
        elif method == ADJOINT and may_change_norm:
            obstacle = (
                "it is differentiated, and has a QubitUnitary whose matrix is not unitary or is "
                "traced; the adjoint method supports unitary gates only. Use diff_method='best' "
                "or 'parameter-shift'."
            )
        elif method == ADJOINT and not have_adjoint:
            obstacle = (
                "it measures var or probs and is differentiated; the adjoint method of a device "
                "differentiates expectation values only. Use diff_method='best' or "
                "'parameter-shift'."
            )
        resolved = Differentiation(
            method,
            frequencies,
            dynamic_frequencies,
            self.options,
            obstacle,
            has_vjp=has_adjoint and in_engine and is_counted and self.method in (BEST, ADJOINT),
        )
        if has_shots:
            # Shifted amplitudes have another norm, and samples need a normalized state.
            is_chosen = self.method in (BEST, PARAMETER_SHIFT)
            why_not = "" if in_engine and is_counted and is_chosen else _AMPLITUDES_WITH_SHOTS_ERROR
            return resolved.add_amplitudes(amplitudes, LIKELIHOOD_RATIO, why_not)
        if method == ADJOINT and not in_engine:
            # A plugin's adjoint method starts from the prepared state, and ends there.
            if self.method == BEST:
                return resolved.add_amplitudes(amplitudes, PARAMETER_SHIFT)
            return resolved.add_amplitudes(amplitudes, ADJOINT, _PLUGIN_AMPLITUDES_ERROR)
        return resolved.add_amplitudes(amplitudes, method)

    def _explain_engine_limit(
        self, in_engine: bool, is_counted: bool, is_replayed: bool
    ) -> tuple[str, str]:
        """Return where the engine's adjoint method is not available, and a remedy.

        Both strings are parts of the error message of ``_find_obstacle``.
        """
        if self.method not in (BEST, ADJOINT):
            return f"by diff_method='{self.method}'", "use diff_method='best'"
        if not in_engine:
            return "with engine='plugin', or without the engine,", "return expval or probs"
        if not is_counted:
            return (
                "in a circuit with a loop of dynamic trip count",
                "give the loop a static trip count",
            )
        if is_replayed:
            return "after mid-circuit measurements", "return expval or probs"
        return (
            "after a QubitUnitary whose matrix is not unitary or is traced",
            "return expval or probs",
        )


def _make_likelihood_differentiation(
    measurements: Sequence[Measurement],
    frequencies: bytes,
    dynamic_frequencies: int,
    amplitudes: bytes,
) -> Differentiation:
    """Return the differentiation by the likelihood ratio of samples."""
    obstacle = next((each.obstacle for each in measurements if each.obstacle), "")
    by_likelihood = Differentiation(
        LIKELIHOOD_RATIO, frequencies, dynamic_frequencies, obstacle=obstacle, has_vjp=True
    )
    return by_likelihood.add_amplitudes(amplitudes, LIKELIHOOD_RATIO)


# The result of ``_explain_engine_limit`` for the derivative of a derivative.
_SECOND_REVERSE = "twice, where the first is in reverse mode,", "return expval or probs"


def _find_obstacle(measurements: Sequence[Measurement], not_by_engine: tuple[str, str]) -> str:
    """Return why measurements have no derivative without the engine's adjoint method.

    Args:
        measurements: the measurements.
        not_by_engine: where the engine's adjoint method is not available, and a remedy.

    Returns:
        the message of an error; empty if other methods differentiate all measurements.
    """
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
