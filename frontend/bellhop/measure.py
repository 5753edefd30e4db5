"""measure: a measurement in the middle of a circuit."""

from typing import Any

from bellhop.base.source import user_site
from bellhop.control_flow.eager_mode import is_recording
from bellhop.errors import CompileError
from bellhop.tracing.state import current_circuit, is_tracing


def measure(wires: Any, reset: bool = False, postselect: int | None = None) -> Any:
    """Measure a wire in the middle of a circuit, and collapse its state.

    Args:
        wires: the wire, a label or an integer that the program computes; one.
        reset: bring the wire to zero afterwards.
        postselect: 0 or 1 asks for this outcome.  Results are then conditioned on it; where it
            cannot be they are NaN.

    Returns:
        the outcome, a boolean of the program, which loops, conditionals, callbacks and
        accelerated functions take like any other.  Arithmetic takes it for 0 or 1, so
        ``m0 + m1`` counts, and ``~m0`` is its opposite, as with PennyLane.  ``qml.expval``,
        ``var``, ``probs``, ``sample`` and ``counts`` take outcomes too.

    In a QNode that is not compiled it is ``qml.measure``, as ``cond`` is ``qml.cond`` there.

    Raises:
        CompileError: outside a QNode, for several wires, or for another
            ``postselect``.

    The QNode's ``mcm_method`` says what its results mean:

    - ``"one-shot"`` (the default with shots): the circuit runs once for each shot, and again where
      a postselection fails; with ``postselect_mode="hw-like"`` that shot is dropped.  What the
      QNode returns beside measurements, outcomes too, gets an axis of shots in front.
    - ``"tree-traversal"`` (the default without): it runs once for each combination of outcomes
      that happens, and results are exact means over them.  With shots it is ``"one-shot"``.
    - ``"deferred"``, ``"device"``: as ``"tree-traversal"``.
    - ``"single-branch-statistics"`` (the default without shots where the QNode returns outcomes, or
      other values that are no measurements): it runs once, and results are those of the outcomes
      that came.

    Without shots, results are differentiated, the probabilities of the outcomes with them: by
    a sweep back through each branch in the engine, by JAX where the circuit is a part of the
    program.

    There, as on ``default.mixed``, each combination of outcomes is gone through, and at most 12
    measurements may be.

    Example:
        >>> import bellhop, pennylane as qml
        >>> @bellhop.qjit
        ... @qml.qnode(qml.device("lightning.qubit", wires=2))
        ... def circuit(x):
        ...     qml.RX(x, wires=0)
        ...     m = bellhop.measure(0)
        ...     qml.RY(0.5 * m, wires=1)
        ...     return qml.expval(m), qml.expval(qml.Z(1))
        >>> ones, z = circuit(3.141592653589793)
        >>> round(float(ones), 6), round(float(z), 6)
        (1.0, 0.877583)

    The interface is that of PennyLane's and Catalyst's ``measure``.
    """
    if is_recording():
        import pennylane as qml

        return qml.measure(wires, reset=reset, postselect=postselect)
    if not is_tracing():
        raise CompileError(
            "bellhop.measure stands outside of a QNode. Call it in a quantum function."
        )
    from bellhop.circuits.front.mid_circuit_measure import measure_wire

    return measure_wire(
        current_circuit(), wires, reset=bool(reset), postselect=postselect, site=user_site()
    )
