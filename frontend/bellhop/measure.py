"""`measure`: mid-circuit measurements."""

from typing import Any

from bellhop.base.public_function import public_function
from bellhop.base.source import user_site
from bellhop.control_flow.eager_mode import is_recording
from bellhop.errors import CompileError
from bellhop.tracing.state import current_circuit, is_tracing


@public_function
def measure(wires: Any, reset: bool = False, postselect: int | None = None) -> Any:
    """Measure a wire of a circuit before its end, and collapse the state.

    Args:
        wires: the wire: a label, or a traced integer.
        reset: whether to set the wire to zero after the measurement.
        postselect: 0 or 1, the outcome to select; None for no postselection.  Results are then
            conditioned on the outcome; they are NaN if it has probability zero.

    Returns:
        the outcome, a traced boolean for use in loops, conditionals, callbacks and accelerated
        functions.  Arithmetic converts it to 0 or 1, so ``m0 + m1`` counts, and ``~m0`` is its
        negation, as in PennyLane.  ``qml.expval``, ``var``, ``probs``, ``sample`` and ``counts``
        accept outcomes too.

    In a QNode that is not compiled, ``measure`` is ``qml.measure``.

    Raises:
        CompileError: outside of a QNode, for several wires, or if ``postselect`` is invalid.

    The QNode's ``mcm_method`` determines the meaning of its results:

    - ``"one-shot"`` (the default with shots): the circuit runs once for each shot, and again if a
      postselection fails; with ``postselect_mode="hw-like"`` that shot is dropped instead.
      Returned values that are not measurements, such as outcomes, get a leading axis of shots.
    - ``"tree-traversal"`` (the default without shots): the circuit runs once for each combination
      of outcomes with nonzero probability, and results are exact means over the combinations.
      With shots it is ``"one-shot"``.
    - ``"deferred"``, ``"device"``: the same as ``"tree-traversal"``.
    - ``"single-branch-statistics"`` (the default without shots if the QNode returns outcomes, or
      other values that are not measurements): the circuit runs once, and results are conditioned on
      the random outcomes of that run.

    Without shots, results are differentiable, including their dependence on outcome probabilities:
    the engine uses a backward sweep for each branch, JAX differentiates circuits that are part of
    the program.  Circuits in the program, and circuits on ``default.mixed``, evaluate every
    combination of outcomes, and support at most 12 measurements.

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

    Same interface as ``measure`` of PennyLane and Catalyst.
    """
    if is_recording():
        import pennylane as qml

        return qml.measure(wires, reset=reset, postselect=postselect)
    if not is_tracing():
        raise CompileError(
            "bellhop.measure is called outside of a QNode. Call it in a quantum function."
        )
    from bellhop.circuits.front.mid_circuit_measure import measure_wire

    return measure_wire(
        current_circuit(), wires, reset=bool(reset), postselect=postselect, site=user_site()
    )
