"""Executors of circuits, their offers, and treatments of random outcomes.

``runtime/executors.toml`` is the table; C++ is generated from the same file.
"""

import enum
import tomllib
from pathlib import Path
from typing import Any

_TABLES: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("executors.toml").read_text(encoding="utf-8")
)


class Executor(enum.Enum):
    """An executor of circuits, such as Bellhop's engine or a device's plugin.

    Values:
        ENGINE: Bellhop's engine in the C++ runtime.
        PLUGIN: the compiled plugin of the device, called by the runtime.
        ARRAYS: the program itself, in which the state is an array.
        STIM: Stim, for Clifford circuits with shots.
        TAPES: the PennyLane device, which the program calls through Python.
        NULL: nothing: the circuit is traced and checked, and its values are zeros.
        REGISTERED: a backend that ``register_backend`` added.
    """

    ENGINE = "engine"
    PLUGIN = "plugin"
    ARRAYS = "in the program"
    STIM = "Stim"
    TAPES = "Python"
    NULL = "nothing"
    REGISTERED = "registered backend"


class Outcomes(enum.Enum):
    """How a circuit treats random outcomes of measurements.

    Values:
        NONE: the circuit draws no random numbers.
        SAMPLES: final measurements are sampled, without mid-circuit outcomes.
        ONE_RUN: mid-circuit outcomes are drawn in one run.
        RUN_PER_SHOT: mid-circuit outcomes are drawn in a separate run for each shot.
        ALL: exact, by one run for each combination of mid-circuit outcomes that happens.
        ALL_WITH_IMPOSSIBLE: as ``ALL``, with combinations of probability zero, for second
            derivatives.
        REPEATED: outcomes are drawn, and runs are repeated until all postselections hold.
        REPEATED_ANEW: as ``REPEATED``, for circuits whose gates may differ between runs.
        SHARED_RUNS: outcomes are drawn for all shots, and shots with equal outcomes share a run.
    """

    NONE = "none"
    SAMPLES = "samples"
    ONE_RUN = "one_run"
    RUN_PER_SHOT = "run_per_shot"
    ALL = "all"
    ALL_WITH_IMPOSSIBLE = "all_with_impossible"
    REPEATED = "repeated"
    REPEATED_ANEW = "repeated_anew"
    SHARED_RUNS = "shared_runs"

    # Why gates before drawn outcomes have no derivative, as the end of an error message: in a
    # single run, and in a run for each shot.
    DRAWN_ONCE_ERROR = enum.nonmember(
        "the circuit draws random mid-circuit outcomes and is differentiated with respect to "
        "gates, but a single random run has no such derivative. Return only measurements, such as "
        "qml.expval, and leave out mcm_method='single-branch-statistics'."
    )
    DRAWN_ERROR = enum.nonmember(
        "the circuit draws random mid-circuit outcomes and is differentiated with respect to "
        "gates, which with shots needs bellhop's engine, diff_method='best' or 'parameter-shift', "
        "and matrices of QubitUnitary that are static and unitary. Use default.qubit, or a circuit "
        "without shots."
    )

    @property
    def _row(self) -> dict[str, Any]:
        """This treatment's row in the table ``outcomes`` of ``executors.toml``."""
        return _TABLES["outcomes"][self.value]

    @property
    def is_drawn(self) -> bool:
        """Whether the runtime draws random outcomes, of mid-circuit or final measurements.

        False for ``NONE``, and for ``ALL`` and ``ALL_WITH_IMPOSSIBLE``, which are exact.
        """
        return self._row.get("drawn", False)

    @property
    def is_mid_circuit(self) -> bool:
        """Whether the circuit has mid-circuit measurements."""
        return self not in (Outcomes.NONE, Outcomes.SAMPLES)

    @property
    def is_drawn_in_each_run(self) -> bool:
        """Whether each run of the circuit draws its own mid-circuit outcomes.

        False for ``ALL`` and ``ALL_WITH_IMPOSSIBLE``, which draw none, and for ``SHARED_RUNS``,
        which draws the outcomes of all shots together.
        """
        return self.is_mid_circuit and not self.is_summed

    @property
    def is_summed(self) -> bool:
        """Whether results are sums over runs with different mid-circuit outcomes.

        True for ``ALL``, ``ALL_WITH_IMPOSSIBLE`` and ``SHARED_RUNS``.
        """
        return self._row.get("summed", False)

    @property
    def is_for_shots(self) -> bool:
        """Whether each shot has its own mid-circuit outcomes.

        True for ``RUN_PER_SHOT`` and ``SHARED_RUNS``.
        """
        return self in (Outcomes.RUN_PER_SHOT, Outcomes.SHARED_RUNS)

    def get_outcome_code(self, derivative_order: int) -> int:
        """Return the integer by which the runtime knows this treatment of outcomes.

        It is the attribute ``tree`` of the handler ``bellhop_circuit_begin`` (``contract.toml``).

        Args:
            derivative_order: the order of differentiation, 0 for the value. Orders above 1 change
                ``ALL`` to ``ALL_WITH_IMPOSSIBLE``.
        """
        # Second derivatives also need the combinations of outcomes with probability zero.
        is_second = self is Outcomes.ALL and derivative_order > 1
        return (Outcomes.ALL_WITH_IMPOSSIBLE if is_second else self)._row["tree"]


class Offer(enum.Enum):
    """A value or derivative that an executor may compute for a kind of measurement.

    ``executors.toml`` lists the offers of each executor.

    Values:
        VALUE: the result.
        JACOBIAN: the Jacobian, by one adjoint sweep.
        VJP: the Jacobian's product with a cotangent.
        JVP: the Jacobian's product with a tangent, and the Jacobian's derivative along the tangent.
        SCORE: the derivative by the likelihood ratio of samples.
        ANY_ORDER: derivatives of any order by shift rules, which run the circuit again.
    """

    VALUE = "value"
    JACOBIAN = "jacobian"
    VJP = "vjp"
    JVP = "jvp"
    SCORE = "score"
    ANY_ORDER = "any_order"


def get_kind_code(kind: str) -> int:
    """Return the integer by which the runtime knows a kind of measurement.

    ``kind`` is a key of ``executors.toml``, such as ``"expval"``.
    """
    return _TABLES["measurements"][kind]["code"]


def is_offered(offer: Offer, kind: str, executor: Executor) -> bool:
    """Return whether an executor computes a value or a derivative of a measurement.

    The answer is read from the table ``executors.toml``.

    Args:
        offer: the value, or a derivative such as the Jacobian.
        kind: the kind of measurement, a key of ``executors.toml``, such as ``"expval"``.
        executor: ``ENGINE`` or ``PLUGIN``; the table has no others.
    """
    return offer.value in _TABLES["measurements"][kind][executor.value]
