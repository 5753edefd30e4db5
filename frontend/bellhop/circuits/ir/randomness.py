"""What becomes of the random outcomes of a circuit."""

import enum


class Randomness(enum.Enum):
    """What a circuit does about random outcomes.

    Values:
        NONE: nothing is random.
        SAMPLES: measurements at the end are computed from samples.
        OUTCOMES: the outcomes of mid-circuit measurements are drawn.
        CONDITIONED: as OUTCOMES, and the circuit runs until all postselections hold.
        ANEW: as CONDITIONED, for circuits whose gates may differ from run to run.
        SHARED: as OUTCOMES, by all shots, of which those with the same outcomes share a run: the
            circuit runs once for each combination that was drawn, and results are summed.
        TREE: nothing is drawn: the circuit runs once for each combination of outcomes, and results
            are summed.
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
        """Whether each run draws random numbers."""
        return self not in (Randomness.NONE, Randomness.TREE)

    @property
    def draws_for_each_shot(self) -> bool:
        """Whether outcomes of mid-circuit measurements are drawn, in a run for each shot."""
        return self.is_drawn and self not in (Randomness.SAMPLES, Randomness.SHARED)

    @property
    def is_summed(self) -> bool:
        """Whether results are sums over runs, which have other outcomes each."""
        return self in (Randomness.TREE, Randomness.SHARED)

    def tree(self, derivative_order: int) -> int:
        """Return the attribute ``tree`` of ``bellhop_circuit_begin``, see ``contract.toml``."""
        # A second derivative needs the combinations with probability zero too.
        of_tree = 2 if derivative_order > 1 else 1
        of_each = {
            Randomness.TREE: of_tree,
            Randomness.CONDITIONED: 3,
            Randomness.ANEW: 4,
            Randomness.SHARED: 5,
        }
        return of_each.get(self, 0)


OUTCOMES_ARE_DRAWN = (
    "the outcomes of its mid-circuit measurements are drawn, and gates in it are differentiated. "
    "On Lightning that is done with shots, for circuits that the runtime's engine runs, by "
    "diff_method='best'. Use such a one, a circuit without shots, or "
    "default.qubit with shots."
)
