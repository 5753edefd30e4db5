"""Derivatives of a batch of tapes by their parameters, as PennyLane's QNodes have them.

PennyLane differentiates what it executes through autograd.  One pass backwards is a row of the
Jacobian of every tape, since a tape does not depend on the parameters of another.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pennylane as qml
from autograd.core import make_vjp
from autograd.tracer import getval

# From parameters [tapes, n] to results [tapes, m].
Function = Callable[[Any], Any]


def with_derivatives(function: Function, parameters: np.ndarray, order: int) -> list[np.ndarray]:
    """Return the results of a function, and their derivatives up to an order.

    Returns:
        arrays ``[tapes, m]``, ``[tapes, m, n]``, ``[tapes, m, n, n]``, ...
    """
    n_tapes, n = parameters.shape
    for k in range(order):
        function = _with_jacobian_of_last(function, n, n**k / sum(n**i for i in range(k + 1)))
    # PennyLane leaves the boxes of lower orders around results.
    flat = np.asarray(getval(function(parameters)), float)
    m = flat.shape[1] // sum(n**k for k in range(order + 1))
    ends = np.cumsum([m * n**k for k in range(order)])
    return [
        part.reshape(n_tapes, m, *[n] * k) for k, part in enumerate(np.split(flat, ends, axis=1))
    ]


def _with_jacobian_of_last(function: Function, n: int, share: float) -> Function:
    """Return a function whose results are followed by the derivatives of a last share of them."""

    def both(parameters: Any) -> Any:
        vjp, values = make_vjp(function, parameters)
        total = values.shape[1]
        rows = []
        for number in range(total - round(total * share), total):
            cotangent = np.zeros(values.shape)
            cotangent[:, number] = 1.0
            rows.append(vjp(cotangent))
        jacobian = qml.math.reshape(qml.math.stack(rows, axis=1), (len(values), len(rows) * n))
        return qml.math.concatenate([values, jacobian], axis=1)

    return both
