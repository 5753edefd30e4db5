"""The name of a measurement process as users call it, such as ``expval``."""

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
        mp.DensityMatrixMP: "density_matrix",
        mp.PurityMP: "purity",
        mp.VnEntropyMP: "vn_entropy",
        mp.MutualInfoMP: "mutual_info",
        mp.ClassicalShadowMP: "classical_shadow",
        mp.ShadowExpvalMP: "shadow_expval",
    }
    return names.get(type(process), type(process).__name__)
