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
    """What executes a circuit.

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
    """How a circuit treats random outcomes; ``executors.toml`` describes each value."""

    NONE = "none"
    SAMPLES = "samples"
    ONE_RUN = "one_run"
    RUN_PER_SHOT = "run_per_shot"
    ALL = "all"
    ALL_WITH_IMPOSSIBLE = "all_with_impossible"
    REPEATED = "repeated"
    REPEATED_ANEW = "repeated_anew"
    SHARED_RUNS = "shared_runs"

    # Why gates before drawn outcomes have no derivative, as the end of an error message.
    DRAWN_ERROR = enum.nonmember(
        "the outcomes of its mid-circuit measurements are drawn, and gates in it are "
        "differentiated. On Lightning, that is supported with shots and diff_method='best', for "
        "circuits that the runtime's engine executes. Use such a circuit, a circuit without "
        "shots, or default.qubit with shots."
    )

    @property
    def _row(self) -> dict[str, Any]:
        return _TABLES["outcomes"][self.value]

    @property
    def is_drawn(self) -> bool:
        """Whether the runtime draws random numbers."""
        return self._row.get("drawn", False)

    @property
    def is_mid_circuit(self) -> bool:
        """Whether the circuit has mid-circuit measurements."""
        return self not in (Outcomes.NONE, Outcomes.SAMPLES)

    @property
    def is_drawn_in_each_run(self) -> bool:
        """Whether each run of the circuit draws its mid-circuit outcomes."""
        return self.is_mid_circuit and not self.is_summed

    @property
    def is_summed(self) -> bool:
        """Whether results are sums over runs with different mid-circuit outcomes."""
        return self._row.get("summed", False)

    @property
    def is_for_shots(self) -> bool:
        """Whether shots, of a run each or of shared runs, decide the outcomes."""
        return self in (Outcomes.RUN_PER_SHOT, Outcomes.SHARED_RUNS)

    def get_tree(self, derivative_order: int) -> int:
        """Return attribute ``tree`` of ``bellhop_circuit_begin`` (``contract.toml``).

        Args:
            derivative_order: the order of differentiation, 0 for the value.
        """
        # Second derivatives also need the combinations of outcomes with probability zero.
        is_second = self is Outcomes.ALL and derivative_order > 1
        return (Outcomes.ALL_WITH_IMPOSSIBLE if is_second else self)._row["tree"]


class Offer(enum.Enum):
    """What an executor may offer for a kind of measurement; see ``executors.toml``."""

    VALUE = "value"
    JACOBIAN = "jacobian"
    VJP = "vjp"
    JVP = "jvp"
    SCORE = "score"
    ANY_ORDER = "any_order"


def get_kind_code(kind: str) -> int:
    """Return the first number of the code of a kind of measurement."""
    return _TABLES["measurements"][kind]["code"]


def is_offered(offer: Offer, kind: str, executor: Executor) -> bool:
    """Return whether an executor offers something for a kind of measurement.

    Args:
        offer: for instance the Jacobian.
        kind: the kind of measurement, a key of ``executors.toml``.
        executor: the engine or the plugin.
    """
    return offer.value in _TABLES["measurements"][kind][executor.value]
