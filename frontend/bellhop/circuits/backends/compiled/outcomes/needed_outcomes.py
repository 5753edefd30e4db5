"""Find out whether a recorded circuit needs the outcomes that were deferred.

If qubit 0 was measured mid-circuit and the measurement was deferred, the circuit ::

    state = quantum_gates[CRY on 0 and 1] state x ...
    value = quantum_measure[X on 0] state ...

needs the outcome: the measurement would have changed the expectation value of X.
"""

import itertools
from collections.abc import Collection

from jax.extend.core import ClosedJaxpr

from bellhop.circuits.backends.compiled.differentiable.compiled_state import CircuitEquation
from bellhop.circuits.ir.device_measurements import (
    Expval,
    Frequencies,
    Measurement,
    Probs,
    Samples,
    Var,
)
from bellhop.circuits.passes.deferral import DeferralPass
from bellhop.jaxprs.equations import iterate_equations


def needs_outcomes(closed: ClosedJaxpr, qubits: Collection[int]) -> bool:
    """Return whether deferring mid-circuit measurements was wrong for a circuit.

    With deferral, the measured wire controls later gates in place of the outcome. That is wrong if
    another equation uses the outcome, or if the measurement would have changed a final measurement.

    Args:
        closed: the jaxpr of the recorded circuit, without dead code.
        qubits: the qubits whose measurements were deferred; empty if there are none.
    """
    if not qubits:
        return False
    equations = list(iterate_equations(closed.jaxpr))
    measured = [CircuitEquation(eqn).measurements for eqn in equations]
    return any(map(DeferralPass.uses_outcome, equations)) or any(
        set(qubits) & _find_disturbed_qubits(measurement, qubits)
        for measurement in itertools.chain.from_iterable(measured)
    )


def _find_disturbed_qubits(measurement: Measurement, qubits: Collection[int]) -> set[int]:
    """Return the qubits on which an earlier measurement would change a final measurement.

    For an expectation value or variance, they are the wires of non-diagonal factors; for
    probabilities, samples and frequencies there are none.

    Args:
        measurement: the final measurement.
        qubits: the result for other kinds of measurements, such as a state, which any earlier
            measurement would change.
    """
    if isinstance(measurement, Expval | Var):
        factors = itertools.chain.from_iterable(measurement.terms)
        return {wire for factor in factors if not factor.is_diagonal for wire in factor.wires}
    return set() if isinstance(measurement, Probs | Samples | Frequencies) else set(qubits)
