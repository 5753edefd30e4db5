"""Choose how the random outcomes of a circuit are treated."""

from collections.abc import Sequence
from typing import Any

from bellhop.circuits.ir.answers import MeasurementSite
from bellhop.circuits.ir.circuit_config import CircuitConfig, Shots
from bellhop.circuits.ir.executors import Outcomes
from bellhop.circuits.ir.measurement_types import is_measurement
from bellhop.errors import CompileError

# Values of ``mcm_method`` in PennyLane.
_ONE_SHOT, _TREE, _SINGLE_BRANCH = "one-shot", "tree-traversal", "single-branch-statistics"


def choose_outcomes(
    config: CircuitConfig, circuit: MeasurementSite, leaves: Sequence[Any]
) -> Outcomes:
    """Choose how a circuit treats random outcomes: samples them, or sums over all.

    Without mid-circuit measurements, the result is ``Outcomes.SAMPLES`` with shots, else
    ``Outcomes.NONE``. With mid-circuit measurements it is ``ONE_RUN`` for ``mcm_method``
    "single-branch-statistics". For any other ``mcm_method``, it is ``RUN_PER_SHOT`` with shots,
    else ``ALL``: a sum over all outcomes.

    Args:
        config: the QNode's settings, with its shots and its ``mcm_method``.
        circuit: the backend's circuit after its last gate. Its ``has_mid_circuit`` is read.
        leaves: the leaves of the quantum function's result, before they are measured. Without
            shots, if a leaf is not a measurement, the outcomes are drawn in one execution
            (``ONE_RUN``).

    Raises:
        CompileError: if the user's ``mcm_method`` does not support the circuit.
    """
    shots, method, where = config.shots.total, config.mcm_method, config.where
    if not circuit.has_mid_circuit:
        return Outcomes.SAMPLES if shots else Outcomes.NONE
    if method == _SINGLE_BRANCH:
        return Outcomes.ONE_RUN
    if shots:
        return Outcomes.RUN_PER_SHOT
    if method == _ONE_SHOT:
        raise CompileError(
            f"{where}: mcm_method={_ONE_SHOT!r} needs shots, and the QNode has none. Use "
            f"mcm_method={_TREE!r}, or set shots: {Shots.ADVICE}."
        )
    is_classical = not all(map(is_measurement, leaves))
    if is_classical and method is not None:
        raise CompileError(
            f"{where}: the quantum function returns values that are not measurements, which "
            f"mcm_method={method!r} does not support, as results are averages over all outcomes. "
            "Return only measurements, such as qml.expval of an outcome, or set "
            f"mcm_method={_SINGLE_BRANCH!r}."
        )
    return Outcomes.ONE_RUN if is_classical else Outcomes.ALL
