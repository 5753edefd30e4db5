"""The derivative methods, and the support of each entry of ``gradient_kwargs``.

A table lists every option that PennyLane documents for a gradient method: a supported option, an
option without effect, which warns, or an unsupported option, which raises an error::

    gradient_kwargs={"shifts": [(0.1,)]}       supported by "parameter-shift"
    gradient_kwargs={"broadcast": True}        a warning
    gradient_kwargs={"n": 2}                   an error for "finite-diff"
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bellhop.base.source import warn_user
from bellhop.errors import CompileError


class DiffMethod(enum.StrEnum):
    """A derivative method, equal to the string that users pass as ``diff_method``.

    Values:
        HADAMARD: runs on PennyLane's tapes, which its transform expands to Hadamard tests.
        BEST: Bellhop chooses a method for each measurement.
        LIKELIHOOD_RATIO: internal, not a ``diff_method`` of users: the score-function estimator,
            from the samples.
    """

    ADJOINT = "adjoint"
    PARAMETER_SHIFT = "parameter-shift"
    FINITE_DIFFERENCES = "finite-diff"
    SPSA = "spsa"
    HADAMARD = "hadamard"
    BEST = "best"
    BACKPROP = "backprop"
    LIKELIHOOD_RATIO = "likelihood-ratio"

    # Errors quote the user's names.
    __repr__ = str.__repr__

    @classmethod
    def has_differences(cls, method: str) -> bool:
        """Return whether a method computes differences of values at shifted parameters.

        True for ``"finite-diff"`` and ``"spsa"``.
        """
        return method in (cls.FINITE_DIFFERENCES, cls.SPSA)

    @staticmethod
    def explain_second_difference(method: str) -> str:
        """Return the error text for a second derivative by finite differences or SPSA.

        The text gives the reason and a remedy; the QNode's name is to be put in front of it.

        ``method`` is ``"finite-diff"`` or ``"spsa"``.
        """
        return (
            f"the circuit is differentiated twice with diff_method='{method}', and finite "
            "differences of finite differences are mostly rounding errors. Use diff_method='best' "
            "or 'parameter-shift'."
        )


@dataclass(frozen=True)
class SupportedOption:
    """An entry of ``gradient_kwargs`` that works as PennyLane documents it.

    Attributes:
        default: the value if the QNode does not set the option.
    """

    default: Any = None


@dataclass(frozen=True)
class IgnoredOption:
    """An entry of ``gradient_kwargs`` that changes no result: a warning.

    Attributes:
        reason: why the option has no effect, for the warning.
    """

    reason: str


@dataclass(frozen=True)
class UnsupportedOption:
    """An entry of ``gradient_kwargs`` that would change the result: an error.

    Attributes:
        effect: the change, as the end of a sentence that begins with "the option would".
        remedy: a sentence with an alternative for the user, for the error message.
        neutral: the value that changes nothing and is therefore accepted; None if there is none.
    """

    effect: str
    remedy: str
    neutral: Any = None


_ARGNUM = UnsupportedOption(
    "set the derivatives with respect to all parameters but argnum to zero",
    "Use bellhop.grad(..., argnums=...), or jax.lax.stop_gradient.",
)
_F0 = IgnoredOption("compiled programs run the unshifted circuit themselves")
_N = UnsupportedOption(
    "return the n-th derivative in place of the first",
    "Differentiate n times, with diff_method='parameter-shift'.",
    neutral=1,
)
_VALIDATE_PARAMS = IgnoredOption("bellhop shifts every parameter that has a derivative")

# Keys are methods. The step `h` is None here; `CircuitConfig.read_diff_options` computes it.
_OPTIONS: dict[str, dict[str, SupportedOption | IgnoredOption | UnsupportedOption]] = {
    DiffMethod.PARAMETER_SHIFT: {
        "shifts": SupportedOption(),
        "argnum": _ARGNUM,
        "gradient_recipes": UnsupportedOption(
            "replace the shift rules of the gates",
            "Use the option shifts, which sets the shifts of each gate's rule.",
        ),
        "fallback_fn": IgnoredOption(
            "each gate is differentiated by its own shift rule, and a gate without a rule is an "
            "error"
        ),
        "f0": _F0,
        "broadcast": IgnoredOption("compiled programs choose how shifted circuits are executed"),
    },
    DiffMethod.FINITE_DIFFERENCES: {
        "h": SupportedOption(),
        "approx_order": SupportedOption(1),
        "strategy": SupportedOption("forward"),
        "argnum": _ARGNUM,
        "n": _N,
        "f0": _F0,
        "validate_params": _VALIDATE_PARAMS,
    },
    DiffMethod.SPSA: {
        "h": SupportedOption(),
        "approx_order": SupportedOption(2),
        "strategy": SupportedOption("center"),
        "num_directions": SupportedOption(1),
        "sampler_rng": SupportedOption(),
        "argnum": _ARGNUM,
        "n": _N,
        "f0": _F0,
        "validate_params": _VALIDATE_PARAMS,
        "sampler": UnsupportedOption(
            "draw other directions by a Python function",
            "Leave sampler out: the program draws directions with entries 1 and -1.",
        ),
    },
    DiffMethod.HADAMARD: {
        "aux_wire": SupportedOption(),
        "device_wires": SupportedOption(),
        "mode": SupportedOption("standard"),
        "argnum": _ARGNUM,
    },
    # These methods read no options.
    DiffMethod.BEST: {},
    DiffMethod.ADJOINT: {},
    DiffMethod.BACKPROP: {},
}
_PULSE_OPTIONS = ("num_split_times", "sampler_seed", "use_broadcasting", "atol")
_ALL_OPTIONS = frozenset((*(name for each in _OPTIONS.values() for name in each), *_PULSE_OPTIONS))


def read_options(given: Mapping[str, Any], method: str, where: str) -> dict[str, Any]:
    """Validate ``gradient_kwargs``, add defaults and warn about useless options.

    Args:
        given: the QNode's ``gradient_kwargs``. A known option whose value is None counts as not
            set.
        method: the derivative method. The options of an unknown method are returned as they are,
            since differentiation raises an error that names the method.
        where: the QNode's name and line, for messages.

    Returns:
        the value of each option that the method supports, by name: the given value or the default.
        Options that have no effect, of which a warning is issued, are not included.

    Raises:
        CompileError: for an unknown option, even if it is None; and for an unsupported option,
            unless its value is None or ``UnsupportedOption.neutral``.
    """
    known = _OPTIONS.get(method)
    if known is None:
        return dict(given)
    options = {
        name: each.default for name, each in known.items() if isinstance(each, SupportedOption)
    }
    for name, value in given.items():
        option = known.get(name)
        if not known and name in _ALL_OPTIONS:
            option = IgnoredOption("this method does not read the option")
        if option is None:
            supported = ", ".join(options) if options else "no options"
            raise CompileError(
                f"{where}: gradient_kwargs has an unknown option {name}, expected {supported} for "
                f"diff_method='{method}'. Leave {name} out."
            )
        if value is None:
            continue
        if isinstance(option, SupportedOption):
            options[name] = value
        elif isinstance(option, IgnoredOption):
            warn_user(
                f"{where}: the option {name} of gradient_kwargs has no effect with "
                f"diff_method='{method}': {option.reason}. Leave {name} out."
            )
        elif option.neutral is None or value != option.neutral:
            effect, remedy = option.effect, option.remedy
            raise CompileError(
                f"{where}: the option {name} of gradient_kwargs is not supported by bellhop for "
                f"diff_method='{method}': the option would {effect}. {remedy}"
            )
    return options
