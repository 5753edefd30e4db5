"""``Randomness``: how a circuit treats random outcomes."""

import enum


class Randomness(enum.Enum):
    """How a circuit treats random outcomes.

    Values:
        NONE: the circuit draws no random numbers.
        SAMPLES: final measurements are sampled; no mid-circuit outcomes are drawn.
        OUTCOMES: mid-circuit outcomes are sampled in each execution.
        CONDITIONED: like OUTCOMES; executions are repeated until all postselections hold.
        ANEW: like CONDITIONED, for circuits whose gates may differ between executions.
        SHARED: mid-circuit outcomes are sampled for all shots, and shots with equal outcomes share
            one execution. Results are summed over executions.
        TREE: no sampling: the circuit is executed once for each combination of mid-circuit
            outcomes, and results are summed.
    """

    NONE = "none"
    SAMPLES = "samples"
    OUTCOMES = "outcomes"
    CONDITIONED = "conditioned"
    ANEW = "anew"
    SHARED = "shared"
    TREE = "tree"

    @property
    def is_drawn(self) -> bool:
        """Whether the circuit draws random numbers."""
        return self not in (Randomness.NONE, Randomness.TREE)

    @property
    def draws_for_each_shot(self) -> bool:
        """Whether mid-circuit outcomes are sampled in a separate execution for each shot."""
        return self.is_drawn and self not in (Randomness.SAMPLES, Randomness.SHARED)

    @property
    def is_summed(self) -> bool:
        """Whether results are sums over executions with different mid-circuit outcomes."""
        return self in (Randomness.TREE, Randomness.SHARED)

    def tree(self, derivative_order: int) -> int:
        """Return attribute ``tree`` of ``bellhop_circuit_begin`` (``contract.toml``).

        Args:
            derivative_order: the order of differentiation, 0 for the value.
        """
        # Second derivatives also need the combinations of outcomes with probability zero.
        enumeration = 2 if derivative_order > 1 else 1
        codes = {
            Randomness.TREE: enumeration,
            Randomness.CONDITIONED: 3,
            Randomness.ANEW: 4,
            Randomness.SHARED: 5,
        }
        return codes.get(self, 0)


OUTCOMES_ARE_DRAWN = (
    "the outcomes of its mid-circuit measurements are drawn, and gates in it are differentiated. "
    "On Lightning that is done with shots, for circuits that the runtime's engine runs, by "
    "diff_method='best'. Use such a one, a circuit without shots, or "
    "default.qubit with shots."
)
