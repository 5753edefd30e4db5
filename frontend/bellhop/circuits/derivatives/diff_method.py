"""What a QNode's ``diff_method`` and ``gradient_kwargs`` mean for a compiled circuit."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pennylane as qml

from bellhop.base.difference_step import difference_step
from bellhop.circuits.gates import shift_rules
from bellhop.circuits.measure.device_measurements import Measurement
from bellhop.circuits.precision import real_type
from bellhop.errors import CompileError, DifferentiableCompileError

ADJOINT = "adjoint"
PARAMETER_SHIFT = "parameter-shift"
FINITE_DIFFERENCES = "finite-diff"
BEST = "best"
_METHODS = {
    "best": BEST,
    "adjoint": ADJOINT,
    "device": ADJOINT,
    "parameter-shift": PARAMETER_SHIFT,
    "finite-diff": FINITE_DIFFERENCES,
    qml.gradients.param_shift: PARAMETER_SHIFT,
    qml.gradients.finite_diff: FINITE_DIFFERENCES,
}
# As in PennyLane, but that the step is that of the numbers' precision.
_DIFFERENCES = {"h": None, "approx_order": 1, "strategy": "forward"}


@dataclass(frozen=True)
class Differentiation:
    """How the measurements of a circuit are differentiated.

    Attributes:
        method: by the parameters of gates, one of the names above.
        frequencies: the bits of the frequencies of each parameter, for shift rules.
        dynamic_frequencies: those of all parameters that only the run counts.
        options: of finite differences.
        obstacle: why there is no derivative; nothing where there is one.
    """

    method: str = ADJOINT
    frequencies: bytes = field(default=b"", repr=False)
    dynamic_frequencies: int = shift_rules.NO_FREQUENCIES
    options: tuple[tuple[str, Any], ...] = ()
    obstacle: str = ""

    def rule(self, n_params: int) -> shift_rules.ShiftRule:
        """Return the rule that differentiates by shifted parameters."""
        assert len(self.frequencies) == n_params
        return self._rule_of(self.frequencies)

    def dynamic_count_rule(self) -> shift_rules.ShiftRule:
        """Return one rule that differentiates by any of the dynamic-count parameters."""
        return self._rule_of(bytes([self.dynamic_frequencies]))

    def _rule_of(self, bits: bytes) -> shift_rules.ShiftRule:
        if self.method == FINITE_DIFFERENCES:
            return shift_rules.finite_differences(bits, **dict(self.options))
        if shift_rules.UNKNOWN_FREQUENCIES in bits:
            raise DifferentiableCompileError(
                "the derivative needs a parameter-shift rule, and there is none for a gate in "
                "it. Use diff_method='finite-diff', or decompose the gate."
            )
        return shift_rules.parameter_shift(bits)


@dataclass(frozen=True)
class DifferentiationChoice:
    """A QNode's choice, before it is known what the circuit measures.

    Attributes:
        method: ``BEST`` or one of these methods; what else was asked for, if it is
            none of them.
        options: of finite differences.
        has_adjoint: whether the device has the adjoint method.
    """

    method: str
    options: tuple[tuple[str, Any], ...] = ()
    has_adjoint: bool = True

    def of(
        self,
        measurements: Sequence[Measurement],
        frequencies: bytes,
        dynamic_frequencies: int,
        *,
        is_replayed: bool,
    ) -> Differentiation:
        """Return how these measurements are differentiated.

        Args:
            measurements: of one device call.
            frequencies: the bits of those of each parameter.
            dynamic_frequencies: those of all parameters that only the run counts.
            is_replayed: whether only running the gates again differentiates: with shots, or
                with mid-circuit measurements.
        """
        have_adjoint = all(measurement.has_adjoint for measurement in measurements)
        method = self.method
        if method == BEST:
            by_adjoint = self.has_adjoint and have_adjoint and not is_replayed
            method = ADJOINT if by_adjoint else PARAMETER_SHIFT
        obstacle = ""
        if method not in (ADJOINT, PARAMETER_SHIFT, FINITE_DIFFERENCES):
            obstacle = (
                f"it is differentiated, and its diff_method is '{method}'; bellhop supports "
                "'best', 'adjoint', 'parameter-shift' and 'finite-diff' on this device."
            )
        elif obstacles := [m.obstacle for m in measurements if m.obstacle]:
            obstacle = obstacles[0]
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
        elif method == ADJOINT and not have_adjoint:
            obstacle = (
                "it measures var or probs and is differentiated; the adjoint method "
                "differentiates expectation values only. Use diff_method='best' or "
                "'parameter-shift'."
            )
        return Differentiation(method, frequencies, dynamic_frequencies, self.options, obstacle)


def chosen_differentiation(
    qnode: qml.QNode, where: str, *, has_adjoint: bool
) -> DifferentiationChoice:
    """Return how the results of a QNode are to be differentiated.

    Args:
        qnode: the QNode.
        where: its name and line, for errors.
        has_adjoint: whether the device has the adjoint method.

    Raises:
        CompileError: for options of the method that are not supported.
    """
    method = _METHODS.get(qnode.diff_method, str(qnode.diff_method))
    given = {
        name: value
        for name, value in (qnode.gradient_kwargs or {}).items()
        if value is not None and name not in ("argnums", "argnum")
    }
    allowed = _DIFFERENCES if method == FINITE_DIFFERENCES else {}
    unknown = [name for name in given if name not in allowed]
    if unknown and method in _METHODS.values():
        supported = f"{', '.join(allowed)} are" if allowed else "none is"
        raise CompileError(
            f"{where}: the gradient_kwargs {', '.join(unknown)} are not supported by bellhop "
            f"for diff_method='{method}'; {supported}."
        )
    default = _DIFFERENCES | {"h": difference_step(real_type())}
    options = default | given if method == FINITE_DIFFERENCES else {}
    return DifferentiationChoice(method, tuple(options.items()), has_adjoint)
