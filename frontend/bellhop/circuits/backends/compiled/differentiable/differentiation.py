"""``Differentiation``: how the measurements of a compiled circuit are differentiated."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bellhop.circuits.backends.choose.choose_derivative import (
    CircuitFacts,
    DerivativeChoice,
    choose_derivative,
    find_second_order_obstacle,
)
from bellhop.circuits.gates.shift_rules import FrequencyBits, ShiftRules
from bellhop.circuits.ir.device_measurements import Measurement
from bellhop.circuits.ir.diff_method import DiffMethod
from bellhop.circuits.ir.execution_plan import ExecutionPlan
from bellhop.circuits.ir.executors import Executor
from bellhop.errors import DifferentiableCompileError


@dataclass(frozen=True)
class Differentiation:
    """How the measurements of a circuit are differentiated.

    An instance is chosen for each device call while a circuit is traced, and is a static part of
    its final measurement (`MeasurementSet`). Gate parameters in loops with a dynamic trip count are
    *dynamic-count parameters*, all other traced gate parameters *static-count parameters*.

    Attributes:
        method: the method with respect to gate parameters, a name of ``ir/diff_method.py``.
        frequencies: one byte for each static-count parameter, for shift rules: bit ``k`` is the
            frequency ``(k + 1) / 2`` (`FrequencyBits`).
        dynamic_frequencies: such bits, which all dynamic-count parameters share.
        options: the ``gradient_kwargs`` of the method.
        obstacle: the error message if a derivative does not exist; otherwise empty.
        amplitude_differentiation: how to differentiate if the amplitudes that prepare the state are
            appended to the parameters; None for circuits without amplitudes.
        has_vjp: whether the engine computes the VJP of all values, whichever method gives the
            Jacobian.
        single_pass: whether the product of the derivative with a (co)tangent is computed by one
            pass of the adjoint method: a VJP of the values, or, for a measurement that returns its
            Jacobian, a Hessian-vector product. The tangents are then a ``LinearMap``.
            ``use_single_pass`` sets it.
    """

    method: str = DiffMethod.ADJOINT
    frequencies: bytes = field(default=b"", repr=False)
    dynamic_frequencies: int = FrequencyBits.NONE
    options: tuple[tuple[str, Any], ...] = ()
    obstacle: str = ""
    amplitude_differentiation: "Differentiation | None" = field(default=None, repr=False)
    has_vjp: bool = False
    single_pass: bool = False

    @classmethod
    def from_facts(
        cls,
        plan: ExecutionPlan,
        facts: CircuitFacts,
        frequencies: bytes,
        dynamic_frequencies: int,
        amplitudes: bytes,
    ) -> "Differentiation":
        """Choose how the measurements of one device call are differentiated.

        Args:
            plan: how the circuit is executed; it has the user's method and options.
            facts: properties of circuit and device that decide about the method.
            frequencies: one byte for each gate parameter outside of loops with a dynamic trip
                count, the bits of its shift-rule frequencies (`FrequencyBits`).
            dynamic_frequencies: such bits, which all gate parameters in these loops share.
            amplitudes: such a byte for each real number in the amplitudes that prepare the state;
                empty if the state is not prepared from traced amplitudes.

        Returns:
            the differentiation; its ``obstacle`` is the error message if a derivative does not
            exist.
        """
        choice = choose_derivative(plan, facts)
        options = () if choice.method == DiffMethod.LIKELIHOOD_RATIO else plan.diff_options

        def differentiate(choice: DerivativeChoice, frequencies: bytes) -> "Differentiation":
            """Return the `Differentiation` with a chosen method and its obstacle.

            ``frequencies`` has one byte for each parameter, the bits of its shift-rule frequencies.
            """
            return cls(
                choice.method,
                frequencies,
                dynamic_frequencies,
                options,
                choice.obstacle,
                has_vjp=choice.has_vjp,
            )

        by_parameters = differentiate(choice, frequencies)
        if not amplitudes or choice.by_amplitudes is None:
            return by_parameters
        by_both = differentiate(choice.by_amplitudes, frequencies + amplitudes)
        return replace(by_parameters, amplitude_differentiation=by_both)

    def select_rerun_method(self, measurements: Sequence[Measurement]) -> "Differentiation":
        """Return the differentiation for derivatives that run the gates again.

        Such a derivative of a variance needs its second moment, which the adjoint method does not
        differentiate. So parameter shifts replace the adjoint method, also for derivatives by
        amplitudes, unless the adjoint method of plugins supports all measurements.

        Args:
            measurements: the measurements to differentiate.

        Returns:
            a copy with the parameter-shift method; this object itself if its method is not the
            adjoint method, or can stay.

        Raises:
            DifferentiableCompileError: if parameter shifts would be needed for a state, which only
                the engine's adjoint method differentiates, or for samples, counts or shadows, which
                no method does.
        """
        if not self.is_adjoint or all(m.has_jacobian(Executor.PLUGIN) for m in measurements):
            return self
        if obstacle := find_second_order_obstacle(measurements):
            raise DifferentiableCompileError(obstacle)
        by_amplitudes = (
            self.amplitude_differentiation
            and self.amplitude_differentiation.select_rerun_method(measurements)
        )
        return replace(
            self, method=DiffMethod.PARAMETER_SHIFT, amplitude_differentiation=by_amplitudes
        )

    def use_single_pass(self) -> "Differentiation":
        """Return a copy with ``single_pass`` set: one adjoint pass for a VJP, no Jacobian.

        The flag is also set for derivatives by amplitudes, if the engine computes their VJP.
        """
        by_amplitudes = self.amplitude_differentiation
        if by_amplitudes is not None and by_amplitudes.has_vjp:
            by_amplitudes = replace(by_amplitudes, single_pass=True)
        return replace(self, single_pass=True, amplitude_differentiation=by_amplitudes)

    @property
    def is_adjoint(self) -> bool:
        """Whether first derivatives are computed by the adjoint method.

        True for the methods adjoint and likelihood ratio. If shift rules compute a derivative of
        higher order, they leave one order to the adjoint method.
        """
        return self.method in (DiffMethod.ADJOINT, DiffMethod.LIKELIHOOD_RATIO)

    def make_basis(self, n_params: int) -> Any:
        """Draw the random directions of SPSA.

        They are drawn in each run of the program; if the user has set ``sampler_rng``, once while
        tracing, with this seed.

        Args:
            n_params: the number of gate parameters outside of loops with a dynamic trip count.

        Returns:
            array ``[num_directions, n_params]`` of ones and minus ones, with zeros for parameters
            without a derivative; None for other methods than SPSA.
        """
        if self.method != DiffMethod.SPSA:
            return None
        options = dict(self.options)
        rows = ShiftRules.draw_directions(
            n_params, options["num_directions"], options["sampler_rng"]
        )
        is_shifted = np.frombuffer(self.frequencies, np.uint8) != FrequencyBits.NONE
        return rows if is_shifted.all() else rows * is_shifted

    def make_shift_rules(self, static_order: int, dynamic_order: int, *, keep: bool) -> ShiftRules:
        """Build the parameter-shift or finite-difference rules of a derivative.

        If `is_adjoint`, the rules are for one order less, which the adjoint method computes: one
        static order if there is any, else one dynamic order. Dynamic-count parameters are gate
        parameters in loops with a dynamic trip count; all other parameters are static-count.

        Args:
            static_order: the order in static-count parameters, or along the directions of a basis.
            dynamic_order: the order in dynamic-count parameters.
            keep: whether the runtime also computes and keeps the first derivative in dynamic-count
                parameters.

        Returns:
            a rule for each parameter (or SPSA direction), as operands and attributes of
            ``quantum.derivative``.

        Raises:
            DifferentiableCompileError: if a parameter has no rule, if the user's shifts do not fit,
                for a second finite difference, or for a derivative in dynamic-count parameters with
                SPSA or the user's shifts.
        """
        options = dict(self.options)
        by_dynamic = dynamic_order > 0 or keep
        given = options.get("shifts") if self.method == DiffMethod.PARAMETER_SHIFT else None
        if DiffMethod.has_differences(self.method) and static_order + dynamic_order > 1:
            raise DifferentiableCompileError(DiffMethod.explain_second_difference(self.method))
        if by_dynamic and (self.method == DiffMethod.SPSA or given is not None):
            is_spsa = self.method == DiffMethod.SPSA
            option = "diff_method='spsa'" if is_spsa else "the option shifts of gradient_kwargs"
            raise DifferentiableCompileError(
                f"the circuit has gates in a loop with a dynamic trip count, and {option} needs a "
                "static number of gate parameters. Use diff_method='best' without shifts, or a "
                "for_loop whose bounds are Python numbers."
            )
        if self.is_adjoint:
            static_order, dynamic_order = (
                (static_order - 1, dynamic_order) if static_order else (0, dynamic_order - 1)
            )
        none = FrequencyBits.NONE
        counted = self.frequencies if static_order > 0 else bytes([none]) * len(self.frequencies)
        of_dynamic = self.dynamic_frequencies if dynamic_order > 0 or keep else none
        if DiffMethod.has_differences(self.method):
            if self.method == DiffMethod.SPSA and static_order > 0:
                counted = bytes([1]) * options["num_directions"]
            return ShiftRules.from_differences(counted, of_dynamic, self.compute_difference_terms())
        if FrequencyBits.UNKNOWN in (*counted, of_dynamic):
            gate = (
                f"the gate of traced parameter {counted.index(FrequencyBits.UNKNOWN)}, from 0,"
                if FrequencyBits.UNKNOWN in counted
                else "a gate in a loop with a dynamic trip count"
            )
            raise DifferentiableCompileError(
                f"the derivative needs parameter-shift rules, and {gate} has no such rule. Use "
                "diff_method='finite-diff', or decompose this gate."
            )
        if given is None or static_order == 0:
            return ShiftRules.from_frequencies(counted, of_dynamic)
        try:
            return ShiftRules.from_shifts(counted, given)
        except ValueError as error:
            raise DifferentiableCompileError(
                f"the option shifts of gradient_kwargs does not fit the circuit: {error}. Pass a "
                "tuple for each traced parameter of a gate, with a shift for each frequency of the "
                "gate."
            ) from None

    def compute_difference_terms(self) -> np.ndarray:
        """Return coefficient and shift of each term of a finite difference.

        Only for ``diff_method='finite-diff'`` and ``'spsa'``.

        Returns:
            array ``[terms, 2]``.
        """
        options = dict(self.options)
        return ShiftRules.compute_difference_terms(
            options["h"], options["approx_order"], options["strategy"]
        )
