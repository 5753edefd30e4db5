"""What a QNode's ``diff_method`` and ``gradient_kwargs`` are called, and which there are."""

from typing import Any

import numpy as np
import pennylane as qml

from bellhop.base.finite_diff_step import finite_diff_step
from bellhop.circuits.ir.gradient_options import (
    ADJOINT,
    BEST,
    FINITE_DIFFERENCES,
    HADAMARD,
    PARAMETER_SHIFT,
    SPSA,
    read_options,
)
from bellhop.circuits.ir.precision import bits_of_states
from bellhop.errors import CompileError

BY_DIFFERENCES = (FINITE_DIFFERENCES, SPSA)
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


def method_of(qnode: qml.QNode) -> str:
    """Return the method of a QNode: one of the names above, or what else was asked for."""
    return _METHODS.get(qnode.diff_method, str(qnode.diff_method))


def options_of(qnode: qml.QNode, where: str) -> dict[str, Any]:
    """Return the options of a QNode's method, with defaults for what it leaves out.

    Args:
        qnode: the QNode.
        where: the QNode and its line, for errors.

    Raises:
        CompileError: for options that are not supported, or that PennyLane does not have.
    """
    method = method_of(qnode)
    options = read_options(qnode.gradient_kwargs or {}, method, where)
    if "h" in options and options["h"] is None:
        step = finite_diff_step(f"float{bits_of_states(qnode.device)}")
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
