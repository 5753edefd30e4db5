"""What users call a measurement process."""

from typing import Any

import pennylane.measurements as mp


def kind(process: Any) -> str:
    """Return the user's name of a measurement process, or that of its class."""
    names = {
        mp.ExpectationMP: "expval",
        mp.VarianceMP: "var",
        mp.ProbabilityMP: "probs",
        mp.SampleMP: "sample",
        mp.CountsMP: "counts",
        mp.StateMP: "state",
    }
    return names.get(type(process), type(process).__name__)
