"""What a QNode's ``diff_method`` and ``gradient_kwargs`` are called, and which there are."""

from typing import Any

import numpy as np
import pennylane as qml

from bellhop.base.difference_step import difference_step
from bellhop.circuits.gates.device import bits_of_states
from bellhop.errors import CompileError

ADJOINT = "adjoint"
PARAMETER_SHIFT = "parameter-shift"
FINITE_DIFFERENCES = "finite-diff"
SPSA = "spsa"
BY_DIFFERENCES = (FINITE_DIFFERENCES, SPSA)
# The circuit of such a QNode is tapes, which PennyLane makes others of.
HADAMARD = "hadamard"
BEST = "best"
# What users do not choose: by how likely samples were, from the same samples.
LIKELIHOOD_RATIO = "likelihood-ratio"
DIFFERENCES_OF_DIFFERENCES = (
    "it is differentiated twice, and finite differences of finite differences are mostly rounding "
    "errors. Use diff_method='best' or 'parameter-shift'."
)
_METHODS = {
    "best": BEST,
    "adjoint": ADJOINT,
    "device": ADJOINT,
    "parameter-shift": PARAMETER_SHIFT,
    "finite-diff": FINITE_DIFFERENCES,
    "spsa": SPSA,
    "hadamard": HADAMARD,
    qml.gradients.param_shift: PARAMETER_SHIFT,
    qml.gradients.finite_diff: FINITE_DIFFERENCES,
    qml.gradients.spsa_grad: SPSA,
    qml.gradients.hadamard_grad: HADAMARD,
}
# As in PennyLane, but that a step is that of the numbers' precision.
_OPTIONS: dict[str, dict[str, Any]] = {
    FINITE_DIFFERENCES: {"h": None, "approx_order": 1, "strategy": "forward"},
    SPSA: {
        **{"h": None, "approx_order": 2, "strategy": "center"},
        **{"num_directions": 1, "sampler_rng": None},
    },
    PARAMETER_SHIFT: {"shifts": None},
    HADAMARD: {"aux_wire": None, "device_wires": None, "mode": "standard"},
}


def method_of(qnode: qml.QNode) -> str:
    """Return the method of a QNode: one of the names above, or what else was asked for."""
    return _METHODS.get(qnode.diff_method, str(qnode.diff_method))


def options_of(qnode: qml.QNode, where: str) -> dict[str, Any]:
    """Return the options of a QNode's method, those that it leaves out too.

    Raises:
        CompileError: for options that are not supported.
    """
    method = method_of(qnode)
    given = {
        name: value
        for name, value in (qnode.gradient_kwargs or {}).items()
        if value is not None and name not in ("argnums", "argnum")
    }
    allowed = _OPTIONS.get(method, {})
    unknown = [name for name in given if name not in allowed]
    if unknown and method in _METHODS.values():
        supported = f"{', '.join(allowed)} are" if allowed else "none is"
        raise CompileError(
            f"{where}: the gradient_kwargs {', '.join(unknown)} are not supported by bellhop "
            f"for diff_method='{method}'; {supported}."
        )
    options = allowed | given
    if "h" in options and options["h"] is None:
        step = difference_step(f"float{bits_of_states(qnode.device)}")
        # PennyLane's, in double precision.
        options["h"] = max(1e-5, step) if method == SPSA else step
    if options.get("shifts") is not None:
        options["shifts"] = tuple(tuple(map(float, np.ravel(each))) for each in options["shifts"])
    seed = options.get("sampler_rng")
    if not isinstance(seed, int | None):
        raise CompileError(
            f"{where}: the sampler_rng of its gradient_kwargs is a {type(seed).__name__}, which "
            "each run would go on with. Give a seed, an integer, or none."
        )
    return options
